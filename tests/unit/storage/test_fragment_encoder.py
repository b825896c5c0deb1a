"""Row groups as bytes: the pages are those that pyarrow writes, and nothing of one leaks on."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings

from stele.kernels.block import Block
from stele.kernels.parquet_thrift import ALL_PAGES, BODY, COMPRESSED, FAMILY_PAGE, UNCOMPRESSED
from stele.model.cells import Cell, cells_to_batch
from stele.storage.fragment_encoder import EncodedGroup, GroupEncoder
from stele.storage.fragment_options import FragmentOptions
from tests.unit.kernels import parquet_oracle as oracle
from tests.unit.storage.arrow_fragments import parquet_arguments
from tests.unit.storage.fragment_cases import SORTED_CELLS, plain_cells


def block_of(cells: list[Cell]) -> Block:
    return Block.from_batch(cells_to_batch(cells))


def whole(group: EncodedGroup) -> bytes:
    return group.keys + group.value_header + group.value


@settings(max_examples=60)
@given(SORTED_CELLS)
def test_the_pages_are_those_in_plain_python(cells: list[Cell]) -> None:
    group = GroupEncoder("none").encode([block_of(cells)])
    status, table = oracle.walk(whole(group), len(cells))
    assert status == group.raw_bytes > 0
    sizes = group.page_sizes.reshape(ALL_PAGES, 2)
    assert int(sizes[:, 1].sum()) == len(whole(group))
    for page, entry in enumerate(table):
        header = int(sizes[page, 1]) - entry[COMPRESSED]
        assert sizes[page, 0] - header == entry[UNCOMPRESSED]


def test_bodies_are_pyarrows_byte_by_byte() -> None:
    """But for the codes of families, which pyarrow writes in another mixture of runs."""
    cells = plain_cells(300)
    sink = io.BytesIO()
    arguments = parquet_arguments(FragmentOptions(compression="none"))
    with pq.ParquetWriter(sink, **arguments) as writer:
        writer.write_table(pa.Table.from_batches([cells_to_batch(cells)]))
    footer = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0)
    sizes = [footer.column(column).total_compressed_size for column in range(7)]
    theirs = sink.getvalue()[4 : 4 + sum(sizes)]
    ours = whole(GroupEncoder("none").encode([block_of(cells)]))
    for page in set(range(ALL_PAGES)) - {FAMILY_PAGE}:
        assert body(ours, page, len(cells)) == body(theirs, page, len(cells))


def body(group: bytes, page: int, cells: int) -> bytes:
    _, table = oracle.walk(group, cells)
    start = table[page][BODY]
    return group[start : start + table[page][COMPRESSED]]


def test_a_group_of_several_parts_is_that_of_one() -> None:
    cells = [*plain_cells(40), *[Cell(b"s%02d" % at, "zz", b"q", 1, b"v") for at in range(9)]]
    together = GroupEncoder("zstd").encode([block_of(cells)])
    apart = GroupEncoder("zstd").encode(
        [block_of(cells[:10]), block_of(cells[10:43]), block_of(cells[43:])]
    )
    assert whole(apart) == whole(together)


def test_one_group_leaves_nothing_behind_for_the_next() -> None:
    encoder = GroupEncoder("zstd")
    large, small = plain_cells(4_000, value=b"large" * 40), plain_cells(10)
    other = [Cell(b"r", "another family", b"q", 1)]
    for cells in (large, small, other, small, large):
        fresh = GroupEncoder("zstd").encode([block_of(cells)])
        assert whole(encoder.encode([block_of(cells)])) == whole(fresh)


def test_the_memory_of_a_huge_value_is_not_kept() -> None:
    encoder = GroupEncoder("none")
    huge = [Cell(b"r", "f", b"q", 1, bytes(9 << 20))]
    assert len(encoder.encode([block_of(huge)]).value) > 9 << 20
    assert encoder._arena is None
    encoder.encode([block_of(plain_cells(10))])
    assert encoder._arena is not None
