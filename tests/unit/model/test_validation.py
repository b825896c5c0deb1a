"""Every way in which a request can be wrong is refused, and names its offender."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model import limits
from stele.model.cells import (
    CELLS,
    MUTATIONS,
    TIMESTAMP_MAX,
    Cell,
    Op,
    batch_to_cells,
    cells_to_batch,
)
from stele.model.columns import RETRY_FAMILY
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.model.validation import decode_ipc, encode_ipc, validate_cells, validate_mutations
from tests.unit.model.strategies import distinct_mutations, mutations

ANY = Schema()
FIXED = Schema([Group("one", ["info"])])


def mutations_batch(cells: list[Cell]) -> pa.RecordBatch:
    return cells_to_batch(cells).select(MUTATIONS.names)


@given(distinct_mutations)
def test_sorted_mutations_are_accepted(cells: list[Cell]) -> None:
    batch = mutations_batch(sorted(cells, key=Cell.key))
    validate_mutations(batch, ANY)
    validate_mutations(decode_ipc(encode_ipc(batch)), ANY)
    validate_mutations(batch.slice(1), ANY)
    assert batch_to_cells(batch) == sorted(cells, key=Cell.key)


@given(st.lists(mutations(), min_size=2, max_size=10))
def test_any_other_order_is_refused(cells: list[Cell]) -> None:
    keys = [cell.key() for cell in cells]
    if keys == sorted(set(keys)):
        validate_mutations(mutations_batch(cells), ANY)
        return
    with pytest.raises(InvalidCells, match=r"cell \d+ .*(twice|out of order)"):
        validate_mutations(mutations_batch(cells), ANY)


def refused(cell: Cell, schema: Schema = ANY) -> str:
    """The error for a batch whose second cell is wrong."""
    good = Cell(b"a", "info", b"q", 1, b"v")
    with pytest.raises(InvalidArgument) as caught:
        validate_mutations(mutations_batch([good, cell]), schema)
    return str(caught.value)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (Cell(b"", "info", b"q", 1), "empty row key"),
        (Cell(b"b", "", b"q", 1), "no family"),
        (Cell(b"b", "info", b"", 1, op=Op.ERASE_ROW), "row erasure and names a family"),
        (Cell(b"b", "", b"q", 1, op=Op.ERASE_ROW), "more than a column"),
        (Cell(b"b", "info", b"q", 1, op=Op.ERASE_FAMILY), "more than a column"),
        (Cell(b"b", "", b"", 1, op=Op.ERASE_FAMILY), "no family"),
        (Cell(b"b", "info", b"q", 1, b"v", op=Op.ERASE_COLUMN), "has a value"),
        (Cell(b"b", "info", b"q", 1, b"v", op=Op.ERASE_CELL), "has a value"),
        (Cell(b"b", "info", b"q", TIMESTAMP_MAX, op=Op.ERASE_CELL), "no timestamp"),
        (Cell(b"b", RETRY_FAMILY, b"q", 1), "reserved"),
    ],
)
def test_each_op_has_the_coordinates_it_needs(cell: Cell, reason: str) -> None:
    message = refused(cell)
    assert reason in message
    assert "cell 1 (row " in message


@pytest.mark.parametrize("op", [-128, -1, 5, 127])
def test_unknown_ops_are_refused(op: int) -> None:
    batch = mutations_batch([Cell(b"a", "info", b"q", 1)])
    batch = batch.set_column(4, MUTATIONS.field("op"), pa.array([op], pa.int8()))
    with pytest.raises(InvalidCells, match="unknown op"):
        validate_mutations(batch, ANY)


@pytest.mark.parametrize(
    ("cell", "name", "limit"),
    [
        (Cell(b"b" * (limits.ROW_BYTES_MAX + 1), "info", b"", 1), "row", limits.ROW_BYTES_MAX),
        (
            Cell(b"b", "info", b"q" * (limits.QUALIFIER_BYTES_MAX + 1), 1),
            "qualifier",
            limits.QUALIFIER_BYTES_MAX,
        ),
        (
            Cell(b"b", "info", b"q", 1, bytes(limits.VALUE_BYTES_MAX + 1)),
            "value",
            limits.VALUE_BYTES_MAX,
        ),
    ],
)
def test_sizes_beyond_the_limits_are_refused(cell: Cell, name: str, limit: int) -> None:
    message = refused(cell)
    assert f"cell 1 (row {cell.row[:64]!r}" in message
    assert f"has a {name} of {limit + 1} bytes; the limit is {limit} bytes" in message


def test_the_largest_legal_cell_is_accepted() -> None:
    row, qualifier = b"r" * limits.ROW_BYTES_MAX, b"q" * limits.QUALIFIER_BYTES_MAX
    batch = mutations_batch([Cell(row, "info", qualifier, 1, bytes(limits.VALUE_BYTES_MAX))])
    validate_mutations(batch, ANY)
    assert batch.num_rows == 1


def test_the_whole_batch_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = mutations_batch([Cell(b"a", "info", b"q", 1, b"v"), Cell(b"b", "info", b"q", 1, b"v")])
    monkeypatch.setattr("stele.model.validation.BATCH_BYTES_MAX", 6)
    validate_mutations(batch, ANY)
    monkeypatch.setattr("stele.model.validation.BATCH_BYTES_MAX", 5)
    with pytest.raises(LimitExceeded, match="batch of 6 bytes is over the limit of 5 bytes"):
        validate_mutations(batch, ANY)
    monkeypatch.setattr("stele.model.validation.BATCH_CELLS_MAX", 1)
    with pytest.raises(LimitExceeded, match="batch of 2 cells is over the limit of 1 cells"):
        validate_mutations(batch, ANY)


def test_unknown_families_are_refused_without_a_wildcard() -> None:
    assert "family 'other', which is none of the table's: info" in refused(
        Cell(b"b", "other", b"q", 1), FIXED
    )
    validate_mutations(mutations_batch([Cell(b"b", "other", b"q", 1)]), ANY)
    validate_mutations(mutations_batch([Cell(b"b", "", b"", 1, op=Op.ERASE_ROW)]), FIXED)


def test_removed_families_are_refused_even_with_a_wildcard() -> None:
    schema = Schema(removed=["gone"])
    assert "family 'gone', which was removed" in refused(Cell(b"b", "gone", b"q", 1), schema)


def test_unused_names_of_the_dictionary_do_not_count() -> None:
    two = mutations_batch([Cell(b"a", "info", b"q", 1), Cell(b"b", "other", b"q", 1)])
    validate_mutations(two.slice(0, 1), FIXED)
    with pytest.raises(InvalidCells, match="other"):
        validate_mutations(two, FIXED)


def with_dictionary(names: list[str]) -> pa.RecordBatch:
    batch = mutations_batch([Cell(b"a", "info", b"q", 1)])
    codes = pa.array([0], pa.int16())
    family = pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.utf8()))
    return batch.set_column(1, MUTATIONS.field("family"), family)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["info", "a", "a"], "'a' is twice"),
        (["info", "a b"], "outside"),
        (["info", "_mine"], "reserved"),
        (["info", "é"], "outside"),
        (["info", *(f"f{number}" for number in range(limits.FAMILIES_MAX))], "over the limit"),
    ],
)
def test_bad_dictionaries_are_refused(names: list[str], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        validate_mutations(with_dictionary(names), ANY)


def test_hidden_families_are_for_ourselves() -> None:
    batch = mutations_batch([Cell(b"a", RETRY_FAMILY, b"q", 1)])
    for schema in (ANY, FIXED):
        validate_mutations(batch, schema, hidden=True)
        with pytest.raises(InvalidCells, match="reserved"):
            validate_mutations(batch, schema)


def test_other_schemas_are_refused() -> None:
    batch = cells_to_batch([Cell(b"a", "info", b"q", 1)])
    with pytest.raises(InvalidCells, match=r"the columns are .*txn"):
        validate_mutations(batch, ANY)
    renamed = batch.rename_columns(["k", *CELLS.names[1:]])
    with pytest.raises(InvalidCells, match="the columns are"):
        validate_cells(renamed, ANY)


def test_damaged_buffers_are_refused() -> None:
    batch = mutations_batch([Cell(b"a%d" % number, "info", b"q", 1) for number in range(3)])
    ends = pa.py_buffer(struct.pack("<4i", 0, 1 << 30, 4, 6))
    broken = pa.Array.from_buffers(pa.binary(), 3, [None, ends, pa.py_buffer(b"a0a1a2")])
    with pytest.raises(InvalidCells, match="damaged"):
        validate_mutations(batch.set_column(0, MUTATIONS.field("row"), broken), ANY)
    codes = pa.array([0, 3, 0], pa.int16())
    family = pa.DictionaryArray.from_arrays(codes, pa.array(["info"]), safe=False)
    with pytest.raises(InvalidCells, match="damaged"):
        validate_mutations(batch.set_column(1, MUTATIONS.field("family"), family), ANY)


def test_another_order_check_can_be_passed() -> None:
    batch = mutations_batch([Cell(b"a", "info", b"q", 1), Cell(b"b", "info", b"q", 1)])
    validate_mutations(batch.take(pa.array([1, 0])), ANY, order_check=lambda _: -1)
    with pytest.raises(InvalidCells, match=r"cell 1 .* out of order"):
        validate_mutations(batch, ANY, order_check=lambda _: 1)


def test_committed_cells_have_txns_and_timestamps() -> None:
    good = Cell(b"a", RETRY_FAMILY, b"q", 1, b"v", txn=0)
    validate_cells(cells_to_batch([good]), FIXED)
    validate_cells(cells_to_batch([]), FIXED)
    for wrong, reason in (
        (Cell(b"a", "info", b"q", 1, txn=-1), "txn"),
        (Cell(b"a", "info", b"q", 1, txn=TIMESTAMP_MAX), "txn"),
        (Cell(b"a", "info", b"q", TIMESTAMP_MAX, txn=1), "without a timestamp"),
        (Cell(b"a", "other", b"q", 1, txn=1), "none of the table's"),
    ):
        with pytest.raises(InvalidCells, match=reason):
            validate_cells(cells_to_batch([wrong]), FIXED)


def test_versions_of_one_cell_differ_by_txn() -> None:
    new, old = (Cell(b"a", "info", b"q", 1, b"v", txn=txn) for txn in (2, 1))
    validate_cells(cells_to_batch([new, old]), FIXED)
    with pytest.raises(InvalidCells, match="out of order"):
        validate_cells(cells_to_batch([old, new]), FIXED)
    with pytest.raises(InvalidCells, match="twice"):
        validate_cells(cells_to_batch([old, old]), FIXED)
