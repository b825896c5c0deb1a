"""The answer of many gets: rows by position, cells as Arrow."""

from __future__ import annotations

import pytest

from stele.client.rows import Rows
from stele.model.cells import Cell, cells_to_batch
from stele.model.schema import Schema

CELLS = cells_to_batch([Cell(b"a", "f", b"q", 1, b"\x07"), Cell(b"c", "f", b"q", 1, b"\x09")])


def test_rows_answer_by_position_and_slice() -> None:
    rows = Rows([b"c", b"b", b"a"], CELLS, 5, Schema(columns={"f:q": "int8"}))
    assert len(rows) == 3
    assert [row and row["f:q"] for row in rows] == [9, None, 7]
    assert [row and row.key for row in rows[1:]] == [None, b"a"]
    assert (rows.txn, rows.keys) == (5, (b"c", b"b", b"a"))
    assert repr(rows) == "Rows(3 keys, 2 found)"
    with pytest.raises(IndexError):
        rows[3]


def test_rows_convert_without_being_made() -> None:
    rows = Rows([b"c"], CELLS, 5, Schema())
    assert rows.to_arrow().num_rows == 2
    assert rows.to_pandas()["row"].tolist() == [b"a", b"c"]
    assert rows.to_polars()["family"].to_list() == ["f", "f"]
