"""Files, cache and the point-read kernel together: rows are right while blocks come and go."""

from __future__ import annotations

import threading

import numpy as np

from stele.kernels.point_index import PointFragment, PointIndex
from stele.kernels.point_reader import PointReader
from stele.kernels.resolve import ReadView
from stele.model.cells import Cell
from stele.storage.block_cache import BlockCache, FragmentBlocks
from stele.storage.cache_priority import Priority
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from tests.unit.storage.fragment_cases import new_fs, open_info, plain_cells, write

CELLS = plain_cells(2_000, per_row=4)
VIEW = ReadView(txn=1 << 40)
ROWS = sorted({cell.row for cell in CELLS})


def opened(blocks_kept: int) -> tuple[FragmentReader, FragmentBlocks, PointIndex, BlockCache]:
    fs = new_fs()
    (info,) = write(fs, CELLS, FragmentOptions(block_cells=64))
    reader = open_info(fs, info)
    sizes = reader.index.block_sizes
    cache = BlockCache(blocks_kept * max(sizes))
    blocks = cache.attach(info.name, sizes, reader.read_block, Priority.ON_DEMAND)
    fragment = PointFragment(reader.index.rows, blocks, reader.summary.families)
    return reader, blocks, PointIndex([fragment]), cache


def expected(row: bytes) -> list[Cell]:
    return [cell for cell in CELLS if cell.row == row]


def test_every_row_through_a_cache_that_is_too_small() -> None:
    _, blocks, index, cache = opened(blocks_kept=3)
    points = PointReader(index, VIEW)
    for row in ROWS:
        found = points.get(row)
        assert found is not None
        assert found.cells() == expected(row)
    assert points.get(b"no such row") is None
    assert sum(block is not None for block in blocks.blocks) <= 3
    cache.check_invariants()


def test_a_hit_in_the_kernel_counts_as_a_use() -> None:
    _, blocks, index, _ = opened(blocks_kept=40)
    points = PointReader(index, VIEW)
    points.get(ROWS[0])
    blocks.used[:] = 0
    points.get(ROWS[0])
    assert blocks.used.tolist()[:2] == [1, 0]


def test_threads_read_while_blocks_are_dropped() -> None:
    _, _, index, cache = opened(blocks_kept=2)
    wanted = {row: expected(row) for row in ROWS[::7]}
    wrong: list[bytes] = []
    seeds = iter(range(10))

    def work() -> None:
        points = PointReader(index, VIEW)
        dice = np.random.default_rng(next(seeds))
        for row in dice.permutation(list(wanted)):
            found = points.get(bytes(row))
            if found is None or found.cells() != wanted[bytes(row)]:
                wrong.append(bytes(row))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    cache.check_invariants()
