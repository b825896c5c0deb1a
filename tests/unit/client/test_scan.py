"""Scans: lazy, in two shapes, readable by others, and closed whichever way they end."""

from __future__ import annotations

import duckdb
import polars
import pyarrow as pa
import pytest

from stele.client.database import Database
from stele.client.scan import Scan
from stele.client.table import Table
from stele.errors import DeadlineExceeded, InvalidArgument, StaleHandle
from stele.model.cells import CELLS
from stele.model.schema import Schema
from tests.oracles.model_backend import ModelBackend, ModelTable
from tests.unit.client.databases import over


@pytest.fixture
def table(db: Database) -> Table:
    table = db.create_table("t", Schema(columns={"f:n": "int64"}))
    with table.batch() as batch:
        for number in range(10):
            batch.put(b"%d" % number, {"f:n": number, "f:raw": b"x"})
    return table


def test_cells_come_as_arrow(table: Table) -> None:
    scan = table.scan(columns=["f:n"])
    assert scan.schema == CELLS
    assert scan.to_arrow().column("row").to_pylist() == [b"%d" % n for n in range(10)]
    assert sum(batch.num_rows for batch in scan.batches()) == 10
    assert len(scan.to_pandas()) == len(scan.to_polars()) == 10


def test_rows_come_wide(table: Table) -> None:
    wide = table.scan(shape="rows").to_arrow()
    assert wide.column_names == ["row", "f:n"]
    assert wide.column("f:n").to_pylist() == list(range(10))
    both = table.scan((b"3", b"4"), ["f:n", "f:raw"], shape="rows")
    assert both.to_arrow().to_pylist() == [{"row": b"3", "f:n": 3, "f:raw": b"x"}]
    assert both.to_pandas()["f:n"].tolist() == [3]


def test_an_empty_scan_has_its_schema(table: Table) -> None:
    for shape in ("cells", "rows"):
        scan = table.scan((b"x", None), shape=shape)
        assert scan.to_arrow().schema == scan.schema
        assert scan.to_arrow().num_rows == 0


def test_others_read_the_stream(table: Table) -> None:
    wide = table.scan(shape="rows")
    assert pa.table(wide).num_rows == 10
    assert polars.DataFrame(wide)["f:n"].sum() == 45
    with duckdb.connect() as connection:
        relation = connection.from_arrow(wide.reader())
        assert relation.sum('"f:n"').fetchall() == [(45,)]


def test_explain_says_what_was_read(table: Table) -> None:
    told = table.scan((b"2", b"5"), ["f:n"]).explain()
    assert (told["table"], told["rows"], told["cells"]) == ("t", 3, 3)
    assert told["specification"]["kind"] == "scan"
    assert told["txn"] > 0


def model_table(backend: ModelBackend) -> tuple[Table, ModelTable]:
    table = over(backend).create_table("t")
    with table.batch() as batch:
        for number in range(10):
            batch.put(b"%d" % number, {"f:q": b"x"})
    return table, backend.table("t")


@pytest.mark.parametrize("shape", ["cells", "rows"])
def test_a_scan_that_is_left_lets_go(shape: str) -> None:
    table, model = model_table(ModelBackend())
    batches = table.scan(columns=["f:q"], shape=shape).batches()  # type: ignore[arg-type]
    next(batches)
    assert [scan.closed for scan in model.open_scans] == [False]
    batches.close()
    assert [scan.closed for scan in model.open_scans] == [True]


def test_nothing_is_read_before_it_is_asked_for() -> None:
    table, model = model_table(ModelBackend())
    assert isinstance(table.scan(), Scan)
    assert model.open_scans == []


def test_a_deadline_ends_a_scan() -> None:
    table, model = model_table(ModelBackend())
    with pytest.raises(DeadlineExceeded, match="'t'"):
        list(table.scan(timeout=0))
    assert all(scan.closed for scan in model.open_scans)


def test_closing_the_database_ends_a_scan() -> None:
    backend = ModelBackend()
    database = over(backend)
    table = database.create_table("t")
    for number in range(10):
        table.put(b"%d" % number, {"f:q": b"x"})
    rows = iter(table.scan())
    next(rows)
    database.close()
    with pytest.raises(StaleHandle):
        list(rows)


def test_wide_rows_of_nothing_known_are_refused() -> None:
    table, _ = model_table(ModelBackend())
    with pytest.raises(InvalidArgument, match="declare"):
        table.scan(shape="rows").to_arrow()
