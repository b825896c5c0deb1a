"""The files of a table for other engines: what is listed and the rest together are the table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stele.client.database import Database
from stele.client.table import Table
from stele.client.table_files import TableFiles
from stele.errors import InvalidArgument, NotFound
from stele.model.groups import Group
from stele.model.schema import Schema
from tests.unit.client.databases import BACKENDS

NAMES = ["row", "family", "qualifier", "timestamp", "txn", "value"]


@pytest.fixture(params=["embedded", "attached"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with BACKENDS[request.param](tmp_path / "db") as database:
        yield database


def lines(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(table.column(name).to_pylist() for name in NAMES), strict=True))


def cells_of(files: TableFiles) -> list[tuple[Any, ...]]:
    found = lines(files.rest())
    for path in files.paths():
        found += lines(pq.read_table(path, columns=NAMES))
    return sorted(found)


def test_listed_files_and_the_rest_are_the_table(db: Database) -> None:
    dice = random.Random(7)
    table = db.create_table("t", Schema([Group("a", ["f"]), Group("b")]), splits=[b"4"])
    for step in range(200):
        row = b"%d" % dice.randrange(60)
        if dice.random() < 0.8:
            table.put(row, {dice.choice(["f:x", "g:y"]): b"%d" % step})
        else:
            table.delete(row)
        if step in (80, 120, 160):
            table.compact((b"2", b"4"))
    with table.files() as files:
        assert not files.is_complete
        assert cells_of(files) == lines(table.scan().to_arrow())
        before = cells_of(files)
        table.truncate()
        assert cells_of(files) == before


def filled(db: Database, schema: Schema | None = None) -> Table:
    table = db.create_table("t", schema, splits=[b"row-50"])
    with table.batch() as batch:
        for number in range(100):
            batch.put(b"row-%02d" % number, {"m:n": number if schema else b"%d" % number})
    table.compact()
    return table


def test_duckdb_reads_the_files_of_a_compacted_table(db: Database) -> None:
    with filled(db).files() as files:
        assert files.is_complete
        assert files.rest().num_rows == 0
        query = "SELECT count(*), min(row), max(value) FROM read_parquet(?)"
        with duckdb.connect() as connection:
            found = connection.execute(query, [files.paths()]).fetchall()
        assert found == [(100, b"row-00", b"99")]
        assert sum(file.cells for file in files) == 100


def test_polars_reads_typed_lines(db: Database) -> None:
    schema = Schema([Group("all", ["m"])], columns={"m:n": "int64"})
    with filled(db, schema).files() as files:
        assert files.paths() == []
        frame = pl.read_parquet(files.paths("columns"))
    assert frame["m:n"].sum() == sum(range(100))


def test_files_of_the_past(db: Database) -> None:
    table = filled(db)
    txn = table.core.backend.durable_txn()
    table.delete(b"row-00")
    table.compact()
    with table.files(at=txn) as old, table.files() as new:
        assert old.txn == txn
        assert len(cells_of(old)) == 100
        assert len(cells_of(new)) == 99


def test_what_makes_no_sense_is_refused(db: Database) -> None:
    table = filled(db)
    with pytest.raises(InvalidArgument, match="lease"):
        table.files(lease="long")
    with pytest.raises(NotFound, match="nobody"):
        table.files(at="nobody")
    with table.files() as files, pytest.raises(InvalidArgument, match="cells, columns"):
        files.paths("rows")
    files.release()
