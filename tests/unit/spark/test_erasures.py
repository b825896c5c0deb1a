"""Erasures as lines: each part of each row, up to a timestamp."""

from __future__ import annotations

import pyarrow as pa

from stele.model.cells import ROW_ERASURE_FAMILY, TIMESTAMP_MAX, Op
from stele.spark.erasures import LINES, WHOLE_ROW, ErasedPart, each_once, erasures

ROWS = pa.array([b"a", b"b", b"a"], pa.binary())
TIMES = pa.chunked_array([[5], [None, 5]], pa.int64())


def test_each_row_goes_up_to_its_timestamp() -> None:
    lines = erasures(ROWS, TIMES, WHOLE_ROW)
    assert lines.schema == LINES
    assert lines.column("row").to_pylist() == [b"a", b"b", b"a"]
    assert lines.column("timestamp").to_pylist() == [5, TIMESTAMP_MAX, 5]
    assert set(lines.column("op").to_pylist()) == {int(Op.ERASE_ROW)}
    assert set(lines.column("family").to_pylist()) == {ROW_ERASURE_FAMILY}


def test_each_part_of_each_row() -> None:
    parts = (
        ErasedPart("info", b"age", int(Op.ERASE_COLUMN)),
        ErasedPart("anchor", b"", int(Op.ERASE_FAMILY)),
    )
    lines = erasures(ROWS[:2], None, parts).to_pylist()
    assert [(line["row"], line["family"], line["op"]) for line in lines] == [
        (b"a", "info", int(Op.ERASE_COLUMN)),
        (b"b", "info", int(Op.ERASE_COLUMN)),
        (b"a", "anchor", int(Op.ERASE_FAMILY)),
        (b"b", "anchor", int(Op.ERASE_FAMILY)),
    ]
    assert {line["timestamp"] for line in lines} == {TIMESTAMP_MAX}


def test_nothing_to_erase_is_an_empty_table() -> None:
    assert erasures(ROWS[:0], None, WHOLE_ROW) == LINES.empty_table()
    assert erasures(ROWS, None, ()) == LINES.empty_table()


def test_asking_twice_is_asking_once() -> None:
    once = each_once(erasures(ROWS, TIMES, WHOLE_ROW))
    assert once.schema == LINES
    assert sorted(once.column("row").to_pylist()) == [b"a", b"b"]
    assert each_once(erasures(ROWS[:2], None, WHOLE_ROW)).num_rows == 2
