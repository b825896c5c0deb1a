"""Cells: the Arrow form, the round trip, and the order of the sort key."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stele.model.cells import (
    CELLS,
    MUTATIONS,
    ROW_ERASURE_FAMILY,
    TIMESTAMP_MAX,
    TIMESTAMP_MIN,
    Cell,
    Op,
    batch_to_cells,
    cells_to_batch,
)
from tests.unit.model.strategies import mutations


@given(st.lists(mutations(), max_size=20))
def test_cells_survive_arrow(cells: list[Cell]) -> None:
    batch = cells_to_batch(cells)
    assert batch.schema.equals(CELLS)
    batch.validate(full=True)
    assert batch_to_cells(batch) == cells
    assert batch_to_cells(pa.Table.from_batches([batch])) == cells


@given(st.lists(mutations(), max_size=20))
def test_mutations_unpack_with_txn_zero(cells: list[Cell]) -> None:
    batch = cells_to_batch(cells).select(MUTATIONS.names)
    assert batch.schema.equals(MUTATIONS)
    assert batch_to_cells(batch) == cells


def test_the_schema_is_what_the_format_says() -> None:
    assert CELLS.names == ["row", "family", "qualifier", "timestamp", "txn", "op", "value"]
    assert MUTATIONS.names == ["row", "family", "qualifier", "timestamp", "op", "value"]
    assert not any(field.nullable for field in CELLS)
    assert [int(op) for op in Op] == [0, 1, 2, 3, 4]
    assert (TIMESTAMP_MIN, TIMESTAMP_MAX) == (-(2**63), 2**63 - 1)


def test_what_hides_a_cell_comes_before_it() -> None:
    put = Cell(b"r", "f", b"q", 5, b"v", Op.PUT, txn=1)
    hiders = [
        Cell(b"r", ROW_ERASURE_FAMILY, b"", 5, op=Op.ERASE_ROW, txn=2),
        Cell(b"r", "f", b"", 5, op=Op.ERASE_FAMILY, txn=2),
        Cell(b"r", "f", b"q", 5, op=Op.ERASE_COLUMN, txn=2),
        Cell(b"r", "f", b"q", 5, op=Op.ERASE_CELL, txn=2),
    ]
    keys = [cell.key() for cell in (*hiders, put)]
    assert keys == sorted(keys)
    unbounded = Cell(b"r", "f", b"q", TIMESTAMP_MAX, op=Op.ERASE_COLUMN, txn=2)
    assert hiders[1].key() < unbounded.key() < hiders[2].key()


def test_newest_comes_first() -> None:
    ordered = [
        Cell(b"r", "f", b"q", 9, txn=3),
        Cell(b"r", "f", b"q", 9, txn=2),
        Cell(b"r", "f", b"q", 8, txn=9),
        Cell(b"r", "f", b"q\x00", TIMESTAMP_MAX - 1, txn=9),
        Cell(b"r", "g", b"", TIMESTAMP_MIN, txn=9),
        Cell(b"r\x00", "a", b"", 0, txn=9),
    ]
    assert all(before.key() < after.key() for before, after in pairwise(ordered))


def test_an_erasure_sorts_after_a_later_put_at_its_timestamp() -> None:
    put = Cell(b"r", "f", b"q", 5, b"v", Op.PUT, txn=7)
    erasure = Cell(b"r", "f", b"q", 5, op=Op.ERASE_COLUMN, txn=6)
    assert put.key() < erasure.key()


def test_column_shows_bytes_that_are_no_text() -> None:
    assert Cell(b"r", "f", b"a\xff:b", 0).column == "f:a\\xff:b"
