"""Numbered writes as values: names and numbers that are refused, and how they are remembered."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.columns import RETRY_FAMILY
from stele.model.numbered_writes import (
    KEPT_US,
    WRITER_BYTES_MAX,
    NumberedWrite,
    check_numbered,
    check_writer,
    writer_cell,
    writer_record,
    writer_row,
)
from stele.model.request_identity import SEQUENCE_MAX, decode_sequence


def test_a_write_is_remembered_in_a_row_of_its_writer() -> None:
    write = NumberedWrite("query/ä", 7)
    row, family, _, qualifier, negated, _, value = writer_record(write, 1_000)
    cell = writer_cell(write, 1_000)
    assert (row, family, qualifier, value) == (cell.row, cell.family, cell.qualifier, cell.value)
    assert (cell.row, cell.family) == (writer_row("query/ä"), RETRY_FAMILY)
    assert decode_sequence(cell.value) == 7
    assert cell.timestamp == -negated == 1_000 + KEPT_US, "what is old by then may go"
    assert cell.txn == 0
    assert writer_row("a") != writer_row("b")


@pytest.mark.parametrize("name", ["", "a\nb", None, b"a", 7])
def test_names_that_are_none(name: object) -> None:
    with pytest.raises(InvalidArgument, match="name of a writer is printable text"):
        check_writer(name)


def test_a_name_has_a_limit() -> None:
    assert check_writer("x" * WRITER_BYTES_MAX)
    with pytest.raises(LimitExceeded, match=f"the limit is {WRITER_BYTES_MAX}"):
        check_writer("ä" * (WRITER_BYTES_MAX // 2 + 1))


@pytest.mark.parametrize("number", [-1, SEQUENCE_MAX + 1, "1", True, None])
def test_numbers_that_are_none(number: object) -> None:
    with pytest.raises(InvalidArgument, match="number of a write is 0 to"):
        check_numbered(NumberedWrite("w", number))  # type: ignore[arg-type]
    assert check_numbered(NumberedWrite("w", SEQUENCE_MAX))
