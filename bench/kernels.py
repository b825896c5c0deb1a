"""The kernels and what stands on them, each against a peer or a limit in the same run.

    python -m bench.kernels [--cells 1000000] [--turns 5] [--json FILE]

Merge and resolution of eight sorted runs, against Arrow's and Polars' sort of the same cells: what
a store without kernels would do. Once with rows of their own for each run, and once with rows that
several runs have, whose cells have to be merged one by one. Polars sorts with all cores; ours cuts
the rows in two halves for two threads, as flushes and compactions do. Single kernels against the
bare machine or Arrow. Fragments against raw pyarrow, the log against bare ``fdatasync``, and how
long a fresh process needs until the first result of a kernel.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars
import pyarrow as pa

from bench import fragments, log
from bench.harness import Row, best_of, faster, report, seconds, slower
from bench.storage_data import FAMILY, QUALIFIERS, VALUE_BYTES, row_key, row_numbers
from stele.kernels.block import Block
from stele.kernels.compact import CompactionPlan, compact
from stele.kernels.order import block_disorder
from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.search import slice_rows
from stele.kernels.selection import Selection
from stele.kernels.sources import Source
from stele.model import cell_order
from stele.model.cells import CELLS, Op
from stele.model.ranges import RowRange
from stele.tablet.parallel import PARTS_MAX, halves

RUNS = 8
ERASED_PART = 0.02
START_UP_LIMIT_SECONDS = 1.0

_PROBE = """
from stele.kernels.block import Block
from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.sources import Source
from stele.model.cells import Cell, cells_to_batch
cells = cells_to_batch([Cell(b"a", "f", b"q", 1, b"v", txn=1)])
assert merge_resolve([Source(Block.from_batch(cells))], ReadView()).cells == 1
"""


def sorted_runs(cells: int, *, shared: bool = False) -> list[Block]:
    """Eight sorted runs over the same row space, two parts in a hundred erasures.

    If rows are ``shared``, two in five of them are in more than one run.
    """
    dice = np.random.default_rng(3)
    numbers = row_numbers(cells // len(QUALIFIERS))
    parts = np.array_split(numbers, RUNS)
    if shared:
        parts = [dice.choice(numbers, len(part), replace=False) for part in parts]
    return [_run(np.sort(part), 1_000_000 + txn, dice) for txn, part in enumerate(parts)]


def _run(numbers: npt.NDArray[np.int64], txn: int, dice: np.random.Generator) -> Block:
    count = len(numbers) * len(QUALIFIERS)
    noise = dice.bytes(count * VALUE_BYTES // 2)
    half = VALUE_BYTES // 2
    erased = dice.random(count) < ERASED_PART
    values = [
        b"" if gone else noise[at : at + half] * 2
        for gone, at in zip(erased.tolist(), range(0, len(noise), half), strict=True)
    ]
    family = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int16)), [FAMILY])
    ops = np.where(erased, int(Op.ERASE_COLUMN), int(Op.PUT)).astype(np.int8)
    return Block.from_batch(
        pa.RecordBatch.from_arrays(
            [
                pa.array([row_key(int(n)) for n in numbers for _ in QUALIFIERS], pa.binary()),
                family,
                pa.array(list(QUALIFIERS) * len(numbers), pa.binary()),
                pa.array(np.full(count, txn, np.int64)),
                pa.array(np.full(count, txn, np.int64)),
                pa.array(ops),
                pa.array(values, pa.binary()),
            ],
            schema=CELLS,
        )
    )


def merge_rows(cells: int, turns: int, *, shared: bool) -> list[Row]:
    """Merge, resolution and gathering against sorting the same cells."""
    blocks = sorted_runs(cells, shared=shared)
    whole = pa.Table.from_batches([block.batch for block in blocks])
    plain = whole.set_column(1, "family", whole.column("family").cast(pa.utf8()))
    frame = polars.from_arrow(plain)
    assert isinstance(frame, polars.DataFrame)
    keys = ["row", "family", "qualifier", "timestamp", "txn"]
    falling = [False, False, False, True, True]

    pool = ThreadPoolExecutor(PARTS_MAX)

    def in_halves(work: Callable[[list[Source]], Selection]) -> None:
        def half(rows: RowRange) -> list[Block]:
            return work([Source(slice_rows(block, rows)) for block in blocks]).gather()

        deque(pool.map(half, halves(blocks)), maxlen=0)

    def read() -> None:
        in_halves(lambda sources: merge_resolve(sources, ReadView(versions=1)))

    def read_alone() -> None:
        merge_resolve([Source(block) for block in blocks], ReadView(versions=1)).gather()

    def rewrite() -> None:
        in_halves(lambda sources: compact(sources, CompactionPlan(horizon=1 << 62, rooted=True)))

    def by_arrow() -> None:
        order = ["descending" if down else "ascending" for down in falling]
        plain.sort_by(list(zip(keys, order, strict=True)))

    def by_polars() -> None:
        frame.sort(keys, descending=falling)

    read()
    rewrite()
    ours, alone, compacted, arrow, sorted_polars = best_of(
        turns, read, read_alone, rewrite, by_arrow, by_polars
    )
    pool.shutdown()
    count = whole.num_rows
    kind = "with rows in common" if shared else "with rows of their own"
    name = f"merge, resolve, gather {RUNS} runs {kind}, against"
    return [
        faster(f"{name} Polars' sort", count / ours, count / sorted_polars, "cells/s", 4.0),
        faster(f"{name} Polars' sort, one thread", count / alone, count / sorted_polars, "cells/s"),
        faster(f"{name} Arrow's sort", count / ours, count / arrow, "cells/s"),
        faster(
            f"compact {RUNS} runs {kind}, against Polars' sort",
            count / compacted,
            count / sorted_polars,
            "cells/s",
        ),
    ]


def single_rows(cells: int, turns: int) -> list[Row]:
    """Single kernels, each against what else there is for its work."""
    blocks = sorted_runs(cells, shared=True)
    sources, count = [Source(block) for block in blocks], sum(block.count for block in blocks)
    selection = merge_resolve(sources, ReadView(versions=1))
    (gathered,) = selection.gather()
    source = np.zeros(gathered.nbytes, np.uint8)
    target = np.empty_like(source)
    batch = gathered.batch

    order, plain_order = best_of(
        turns,
        lambda: block_disorder(gathered),
        lambda: cell_order.first_disorder(batch),
    )
    merged, gather, copied = best_of(
        turns,
        lambda: merge_resolve(sources, ReadView(versions=1)),
        selection.gather,
        lambda: np.copyto(target, source),
    )
    return [
        faster(
            "order check against Arrow and numpy",
            gathered.count / order,
            gathered.count / plain_order,
            "cells/s",
        ),
        faster(
            "merge and resolve to runs against the whole with gathering",
            count / merged,
            count / (merged + gather),
            "cells/s",
        ),
        faster(
            "gather short runs against memcpy of as many bytes",
            gathered.nbytes / gather / 1e6,
            gathered.nbytes / copied / 1e6,
            "MB/s",
        ),
    ]


def start_up_row(turns: int) -> Row:
    """A fresh process to its first result, the cache of compiled kernels being warm."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def probe() -> None:
        subprocess.run([sys.executable, "-c", _PROBE], check=True, env=environment)

    probe()
    took = min(seconds(probe) for _ in range(turns))
    return slower(
        "kernels ready in a fresh process, warm cache, against one second",
        took * 1e3,
        START_UP_LIMIT_SECONDS * 1e3,
        "ms",
        1.0,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the rows here, one JSON object a line")
    given = parser.parse_args(arguments)
    found = [
        *merge_rows(given.cells, given.turns, shared=False),
        *merge_rows(given.cells, given.turns, shared=True),
        *single_rows(given.cells, given.turns),
        *fragments.rows(fragments.Options(cells=given.cells // 2, rounds=given.turns)),
        *log.rows(log.Options()),
        start_up_row(given.turns),
    ]
    report(found, given.json)


if __name__ == "__main__":
    main()
