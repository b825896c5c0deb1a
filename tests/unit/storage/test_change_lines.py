"""Lines of changes: each difference once, whatever the two moments look like."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.model.cells import TIMESTAMP_MAX, Cell, Op, cells_to_batch
from stele.storage.change_lines import (
    CHANGED_CELLS,
    mutation_lines,
    net_cell_lines,
    net_row_lines,
    with_changes,
)
from stele.storage.change_reader import NetRows, last_txns

CELL = st.builds(
    Cell,
    st.sampled_from([b"a", b"b", b"c"]),
    st.sampled_from(["f", "g"]),
    st.sampled_from([b"", b"q"]),
    st.integers(1, 3),
    st.sampled_from([b"", b"x", b"y"]),
)


def moment(cells: list[Cell], *, versions: bool) -> list[Cell]:
    """What a read could see: each column, or each version, once."""
    found = {(c.row, c.family, c.qualifier, c.timestamp if versions else 0): c for c in cells}
    return sorted(found.values(), key=Cell.key)


def net_of(before: list[Cell], after: list[Cell]) -> NetRows:
    rows = sorted({cell.row for cell in (*before, *after)} | {b"zz"})
    txns = np.arange(100, 100 + len(rows))
    return NetRows(pa.array(rows, pa.binary()), txns, cells_to_batch(before), cells_to_batch(after))


@pytest.mark.parametrize("versions", [False, True])
@given(old=st.lists(CELL, max_size=8), new=st.lists(CELL, max_size=8))
def test_cells_differ_as_sets_do(versions: bool, old: list[Cell], new: list[Cell]) -> None:
    before, after = moment(old, versions=versions), moment(new, versions=versions)
    lines = net_cell_lines(net_of(before, after), by_version=versions)
    assert lines.schema.equals(CHANGED_CELLS)
    kinds = lines.to_pylist()
    gone, came = set(before) - set(after), set(after) - set(before)
    for names, cells in (
        (("delete", "update_preimage"), gone),
        (("insert", "update_postimage"), came),
    ):
        assert {_cell(line) for line in kinds if line["_change_type"] in names} == cells
    places = [_place(line, versions) for line in kinds]
    for number, line in enumerate(kinds):
        paired = places.count(places[number]) == 2
        assert line["_change_type"].startswith("update") == paired
        if line["_change_type"] == "update_preimage":
            assert kinds[number + 1]["_change_type"] == "update_postimage"
            assert places[number] == places[number + 1]
    assert [line["row"] for line in kinds] == sorted(line["row"] for line in kinds)
    rows = sorted({cell.row for cell in (*before, *after)})
    assert all(line["_commit_version"] == 100 + rows.index(line["row"]) for line in kinds)


def _cell(line: dict[str, Any]) -> Cell:
    return Cell(*(line[name] for name in ("row", "family", "qualifier", "timestamp", "value")))


def _place(line: dict[str, Any], versions: bool) -> tuple[Any, ...]:
    return (line["row"], line["family"], line["qualifier"], line["timestamp"] if versions else 0)


def as_text(cells: pa.RecordBatch) -> pa.RecordBatch:
    """Lines with the key and everything a row has, as text."""
    rows: dict[bytes, str] = {}
    for line in cells.to_pylist():
        text = f"{line['family']}{line['qualifier']!r}={line['value']!r} "
        rows[line["row"]] = rows.get(line["row"], "") + text
    return pa.RecordBatch.from_arrays([list(rows), list(rows.values())], schema=WIDE)


WIDE = pa.schema([("key", pa.binary()), ("text", pa.string())])


@given(old=st.lists(CELL, max_size=8), new=st.lists(CELL, max_size=8))
def test_rows_differ_by_what_they_show(old: list[Cell], new: list[Cell]) -> None:
    before, after = moment(old, versions=False), moment(new, versions=False)
    lines = net_row_lines(net_of(before, after), as_text, WIDE)
    assert lines.schema.equals(with_changes(WIDE))
    sides = [
        {line["key"]: line["text"] for line in as_text(cells_to_batch(cells)).to_pylist()}
        for cells in (before, after)
    ]
    expected: list[tuple[str, bytes, str]] = []
    for row in sorted(sides[0].keys() | sides[1].keys()):
        was, now = sides[0].get(row), sides[1].get(row)
        if was == now:
            continue
        if was is not None:
            expected.append(("delete" if now is None else "update_preimage", row, was))
        if now is not None:
            expected.append(("insert" if was is None else "update_postimage", row, now))
    found = [(line["_change_type"], line["key"], line["text"]) for line in lines.to_pylist()]
    assert found == expected


def test_what_an_erasure_has_not_is_null() -> None:
    cells = [
        Cell(b"a", "", b"", TIMESTAMP_MAX, op=Op.ERASE_ROW, txn=7),
        Cell(b"a", "f", b"", 5, op=Op.ERASE_FAMILY, txn=7),
        Cell(b"a", "f", b"q", TIMESTAMP_MAX, op=Op.ERASE_COLUMN, txn=7),
        Cell(b"a", "f", b"q", 3, op=Op.ERASE_CELL, txn=7),
        Cell(b"a", "f", b"q", 3, b"v", txn=7),
    ]
    lines = mutation_lines(cells_to_batch(cells)).to_pylist()
    names = ("_change_type", "family", "qualifier", "timestamp", "value")
    assert [tuple(line[name] for name in names) for line in lines] == [
        ("erase_row", None, None, None, None),
        ("erase_family", "f", None, 5, None),
        ("erase_column", "f", b"q", None, None),
        ("erase_cell", "f", b"q", 3, None),
        ("put", "f", b"q", 3, b"v"),
    ]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert lines[0]["_commit_version"] == 7
    assert lines[0]["_commit_timestamp"] == epoch + datetime.timedelta(microseconds=7)


def test_the_last_txn_of_each_row() -> None:
    cells = [Cell(b"a", "f", b"q", t, txn=t) for t in (9, 4)] + [Cell(b"b", "f", b"q", 1, txn=2)]
    rows, txns = last_txns(cells_to_batch(cells))
    assert (rows.to_pylist(), txns.tolist()) == ([b"a", b"b"], [9, 2])
