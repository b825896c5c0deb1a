"""`make demo` keeps its word, on less data and without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_demo_ends_as_promised(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "scripts.demo", "--cells", "8000", "--no-spark"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "src", "TMPDIR": str(tmp_path)},
        cwd=ROOT,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "7,999 cells, one deleted, none lost" in ended.stdout
    assert "Everything is as promised." in ended.stdout
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"
