"""The layout of a message: as pyarrow would write it."""

from __future__ import annotations

import struct
from ctypes import string_at

import pyarrow as pa
import pytest

from stele.kernels.block import Block
from stele.kernels.message_layout import BUFFERS, NODES, message_layout
from stele.model.cells import MUTATIONS, Cell, cells_to_batch

SCHEMA = MUTATIONS.set(1, pa.field("family", pa.int16(), nullable=False))


def block_of(count: int) -> Block:
    cells = [
        Cell(b"row%d" % n, "fg"[n % 2], b"q" * n, 9, b"v" * (n % 5), txn=9) for n in range(count)
    ]
    return Block.from_batch(cells_to_batch(cells))


def plainly(block: Block) -> bytes:
    """The body that pyarrow makes of the same columns."""
    columns = [block.batch.column(name) for name in SCHEMA.names]
    columns[1] = columns[1].indices
    # Slices are copied, so that their offsets count from the beginning.
    columns = [pa.concat_arrays([column, column.slice(0, 0)]) for column in columns]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    body: bytes = pa.ipc.read_message(batch.serialize()).body.to_pybytes()
    return body


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 64])
def test_pieces_and_numbers_agree(count: int) -> None:
    whole = block_of(count)
    for block in (whole, whole.slice(count // 2, count), whole.slice(0, 1)):
        layout = message_layout(block)
        numbers = struct.unpack(f"<{2 * NODES}q4xI{2 * BUFFERS}q", layout.pairs)
        assert numbers[: 2 * NODES] == (block.count, 0) * NODES
        assert numbers[2 * NODES] == BUFFERS
        places = list(zip(numbers[2 * NODES + 1 :: 2], numbers[2 * NODES + 2 :: 2], strict=True))
        assert [size for _, size in places if size] == [size for _, size in layout.pieces]
        body = bytearray(layout.body_bytes)
        filled = (place for place in places if place[1])
        for (address, size), (at, _) in zip(layout.pieces, filled, strict=True):
            assert at % 8 == 0
            body[at : at + size] = string_at(address, size)
        assert len(body) % 8 == 0
        assert _columns(bytes(body), places) == _columns(plainly(block), _places_of(block))


def _places_of(block: Block) -> list[tuple[int, int]]:
    """Sizes are given by the cells, and pyarrow aligns to eight as well."""
    at, places = 0, []
    for size in (size for size in _sizes(block)):
        places.append((at, size))
        at += -(-size // 8) * 8
    return places


def _sizes(block: Block) -> list[int]:
    count = block.count
    rows, qualifiers, values = (
        sum(map(len, block.batch.column(name).to_pylist()))
        for name in ("row", "qualifier", "value")
    )
    ends = 4 * (count + 1)
    return [
        0,
        ends,
        rows,
        0,
        2 * count,
        0,
        ends,
        qualifiers,
        0,
        8 * count,
        0,
        count,
        0,
        ends,
        values,
    ]


def _columns(body: bytes, places: list[tuple[int, int]]) -> list[bytes]:
    return [body[at : at + size] for at, size in places]


def test_whole_blocks_are_not_copied_at_all() -> None:
    block = block_of(9)
    layout = message_layout(block)
    assert layout.block is block
    own = {
        buffer.address for column in block.batch.columns for buffer in column.buffers() if buffer
    }
    assert {address for address, _ in layout.pieces} <= own


def test_of_a_slice_only_the_offsets_are() -> None:
    part = block_of(9).slice(2, 9)
    layout = message_layout(part)
    buffers = [buffer for column in part.batch.columns for buffer in column.buffers() if buffer]
    copied = [
        size
        for address, size in layout.pieces
        if not any(one.address <= address < one.address + one.size for one in buffers)
    ]
    assert copied == [4 * (7 + 1)] * 3


def test_no_cells() -> None:
    layout = message_layout(Block.from_batch(cells_to_batch([])))
    assert [size for _, size in layout.pieces] == [4, 4, 4]
    assert layout.body_bytes == 3 * 8
