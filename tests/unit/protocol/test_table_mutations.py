from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells, SteleError
from stele.model.cells import CELLS, TIMESTAMP_MIN, cells_to_batch
from stele.model.mutations import MutationBatch, Record
from stele.protocol.table_mutations import (
    RECORDS_MAX,
    decode_attachment,
    decode_records,
    encode_mutations,
)

ROWS = st.binary(min_size=1, max_size=4)
TIMES = st.none() | st.integers(TIMESTAMP_MIN, (1 << 63) - 2)


@st.composite
def batches(draw: st.DrawFn) -> MutationBatch:
    batch = MutationBatch()
    for number in range(draw(st.integers(1, 8))):
        row, at = draw(ROWS) + bytes([number]), draw(TIMES)
        match draw(st.integers(0, 4)):
            case 0:
                batch.put(row, "f", draw(st.binary(max_size=3)), draw(st.binary(max_size=9)), at)
            case 1:
                batch.erase_row(row, at)
            case 2:
                batch.erase_family(row, "f", at)
            case 3:
                batch.erase_column(row, "f", b"q", at)
            case _:
                batch.erase_cell(row, "f", b"q", at or 0)
    return batch


@given(batches())
@settings(max_examples=50)
def test_records_come_out_as_they_went_in(batch: MutationBatch) -> None:
    records, attachment = encode_mutations(batch)
    assert attachment is None
    assert records is not None
    assert decode_records(records).records() == batch.records()


def test_many_mutations_are_an_arrow_message() -> None:
    batch = MutationBatch()
    for number in range(RECORDS_MAX + 1):
        batch.put(b"%03d" % number, "f", b"q", b"v")
    records, attachment = encode_mutations(batch)
    assert records is None
    assert attachment is not None
    assert decode_attachment(attachment).equals(batch.to_arrow())


@pytest.mark.parametrize(
    "record",
    [
        (b"", "f", 2, b"q", 0, 4, b"v"),
        (b"r", "_retry", 2, b"q", 0, 4, b"v"),
        (b"r", "no family", 2, b"q", 0, 4, b"v"),
        (b"r", "f", 2, b"q", 0, 5, b"v"),
        (b"r", "f", 2, b"q", 1 << 64, 4, b"v"),
        (b"r" * 70_000, "f", 2, b"q", 0, 4, b"v"),
    ],
)
def test_a_record_that_no_user_could_write_is_refused(record: Record) -> None:
    with pytest.raises(InvalidArgument):
        decode_records([record])


def test_an_attachment_of_other_cells_is_refused() -> None:
    assert CELLS.names
    _, attachment = encode_mutations(cells_to_batch([]))
    assert attachment is not None
    with pytest.raises(InvalidCells):
        decode_attachment(attachment)
    with pytest.raises(SteleError):
        decode_attachment(memoryview(b"garbage"))
