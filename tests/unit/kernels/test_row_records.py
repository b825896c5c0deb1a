"""Row records against plain Python: what goes in comes out in cell order, bad bytes are named."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stele.errors import Corruption
from stele.kernels.row_records import (
    HEAD,
    HEAD_BYTES,
    encode_record,
    records_to_block,
    row_and_txn,
)
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN, Cell, Op, batch_to_cells
from stele.model.limits import FAMILIES_MAX, QUALIFIER_BYTES_MAX, ROW_BYTES_MAX

KEY_BYTES = st.one_of(
    st.binary(max_size=12),
    st.builds(
        bytes.__add__,
        st.sampled_from([b"", b"user0000", b"\x00" * 9, b"\xff" * 8]),
        st.binary(max_size=4),
    ),
)
INT64 = st.one_of(
    st.integers(-3, 3), st.sampled_from([TIMESTAMP_MIN, TIMESTAMP_MAX, TIMESTAMP_MAX - 1])
)


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    op = draw(st.sampled_from(Op))
    return Cell(
        row=draw(KEY_BYTES),
        family="" if op is Op.ERASE_ROW else draw(st.sampled_from(["a", "info", "infö", "z" * 9])),
        qualifier=draw(KEY_BYTES) if op > Op.ERASE_FAMILY else b"",
        timestamp=draw(INT64),
        value=draw(st.binary(max_size=20)) if op is Op.PUT else b"",
        op=op,
        txn=draw(st.integers(0, 4)),
    )


def encode(cell: Cell) -> bytes:
    return encode_record(
        cell.row,
        cell.family.encode(),
        cell.qualifier,
        cell.timestamp,
        cell.txn,
        cell.op,
        cell.value,
    )


def stamped(cell: Cell) -> Cell:
    """A put without a timestamp has its txn."""
    if cell.op is Op.PUT and cell.timestamp == TIMESTAMP_MAX:
        return Cell(cell.row, cell.family, cell.qualifier, cell.txn, cell.value, cell.op, cell.txn)
    return cell


def cells_of(records: bytes) -> list[Cell]:
    block = records_to_block(records)
    block.batch.validate(full=True)
    return batch_to_cells(block.batch)


@given(st.lists(cells(), max_size=80))
@example([])
def test_records_become_the_sorted_cells(given_cells: list[Cell]) -> None:
    records = b"".join(encode(cell) for cell in given_cells)
    expected = sorted((stamped(cell) for cell in given_cells), key=Cell.key)
    assert cells_of(records) == expected


def test_many_records_in_descending_order_are_merged_from_many_runs() -> None:
    given_cells = [
        Cell(b"user%06d" % (number // 2), "f", b"q%d" % (number % 2), number, b"v%d" % number)
        for number in range(3_000, 0, -1)
    ]
    records = b"".join(encode(cell) for cell in given_cells)
    assert cells_of(records) == sorted(given_cells, key=Cell.key)


def test_equal_records_keep_the_order_they_came_in() -> None:
    values = [b"%d" % number for number in range(100)]
    records = b"".join(encode(Cell(b"r", "f", b"q", 1, value)) for value in values)
    assert [cell.value for cell in cells_of(records)] == values


def test_the_longest_keys_and_an_empty_value() -> None:
    cell = Cell(b"r" * ROW_BYTES_MAX, "f" * 255, b"q" * QUALIFIER_BYTES_MAX, 1, b"")
    assert cells_of(encode(cell)) == [cell]


def test_every_family_a_table_may_have() -> None:
    names = [f"f{number:04d}" for number in range(FAMILIES_MAX)]
    given_cells = [Cell(b"r", "", b"", 1, op=Op.ERASE_ROW)]
    given_cells += [Cell(b"r", name, b"q", 1, name.encode()) for name in reversed(names)]
    block = records_to_block(b"".join(encode(cell) for cell in given_cells))
    assert block.families == ("", *names)
    assert batch_to_cells(block.batch) == sorted(given_cells, key=Cell.key)


def test_one_family_too_many_names_the_record() -> None:
    records = [encode(Cell(b"r", f"f{number}", b"", 1)) for number in range(FAMILIES_MAX + 2)]
    with pytest.raises(Corruption) as caught:
        records_to_block(b"".join(records))
    assert caught.value.offset == sum(map(len, records[:-1]))


def test_the_memory_behind_a_block_is_its_own() -> None:
    records = bytearray(encode(Cell(b"row", "f", b"q", 1, b"value")))
    block = records_to_block(records)
    records[HEAD_BYTES:] = bytes(len(records) - HEAD_BYTES)
    assert block.row(0) == b"row"
    assert pa.py_buffer(records).size == len(records)


GOOD = encode(Cell(b"row", "f", b"q", 1, b"value"))


@pytest.mark.parametrize(
    ("position", "byte"),
    [
        (0, 0),  # no size at all
        (0, len(GOOD) + 8),  # beyond the end
        (0, len(GOOD) - 8),  # shorter than its parts
        (0, len(GOOD) - 1),  # not a multiple of eight
        (4, 250),  # a value longer than the record
        (7, 255),
        (9, 1),  # a row longer than the record
        (11, 255),
        (12, 200),  # a family longer than the record
        (13, 5),  # no such op
        (13, 255),
    ],
)
def test_a_record_that_does_not_hold_together_is_named(position: int, byte: int) -> None:
    bad = bytearray(GOOD)
    bad[position] = byte
    with pytest.raises(Corruption) as caught:
        records_to_block(GOOD + bytes(bad))
    assert caught.value.offset == len(GOOD)


@pytest.mark.parametrize("length", range(1, len(GOOD)))
def test_a_record_cut_short_is_named(length: int) -> None:
    with pytest.raises(Corruption) as caught:
        records_to_block(GOOD + GOOD[:length])
    assert caught.value.offset == len(GOOD)


def test_a_family_that_is_not_text_is_named() -> None:
    bad = encode_record(b"r", b"\xff\xfe", b"", 1, 1, Op.PUT, b"")
    with pytest.raises(Corruption, match="UTF-8"):
        records_to_block(GOOD + bad)


def is_block_or_corruption(data: bytes) -> bool:
    try:
        block = records_to_block(data)
    except Corruption as error:
        return error.offset is not None
    block.batch.validate(full=True)
    return block.count == len(batch_to_cells(block.batch))


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_block_or_corruption(data: bytes) -> None:
    assert is_block_or_corruption(data)


@given(st.integers(0, len(GOOD) * 3 - 1), st.integers(1, 255))
def test_any_changed_byte_is_a_block_or_corruption(position: int, change: int) -> None:
    data = bytearray(GOOD * 3)
    data[position] ^= change
    assert is_block_or_corruption(bytes(data))


def test_the_head_is_as_documented() -> None:
    record = encode_record(b"row", b"fam", b"qualifier", -2, 7, Op.PUT, b"value")
    assert HEAD.unpack_from(record) == (len(record), 5, 3, 9, 3, 4, 0, -2, 7)
    assert record[32:52] == b"rowfamqualifiervalue"
    assert record[52:] == bytes(4)


def test_row_and_txn_of_a_record() -> None:
    assert row_and_txn(encode(Cell(b"row", "f", b"q", 1, b"v", txn=-9))) == (b"row", -9)
