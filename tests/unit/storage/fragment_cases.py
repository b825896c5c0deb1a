"""Cells and fragments for the tests of fragments: nasty ones, many ones, quick ways to write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from stele.env.memory_fs import MemoryFileSystem
from stele.kernels.block import Block
from stele.model.cells import (
    ROW_ERASURE_FAMILY,
    TIMESTAMP_MAX,
    TIMESTAMP_MIN,
    Cell,
    Op,
    batch_to_cells,
    cells_to_batch,
)
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_writer import write_fragment

DIRECTORY = "fragments"
TABLE = "table-1"

ROWS = st.one_of(
    st.sampled_from([b"\x00", b"\x00\x00", b"a", b"a\x00", b"ab", b"b", b"\xff", b"\xff\xff"]),
    st.binary(min_size=1, max_size=3),
    st.integers(0, 30).map(lambda number: b"a common prefix/%04d" % number),
)
STAMPS = st.one_of(st.sampled_from([TIMESTAMP_MIN, -1, 0, 1, TIMESTAMP_MAX]), st.integers(-3, 3))
TEXTS = st.one_of(
    st.sampled_from([b"", b"\x00", b"\xff", b"\x00" * 9, b"\xff" * 300]), st.binary(max_size=6)
)
FAMILIES = st.sampled_from(["a", "b", "info", "ä", "z" * 20])


@st.composite
def any_cell(draw: st.DrawFn) -> Cell:
    """A legal cell of any kind, with coordinates that collide often."""
    op = draw(st.sampled_from([*Op, Op.PUT, Op.PUT, Op.PUT]))
    family = ROW_ERASURE_FAMILY if op is Op.ERASE_ROW else draw(FAMILIES)
    qualifier = b"" if op in (Op.ERASE_ROW, Op.ERASE_FAMILY) else draw(TEXTS)
    value = draw(TEXTS) if op is Op.PUT else b""
    return Cell(draw(ROWS), family, qualifier, draw(STAMPS), value, op, draw(STAMPS))


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Sorted, and each key once."""
    return [cell for _, cell in sorted({cell.key(): cell for cell in cells}.items())]


SORTED_CELLS = st.lists(any_cell(), min_size=1, max_size=120).map(in_order)

SMALL = FragmentOptions(block_cells=16)


def plain_cells(count: int, *, per_row: int = 4, value: bytes = b"value") -> list[Cell]:
    """Rows of a few columns each, as most tables have them."""
    return [
        Cell(
            b"row%07d" % (at // per_row),
            "info",
            b"q%05d" % (at % per_row),
            1_000 + at,
            value,
            txn=at,
        )
        for at in range(count)
    ]


def to_blocks(cells: Sequence[Cell], size: int | None = None) -> list[Block]:
    """The cells as one block, or as blocks of a size."""
    step = size or max(len(cells), 1)
    return [
        Block.from_batch(cells_to_batch(cells[at : at + step])) for at in range(0, len(cells), step)
    ]


def new_fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    return fs


def write(
    fs: MemoryFileSystem,
    cells: Sequence[Cell],
    options: FragmentOptions = SMALL,
    *,
    block_size: int | None = None,
    session: str = "session-1",
    **arguments: Any,
) -> tuple[FragmentInfo, ...]:
    """Write cells as a fragment."""
    return write_fragment(
        fs,
        DIRECTORY,
        NameSequence(session),
        to_blocks(cells, block_size),
        table=TABLE,
        options=options,
        **arguments,
    )


def path_of(info: FragmentInfo) -> str:
    return f"{DIRECTORY}/{info.name}"


def open_info(fs: MemoryFileSystem, info: FragmentInfo, **arguments: Any) -> FragmentReader:
    return FragmentReader.open(fs, path_of(info), info, **arguments)


def cells_of(blocks: Iterable[Block]) -> list[Cell]:
    return [cell for block in blocks for cell in batch_to_cells(block.batch)]


def read_all(fs: MemoryFileSystem, infos: Iterable[FragmentInfo], **arguments: Any) -> list[Cell]:
    """All cells of a run of files."""
    cells: list[Cell] = []
    for info in infos:
        with open_info(fs, info, **arguments) as reader:
            cells += cells_of(reader.blocks())
    return cells
