"""The decoding kernel against encoders in plain Python, and against damaged pages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import Block
from stele.kernels.parquet_pages import (
    BAD_FAMILIES,
    BAD_OPS,
    BAD_QUALIFIERS,
    BAD_ROWS,
    BAD_VALUES,
    DECODE_REASONS,
)
from stele.kernels.parquet_thrift import KEY_PAGES
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN, Cell, Op, batch_to_cells
from tests.unit.kernels import parquet_oracle as oracle

INT64 = st.integers(TIMESTAMP_MIN, TIMESTAMP_MAX)
STRINGS = st.one_of(
    st.binary(max_size=4),
    st.sampled_from([b"", b"\x00", b"\xff" * 9, b"\x00" * 300, b"common prefix " * 3]),
)
FAMILIES = ["", "a", "b", "info", "x" * 40, "é"]
ANY_CELL = st.builds(
    Cell, STRINGS, st.sampled_from(FAMILIES), STRINGS, INT64, STRINGS, st.sampled_from(Op), INT64
)
SHAPES = st.sampled_from([(128, 4), (128, 1), (128, 2), (256, 8), (256, 1), (1024, 32)])


def decoded(cells: list[Cell], pages: oracle.Pages, *, values: bool = True) -> list[Cell]:
    block = oracle.decode(
        pages.encode() if values else pages.encode(KEY_PAGES), pages, values=values
    )
    assert isinstance(block, Block), DECODE_REASONS[block]
    assert block.count == len(cells)
    block.batch.validate(full=True)
    return batch_to_cells(block.batch)


@settings(max_examples=150)
@given(
    st.lists(ANY_CELL, min_size=1, max_size=300), SHAPES, st.lists(st.integers(1, 3), max_size=4)
)
def test_decoding_gives_back_what_was_encoded(
    cells: list[Cell], shape: tuple[int, int], runs: list[int]
) -> None:
    assert decoded(cells, oracle.make_pages(cells, *shape, runs)) == cells


@settings(max_examples=50)
@given(st.lists(ANY_CELL, min_size=1, max_size=300))
def test_keys_alone_have_empty_values(cells: list[Cell]) -> None:
    pages = oracle.make_pages(cells)
    bare = [Cell(c.row, c.family, c.qualifier, c.timestamp, b"", c.op, c.txn) for c in cells]
    assert decoded(cells, pages, values=False) == bare


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 127, 128, 129, 130, 4_096])
@pytest.mark.parametrize("spread", [0, 1, 7, 255, 60_000])
def test_counts_around_the_borders_of_miniblocks(count: int, spread: int) -> None:
    cells = [
        Cell(b"r", "f", b"q" * (at * spread % 997 if spread else 3), at) for at in range(count)
    ]
    assert decoded(cells, oracle.make_pages(cells)) == cells


@pytest.mark.parametrize("families", [1, 2, 3, 255, 256, 257, 1_000])
def test_dictionaries_of_every_width(families: int) -> None:
    cells = [Cell(b"r", f"f{at % families:04}", b"q", at) for at in range(2 * families)]
    assert decoded(cells, oracle.make_pages(cells, runs=[3, 1])) == cells


def test_integers_stay_where_they_were_decompressed() -> None:
    cells = [Cell(b"r", "f", b"q", at, b"v", txn=-at) for at in range(10)]
    pages = oracle.make_pages(cells)
    block = oracle.decode(pages.encode(), pages)
    assert isinstance(block, Block)
    arena = block.owner
    assert isinstance(arena, np.ndarray)
    start = arena.ctypes.data
    assert all(start <= int(address) < start + arena.nbytes for address in block.descriptor[:10])


def _cells(count: int = 40) -> list[Cell]:
    return [Cell(b"row%03d" % at, "ab"[at % 2], b"q" * at, at, b"v" * at) for at in range(count)]


def _refused(page: int, body: bytes) -> int:
    pages = oracle.make_pages(_cells())
    pages.bodies[page] = body
    status = oracle.decode(pages.encode(), pages)
    assert isinstance(status, int), "damaged pages were decoded"
    return status


LENGTHS = [len(cell.row) for cell in _cells()]
BYTES = b"".join(cell.row for cell in _cells())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        oracle.delta_packed(LENGTHS),  # no bytes
        oracle.delta_packed(LENGTHS) + BYTES + b"x",  # one byte too many
        oracle.delta_packed(LENGTHS) + BYTES[:-1],  # one too few
        oracle.delta_packed(LENGTHS[:-1]) + BYTES,  # fewer lengths than cells
        oracle.delta_packed([*LENGTHS, 0]) + BYTES,  # more
        oracle.delta_packed([-1, 7 + LENGTHS[1], *LENGTHS[2:]]) + BYTES,  # a negative length
        oracle.delta_packed([LENGTHS[0], -3, *LENGTHS[2:]]) + BYTES,
        oracle.delta_packed([1 << 31, *LENGTHS[1:]]) + BYTES,
        oracle.delta_packed([(1 << 62) + 1] * 40) + BYTES,  # sums that wrap around
        oracle.varint(100) + oracle.delta_packed(LENGTHS)[2:] + BYTES,  # an odd block size
        oracle.varint(0) + oracle.delta_packed(LENGTHS)[2:] + BYTES,
        oracle.varint(128) + oracle.varint(0) + oracle.delta_packed(LENGTHS)[3:] + BYTES,
        oracle.varint(128) + oracle.varint(8) + oracle.delta_packed(LENGTHS)[3:] + BYTES,
        oracle.varint(128) + oracle.varint(3) + oracle.delta_packed(LENGTHS)[3:] + BYTES,
        oracle.delta_packed(LENGTHS)[:5],  # cut off in the widths
        oracle.delta_packed([0, 5] * 20)[:-1],  # cut off in the packed bits
        oracle.delta_packed(LENGTHS)[:6] + b"\x21" * 4 + bytes(400),  # 33 bits wide
    ],
)
@pytest.mark.parametrize(("page", "status"), [(0, BAD_ROWS), (3, BAD_QUALIFIERS), (7, BAD_VALUES)])
def test_lengths_that_do_not_fit_are_refused(page: int, status: int, body: bytes) -> None:
    assert _refused(page, body) == status


CODES = [at % 2 for at in range(40)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01",  # no runs
        oracle.dictionary_codes(CODES, 17),  # too wide
        oracle.dictionary_codes([2] * 40, 2),  # a name that is not there, in a run
        oracle.dictionary_codes([2] * 40, 2, runs=[5]),  # the same, packed
        oracle.dictionary_codes(CODES[:-1], 1),  # one code too few
        oracle.dictionary_codes([0] * 41, 1),  # a run that is too long
        oracle.dictionary_codes(CODES, 1, runs=[5])[:-1],  # packed bits cut off
        b"\x01\x00" + oracle.dictionary_codes(CODES, 1)[1:],  # an empty run
        b"\x01\x01" + oracle.dictionary_codes(CODES, 1)[1:],  # an empty packed run
        b"\x01" + oracle.varint((1 << 60) | 1),  # a packed run beyond all memory
        b"\x00" + oracle.varint((1 << 40) | 1),  # the same of width nothing
        b"\x01" + b"\xff" * 10,  # a varint that does not end
        b"\x09\x04\x01",  # the value of a run cut off
    ],
)
def test_codes_that_do_not_fit_are_refused(body: bytes) -> None:
    assert _refused(2, body) == BAD_FAMILIES


@pytest.mark.parametrize("op", [-1, 5, 1 << 30, -(1 << 31)])
def test_a_number_that_is_no_op_is_refused(op: int) -> None:
    ops = np.full(40, 4, "<i4")
    ops[17] = op
    assert _refused(6, ops.tobytes()) == BAD_OPS


def test_every_status_has_a_reason() -> None:
    assert set(DECODE_REASONS) == {BAD_ROWS, BAD_FAMILIES, BAD_QUALIFIERS, BAD_OPS, BAD_VALUES}


@settings(max_examples=400)
@given(st.data())
def test_no_bytes_make_it_read_or_write_outside(data: st.DataObject) -> None:
    """Damaged pages decode to a block that is valid in itself, or to a status."""
    pages = oracle.make_pages(_cells())
    page = data.draw(st.sampled_from([0, 2, 3, 6, 7]))
    body = bytearray(pages.bodies[page])
    for _ in range(data.draw(st.integers(1, 8))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    pages.bodies[page] = bytes(body)
    block = oracle.decode(pages.encode(), pages)
    if isinstance(block, Block):
        block.batch.validate(full=True)
    else:
        assert block in DECODE_REASONS
