"""Wide rows straight into columns files: the same files as their cells would give."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.failpoints import armed, fail
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import InvalidArgument, InvalidCells, LimitExceeded, SteleError, StorageFailed
from stele.model.cells import Cell
from stele.model.columns import Column
from stele.storage.fragment_check import check_fragment
from stele.storage.fragment_columns_run import write_columns_run
from stele.storage.fragment_format import CELLS_LAYOUT, COLUMNS_LAYOUT, FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from stele.storage.references import Reference
from tests.unit.storage.columns_cases import SOME_COLUMNS, read_files, typed
from tests.unit.storage.fragment_cases import DIRECTORY, TABLE, in_order, new_fs, path_of

ROW = st.fixed_dictionaries(
    {
        "info:age": st.none() | st.integers(-5, 5),
        "info:name": st.none() | st.text(max_size=3),
        "more:flag": st.none() | st.booleans(),
        "info:other": st.none() | st.binary(max_size=3),
        "a:b@txn": st.none() | st.integers(0, 3),
    }
)
COLUMNS = (*SOME_COLUMNS, typed(9, "a:b@txn", "int64"))
KINDS = {
    "info:age": pa.int32(),
    "info:name": pa.large_utf8(),
    "more:flag": pa.bool_(),
    "info:other": pa.binary(),
    "a:b@txn": pa.int64(),
}


def batch_of(rows: dict[bytes, dict[str, Any]], **extra: pa.Array) -> pa.RecordBatch:
    names = [name for name in KINDS if any(name in row for row in rows.values())]
    columns = [pa.array([row.get(name) for row in rows.values()], KINDS[name]) for name in names]
    return pa.RecordBatch.from_arrays(
        [pa.array(list(rows), pa.binary()), *columns, *extra.values()],
        names=["row", *names, *extra],
    )


def cells_of_rows(rows: dict[bytes, dict[str, Any]], timestamp: int) -> list[Cell]:
    declared = {str(column.column): column for column in COLUMNS}
    return in_order(
        Cell(
            row,
            (place := Column.parse(name)).family,
            place.qualifier,
            timestamp,
            declared[name].encode(value) if name in declared else value,
        )
        for row, values in rows.items()
        for name, value in values.items()
        if value is not None
    )


def load(
    fs: MemoryFileSystem, *batches: pa.RecordBatch, **arguments: Any
) -> tuple[FragmentInfo, ...]:
    arguments = {"timestamp": 5, "columns": COLUMNS, **arguments}
    return write_columns_run(fs, DIRECTORY, NameSequence("load"), batches, table=TABLE, **arguments)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.binary(min_size=1, max_size=2), ROW, max_size=20),
    st.integers(0, 20),
    st.lists(st.binary(min_size=1, max_size=1), unique=True, max_size=2).map(sorted),
)
def test_wide_rows_are_their_cells(
    rows: dict[bytes, dict[str, Any]], cut: int, borders: list[bytes]
) -> None:
    rows = dict(sorted(rows.items()))
    fs = new_fs()
    batch = batch_of(rows) if rows else batch_of({b"x": {}})
    options = FragmentOptions(block_cells=1, file_groups=2)
    infos = load(fs, batch[:cut], batch[cut:], options=options, borders=borders)
    assert read_files(fs, infos) == cells_of_rows(rows, 5)
    for info in infos:
        assert check_fragment(fs, path_of(info), info) == info.summary
        assert (info.summary.txn_min, info.summary.txn_max) == (0, 0)
        assert not any(
            info.summary.first_row < border <= info.summary.last_row for border in borders
        )


def test_a_loaded_file_gets_its_txn_from_its_reference() -> None:
    fs = new_fs()
    (info,) = load(fs, batch_of({b"a": {"info:age": 1, "info:other": b"x"}}))
    assert info.layout == COLUMNS_LAYOUT
    assert info.companion is not None
    parts = Reference(info, txn=77).parts
    assert [(part.file.name, part.txn_max) for part in parts] == [
        (info.name, 77),
        (info.companion.name, 77),
    ]


def test_each_row_may_have_its_own_time() -> None:
    fs = new_fs()
    rows = {b"a": {"info:age": 1}, b"b": {"info:age": 2}}
    times = pa.array([10, 20], pa.int64())
    (info,) = load(fs, batch_of(rows, _timestamp=times), timestamp=None)
    assert [cell.timestamp for cell in read_files(fs, [info])] == [10, 20]
    assert info.summary.put_timestamps == (10, 20)


def test_rows_of_undeclared_columns_only_are_a_file_of_cells() -> None:
    fs = new_fs()
    (info,) = load(fs, batch_of({b"a": {"info:other": b"x"}}))
    assert (info.layout, info.companion) == (CELLS_LAYOUT, None)
    assert load(new_fs(), batch_of({b"a": {}, b"b": {"info:age": None}})) == ()


@pytest.mark.parametrize(
    ("batch", "arguments", "error", "said"),
    [
        (pa.record_batch({"x:y": [b""]}), {}, InvalidArgument, "a column 'row'"),
        (pa.record_batch({"row": ["text"]}), {}, InvalidArgument, "'row' must be binary"),
        (pa.record_batch({"row": [None, b"a"]}), {}, InvalidArgument, "without nulls"),
        (pa.record_batch({"row": [b""]}), {}, InvalidArgument, "at least one byte"),
        (pa.record_batch({"row": [b"x" * 70_000]}), {}, LimitExceeded, "70000 bytes"),
        (batch_of({b"b": {}, b"a": {}}), {}, InvalidCells, "row b'a' is not above"),
        (
            pa.record_batch({"row": [b"a"], "info:age": ["old"]}),
            {},
            InvalidArgument,
            "'info:age'.*is not one of type int64",
        ),
        (
            pa.record_batch({"row": [b"a"], "info:other": [1.5]}),
            {},
            InvalidArgument,
            "'info:other'",
        ),
        (batch_of({b"a": {}}), {"timestamp": None}, InvalidArgument, "need a timestamp"),
        (
            batch_of({b"a": {}}, _timestamp=pa.array(["now"])),
            {},
            InvalidArgument,
            "'_timestamp' must be int64",
        ),
        (batch_of({b"a": {}}), {"borders": [b"b", b"a"]}, InvalidArgument, "must ascend"),
    ],
)
def test_bad_input_is_named(
    batch: pa.RecordBatch, arguments: dict[str, Any], error: type[SteleError], said: str
) -> None:
    fs = new_fs()
    with pytest.raises(error, match=said):
        load(fs, batch, **arguments)
    assert fs.list(DIRECTORY) == []


def test_batches_must_follow_each_other() -> None:
    fs = new_fs()
    with pytest.raises(InvalidCells, match="row b'a' is not above"):
        load(fs, batch_of({b"b": {"info:age": 1}}), batch_of({b"a": {"info:age": 1}}))
    assert fs.list(DIRECTORY) == []


@pytest.mark.parametrize(
    "point", ["after_group", "after_companion", "after_sync", "after_sync_dir"]
)
def test_a_failed_load_leaves_nothing(point: str) -> None:
    fs = new_fs()
    batch = batch_of({b"a": {"info:age": 1, "info:other": b"x"}})
    with armed(f"storage.columns.{point}", fail()), pytest.raises(StorageFailed):
        load(fs, batch)
    assert fs.list(DIRECTORY) == []
