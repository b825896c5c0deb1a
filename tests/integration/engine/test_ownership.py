"""One process owns a directory; whoever else comes is told so, and does no harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stele.cluster.embedded import open_embedded
from stele.errors import DirectoryInUse
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from stele.model.schema import Schema

OPEN_IT = """
import sys
from stele.cluster.embedded import open_embedded
from stele.errors import DirectoryInUse
try:
    open_embedded(sys.argv[1]).close()
except DirectoryInUse as error:
    print(error)
    sys.exit(7)
"""


def opened_by_another(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OPEN_IT, str(root)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[3],
        check=False,
    )


def test_a_second_process_is_refused_with_a_sentence(tmp_path: Path) -> None:
    root = tmp_path / "data"
    backend = open_embedded(str(root))
    table = backend.create_table("t", Schema())
    batch = MutationBatch()
    batch.put(b"row", "f", b"q", b"value")
    table.apply(batch).wait()
    other = opened_by_another(root)
    assert other.returncode == 7, other.stderr
    assert str(root) in other.stdout
    assert "another process" in other.stdout
    assert [batch.num_rows for batch in table.scan(ScanSpec())] == [1]
    table.apply(batch).wait()
    backend.close()
    assert opened_by_another(root).returncode == 0


def test_a_second_open_in_the_same_process_is_refused(tmp_path: Path) -> None:
    backend = open_embedded(str(tmp_path / "data"))
    with pytest.raises(DirectoryInUse):
        open_embedded(str(tmp_path / "data"))
    backend.close()
    open_embedded(str(tmp_path / "data")).close()
