"""How much memory a store takes whose table is four times as large as its budget.

    python -m bench.storage_memory DIRECTORY CELLS

A process of its own writes the table in batches, compacts it, scans it and reads random rows, and
says how large it ever was. The budget is what memory and cache may take together; 300 MB on top are
for the program itself, its libraries, and what is under way.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.harness import Row, slower
from bench.storage_data import QUALIFIERS, VALUE_BYTES, Batch, batches, row_key
from bench.storage_store import Options, Stele, to_arrow
from stele.model.predicates import CellSpec
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.options import EngineOptions

TIMES_THE_BUDGET = 4
ALLOWANCE_BYTES = 300_000_000
CELL_BYTES = 16 + 4 + VALUE_BYTES + 17
"""Row, qualifier, value, and two times of eight bytes with an op: a cell uncompressed."""
RANDOM_GETS = 20_000
PIECE_ROWS = 100_000
NUMBERS = 999_999_000_001
STRIDE = 611_953
"""Row numbers are multiples of the stride modulo the first, which has no divisor in common."""

Numbers = npt.NDArray[np.int64]


def budget_bytes(cells: int) -> int:
    return cells * CELL_BYTES // TIMES_THE_BUDGET


def memory_rows(options: Options) -> list[Row]:
    """Let a child do the work and hold its peak against the budget with the allowance."""
    directory = options.directory / "stele-memory"
    child = [sys.executable, "-m", "bench.storage_memory", str(directory), str(options.cells)]
    done = subprocess.run(child, stdout=subprocess.PIPE, check=True)
    peak, empty = (json.loads(done.stdout)[name] for name in ("peak_bytes", "empty_bytes"))
    allowed = budget_bytes(options.cells) + ALLOWANCE_BYTES
    name = f"peak memory, table {TIMES_THE_BUDGET} times the budget, against budget and 300 MB,"
    return [
        slower(f"{name} over an empty store", (peak - empty) / 1e6, allowed / 1e6, "MB", 1.0),
        slower(f"{name} the whole process", peak / 1e6, allowed / 1e6, "MB", 1.0),
    ]


def numbers(rows: Numbers) -> Numbers:
    """Distinct numbers in no order, each from its place: all of them would be counted as well."""
    return rows * STRIDE % NUMBERS


def work(cells: int) -> Iterator[Batch]:
    """The table's data, made piece by piece."""
    rows = cells // len(QUALIFIERS)
    for start in range(0, rows, PIECE_ROWS):
        yield from batches(numbers(np.arange(start, min(start + PIECE_ROWS, rows))))


def peak_bytes() -> int:
    """The most memory this process ever had; not that of whoever started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "VmHWM":
            return int(rest.split()[0]) * 1024
    raise OSError("/proc/self/status does not say VmHWM")


def main(directory: str, cells: int) -> None:
    budget = budget_bytes(cells)
    flush = FlushLimits(memory_bytes=budget // 8, budget_bytes=budget // 2)
    store = Stele(Path(directory), options=EngineOptions(flush=flush, cache_bytes=budget // 2))
    empty = peak_bytes()
    store.write(map(to_arrow, work(cells)))
    store.table.flush()
    store.table.compact()
    store.scan()
    spec = CellSpec()
    chosen = np.random.default_rng(3).integers(0, cells // len(QUALIFIERS), RANDOM_GETS)
    for number in numbers(chosen).tolist():
        store.table.read_row(row_key(number), spec)
    store.close()
    sys.stdout.write(json.dumps({"peak_bytes": peak_bytes(), "empty_bytes": empty}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
