"""Whole tables as input, from every library, in both shapes, in parts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

from stele.client import bulk
from stele.client.database import Database
from stele.client.table import Table
from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model.schema import Schema
from tests.oracles.model_backend import ModelBackend
from tests.style import repository
from tests.unit.client.databases import over

WIDE = pa.table({"row": ["a", "b", "c"], "f:n": [1, None, 3], "g:s": ["x", "y", None]})

NUMBERS = pandas.array([1, None, 3], "Int64")


@pytest.fixture
def table(db: Database) -> Table:
    return db.create_table("t", Schema(columns={"f:n": "int64", "g:s": "string"}))


@pytest.mark.parametrize(
    "data",
    [
        lambda: WIDE,
        lambda: WIDE.to_batches()[0],
        lambda: WIDE.to_reader(max_chunksize=1),
        lambda: polars.from_arrow(WIDE),
        lambda: pandas.DataFrame({"row": ["a", "b", "c"], "f:n": NUMBERS}),
    ],
    ids=["table", "batch", "reader", "polars", "pandas"],
)
def test_wide_rows_of_every_library(table: Table, data: Callable[[], object]) -> None:
    txn = table.write(data())
    rows = list(table.scan(columns=["f:"]))
    assert [(row.key, row["f:n"]) for row in rows] == [(b"a", 1), (b"c", 3)]
    assert {cell.txn for row in rows for cell in row.cells} == {txn}


def test_cells_go_in_as_they_came_out(table: Table, db: Database) -> None:
    table.write(WIDE)
    other = db.create_table("other", table.schema)
    other.write(table.scan())
    assert [row.to_dict() for row in other.scan()] == [row.to_dict() for row in table.scan()]


def test_wide_rows_go_in_as_they_came_out(table: Table, db: Database) -> None:
    table.write(WIDE)
    other = db.create_table("other", table.schema)
    other.write(table.scan(shape="rows"))
    assert [row.to_dict() for row in other.scan()] == [row.to_dict() for row in table.scan()]


def test_nulls_may_delete(table: Table) -> None:
    table.write(WIDE)
    table.write(pa.table({"row": ["a"], "f:n": pa.nulls(1)}), nulls="delete")
    assert table.get(b"a").to_dict() == {"g:s": "x"}  # type: ignore[union-attr]


def test_the_key_column_can_be_named(table: Table) -> None:
    table.write(pa.table({"id": ["k"], "f:n": [7]}), row="id")
    assert table.get(b"k")["f:n"] == 7  # type: ignore[index]


def test_an_empty_table_writes_nothing(table: Table) -> None:
    assert table.write(WIDE.slice(0, 0)) >= 0
    assert table.scan().count() == 0


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ([{"row": b"a"}], {}),
        (3, {}),
        (WIDE, {"shape": "tall"}),
        (WIDE, {"shape": "cells"}),
        (WIDE, {"row": "nobody"}),
        (WIDE, {"nulls": "keep"}),
        (pa.table({"row": ["a"], "h:float": [1.5]}), {}),
        (pa.table({"row": ["a", "a"], "f:n": [1, 2]}), {}),
        (
            pa.table(
                {"row": [None], "f:n": [1]}, schema=pa.schema({"row": "binary", "f:n": "int64"})
            ),
            {},
        ),
    ],
)
def test_wrong_input_is_refused(table: Table, data: object, options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        table.write(data, **options)  # type: ignore[arg-type]
    assert table.scan().count() == 0


def damaged(kind: pa.DataType, offset: int = 1 << 30) -> pa.Array:
    """Three values of three bytes, one of which claims to lie far outside."""
    ends = pa.py_buffer(np.array([0, 1, offset, 3], kind_of_offsets(kind)))
    return pa.Array.from_buffers(kind, 3, [None, ends, pa.py_buffer(b"abc")])


def kind_of_offsets(kind: pa.DataType) -> type[np.signedinteger[Any]]:
    return np.int64 if pa.types.is_large_binary(kind) else np.int32


def wild_view() -> pa.Array:
    views = np.zeros((3, 4), np.int32)
    views[:, 0], views[:, 2], views[:, 3] = 100, 7, 1 << 29
    buffers = [None, pa.py_buffer(views), pa.py_buffer(b"abc")]
    return pa.Array.from_buffers(pa.binary_view(), 3, buffers)


def wild_code() -> pa.Array:
    codes = pa.array([0, 0, 1_000_000], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(["f"]), safe=False)


THREE = pa.array([b"a", b"b", b"c"])

DAMAGED: dict[str, Callable[[], dict[str, pa.Array]]] = {
    "key": lambda: {"row": damaged(pa.binary()), "f:q": THREE},
    "key before the beginning": lambda: {"row": damaged(pa.binary(), -500_000), "f:q": THREE},
    "text key": lambda: {"row": damaged(pa.utf8()), "f:q": THREE},
    "large key": lambda: {"row": damaged(pa.large_binary(), 1 << 50), "f:q": THREE},
    "value": lambda: {"row": THREE, "f:q": damaged(pa.binary())},
    "text": lambda: {"row": THREE, "g:s": damaged(pa.utf8())},
    "view": lambda: {"row": THREE, "f:q": wild_view()},
    "row of a cell": lambda: {
        "row": damaged(pa.binary()),
        "family": pa.array(["f"] * 3),
        "qualifier": THREE,
        "value": THREE,
    },
    "family of a cell": lambda: {
        "row": THREE,
        "family": wild_code(),
        "qualifier": THREE,
        "value": THREE,
    },
}
"""Read without a look at it, each of these ends the process or writes what lies beside it."""


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_arrow_is_refused(table: Table, name: str, atomic: bool) -> None:
    with pytest.raises(InvalidCells, match="damaged"):
        table.write(pa.table(DAMAGED[name]()), atomic=atomic)
    assert table.scan().count() == 0


LAST_OFFSET = """
import itertools
import numpy as np
import pyarrow as pa
from stele.errors import InvalidCells
from tests.oracles.model_backend import ModelBackend
from tests.unit.client.databases import over

