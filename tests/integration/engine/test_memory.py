"""The memory of a store is bounded by its options, however large its tables are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.integration.engine import memory_workload
from tests.integration.engine.memory_workload import BUDGET_BYTES, CACHE_BYTES, MIB, TABLE_BYTES

BESIDE_BYTES = 116 * MIB
"""What is in work beside budget and cache: the memory that is being flushed as blocks, a block of
each source and some encoded groups of two compactions, and what allocators keep for the next one.
It is 25 MiB on a busy machine, where little happens at once, and up to 76 MiB on one at rest."""

BATCHES_BYTES = 4 * 65_536 * 200
"""A scan has a batch with its reader, one in the making, and the blocks both are made of; a batch
has up to 65,536 cells of about 200 bytes here."""

TIMEOUT_S = 300


def test_a_table_many_times_the_budget_is_written_compacted_and_read_within_it(
    tmp_path: Path,
) -> None:
    bound = BUDGET_BYTES + CACHE_BYTES + BESIDE_BYTES
    assert 2 * bound <= TABLE_BYTES, "a store that kept its table in memory would be noticed"
    ended = subprocess.run(
        [sys.executable, "-m", memory_workload.__name__, str(tmp_path / "data")],
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4_000:]
    told = json.loads(ended.stdout)
    print(told)
    assert told["cells"] * memory_workload.VALUE_BYTES >= 0.9 * TABLE_BYTES
    assert told["written"] - told["before"] <= bound
    assert told["scanned"] - told["before"] <= bound + BATCHES_BYTES
