"""What ``test_memory`` runs in a process of its own: a table many times the budget of its store.

It prints how far the resident memory rose above that of a store which has done all of this once
with little data, so that interpreter, libraries and kernels do not count.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from contextlib import suppress
from pathlib import Path

from stele.cluster.embedded import EmbeddedBackend, open_embedded
from stele.cluster.embedded_table import EmbeddedTable
from stele.errors import Throttled
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from stele.model.schema import Schema
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.options import EngineOptions

MIB = 1 << 20
BUDGET_BYTES = 8 * MIB
CACHE_BYTES = 4 * MIB
TABLE_BYTES = 256 * MIB
WARM_BYTES = 4 * MIB
VALUE_BYTES = 150
BATCH_CELLS = 2_000
RETRY_S = 0.002

OPTIONS = EngineOptions(
    flush=FlushLimits(memory_bytes=BUDGET_BYTES // 2, budget_bytes=BUDGET_BYTES),
    cache_bytes=CACHE_BYTES,
    log_file_bytes=MIB,
)
SCHEMA = Schema([Group("all", compression="none", block_cells=256)])


def resident_bytes(name: str) -> int:
    """``VmRSS`` is how much there is, ``VmHWM`` how much there was at most."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"the system does not tell {name}")


def forget_the_peak() -> None:
    with suppress(OSError):  # where it is not allowed, what came before counts as well
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def fill(table: EmbeddedTable, size_bytes: int) -> int:
    dice = random.Random(1)
    pause = threading.Event()
    cells = size_bytes // VALUE_BYTES
    for first in range(0, cells, BATCH_CELLS):
        batch = MutationBatch()
        for number in range(first, first + BATCH_CELLS):
            # All over the table, so that files overlap and compactions have to merge them.
            row = b"%016x" % (number * 0x9E3779B97F4A7C15 % (1 << 64))
            batch.put(row, "f", b"q", dice.randbytes(VALUE_BYTES))
        while True:
            try:
                table.apply(batch).wait()
                break
            except Throttled:
                pause.wait(RETRY_S)
    return first + BATCH_CELLS


def live(backend: EmbeddedBackend, name: str, size_bytes: int) -> dict[str, int]:
    """Write, compact and read a table; its cells, and the peaks of the two halves."""
    table = backend.create_table(name, SCHEMA)
    cells = fill(table, size_bytes)
    table.compact()
    written = resident_bytes("VmHWM")
    forget_the_peak()
    found = sum(batch.num_rows for batch in table.scan(ScanSpec()))
    assert found == cells, f"{found} of {cells} cells are found"
    return {"cells": cells, "written": written, "scanned": resident_bytes("VmHWM")}


def main(root: str) -> None:
    backend = open_embedded(root, OPTIONS)
    live(backend, "little", WARM_BYTES)
    before = resident_bytes("VmRSS")
    forget_the_peak()
    told = live(backend, "much", TABLE_BYTES)
    backend.close()
    print(json.dumps({**told, "before": before}))


if __name__ == "__main__":
    main(sys.argv[1])