table = over(ModelBackend()).create_table("t")
good = pa.array([b"1", b"2"])
carriers = {
    "batch": lambda columns: pa.record_batch(columns),
    "table": lambda columns: pa.table(columns),
    "reader": lambda columns: pa.table(columns).to_reader(),
    "structs": lambda columns: pa.chunked_array([pa.record_batch(columns).to_struct_array()]),
}
for place, carrier, last in itertools.product(("row", "f:q"), carriers, (4_000, 10**8)):
    ends = np.array([0, 1, 2], np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"abcdef")]
    wild = pa.Array.from_buffers(pa.binary(), 2, buffers)
    data = carriers[carrier]({"row": good, "f:q": good, place: wild})
    ends[2] = last
    print(carrier, place, last, flush=True)
    try:
        table.write(data)
    except InvalidCells as error:
        assert "damaged" in str(error), error
    else:
        raise AssertionError("believed")
assert table.scan().count() == 0
print("all refused")
"""


def test_a_last_offset_past_the_end_is_refused() -> None:
    """In a process of its own, which ends where such an offset is believed."""
    command = [sys.executable, "-c", LAST_OFFSET]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=repository.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all refused\n"), done.stdout


def test_structs_are_rows(table: Table) -> None:
    table.write(pa.chunked_array([WIDE.to_batches()[0].to_struct_array()]))
    assert [row.key for row in table.scan(columns=["f:"])] == [b"a", b"c"]


def test_a_stream_that_breaks_off_is_refused(table: Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, WIDE.schema) as stream:
        stream.write_table(WIDE)
    data = sink.getvalue().to_pybytes()
    with pytest.raises(InvalidArgument, match="cannot be read"):
        table.write(pa.ipc.open_stream(data[: len(data) // 2 + 50]))
    assert table.scan().count() == 0


def test_categories_of_polars(table: Table) -> None:
    frame = polars.DataFrame({"row": ["a", "b"], "g:s": ["x", None]})
    table.write(frame.with_columns(polars.col("row", "g:s").cast(polars.Categorical)))
    assert [row.to_dict() for row in table.scan()] == [{"g:s": "x"}]


@pytest.mark.parametrize("row", [5, [5], {"row"}])
def test_a_key_column_is_named_by_text(table: Table, row: object) -> None:
    with pytest.raises(InvalidArgument, match="the name of the key column"):
        table.write(WIDE, row=row)  # type: ignore[arg-type]


def test_a_large_table_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "PART_CELLS", 10)
    backend = ModelBackend()
    table = over(backend).create_table("t")
    rows = [b"%03d" % (number // 4) for number in range(100)]
    cells = pa.table(
        {
            "row": rows,
            "family": ["f"] * 100,
            "qualifier": [b"%d" % number for number in range(100)],
            "value": [b"v"] * 100,
        }
    )
    table.write(cells)
    written = backend.table("t").cells
    assert len(written) == 100
    txns: dict[bytes, set[int]] = {}
    for cell in written:
        txns.setdefault(cell.row, set()).add(cell.txn)
    assert all(len(of_row) == 1 for of_row in txns.values()), "no row is cut in two"
    assert len({cell.txn for cell in written}) == 13


def test_atomic_is_one_commit_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "PART_CELLS", 10)
    backend = ModelBackend()
    table = over(backend).create_table("t")
    table.write(
        pa.table({"row": [b"%d" % n for n in range(100)], "f:q": [b"v"] * 100}), atomic=True
    )
    assert len({cell.txn for cell in backend.table("t").cells}) == 1
    wide = {"row": ["a"], **{f"f:{n}": pa.nulls(1) for n in range(3)}}
    monkeypatch.setattr("stele.model.arrow_input.BATCH_CELLS_MAX", 2)
    with pytest.raises(LimitExceeded):
        table.write(pa.table(wide), atomic=True)


def test_small_chunks_become_one_commit() -> None:
    backend = ModelBackend()
    table = over(backend).create_table("t")
    chunks = [pa.table({"row": [b"%d" % n], "f:q": [b"v"]}) for n in range(20)]
    table.write(pa.concat_tables(chunks))
    assert len({cell.txn for cell in backend.table("t").cells}) == 1


def test_cells_have_no_key_column_to_choose(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="wide"):
        table.write(table.scan().to_arrow(), row="row")
    with pytest.raises(InvalidCells):
        table.write(pa.table({"row": ["a"], "family": ["f"]}), shape="cells")
