"""``Table.changes``: net and all, cells and rows, here and from an attached process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import stele
from stele.client.changes import Changes
from stele.client.database import Database
from stele.client.table import Table
from stele.errors import InvalidArgument, NotFound, SnapshotTooOld
from stele.model.schema import Schema
from tests.unit.client.databases import BACKENDS

TYPED = Schema(columns={"info:age": "int64", "info:name": "string"})


@pytest.fixture(params=["embedded", "attached"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with BACKENDS[request.param](tmp_path / "db") as database:
        yield database


def people(db: Database) -> tuple[Table, int]:
    """A table with a past and a present; the txn between the two."""
    table = db.create_table("people", TYPED, splits=[b"f"])
    for name, age in ((b"ada", 36), (b"bob", 20), (b"gus", 50)):
        table.put(name, {"info:age": age, "x:note": b"n"})
    since = table.snapshot("before")
    table.put(b"ada", {"info:age": 37})
    table.delete(b"gus")
    table.put(b"eve", {"info:age": 1, "info:name": "Eve"})
    table.put(b"bob", {"info:age": 20})
    return table, since


def told(changes: Changes, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(line[name] for name in ("_change_type", *names)) for line in changes]


def test_rows_before_and_after(db: Database) -> None:
    table, since = people(db)
    with table.changes(since, shape="rows") as changes:
        assert told(changes, "row", "info:age") == [
            ("update_preimage", b"ada", 36),
            ("update_postimage", b"ada", 37),
            ("insert", b"eve", 1),
            ("delete", b"gus", 50),
        ]
        assert (changes.since, changes.txn) == (since, table.core.backend.durable_txn())
        assert changes.expires_us > changes.txn
    with table.changes(changes.txn) as nothing:
        assert list(nothing) == []
        assert nothing.to_arrow().num_rows == 0


def test_cells_before_and_after(db: Database) -> None:
    table, since = people(db)
    with table.changes("before", columns=["info:age"]) as changes:
        found = told(changes, "row", "value")
        kinds = [kind for kind, _, _ in found]
        assert kinds == [*["update_preimage", "update_postimage"] * 2, "insert", "delete"]
    with table.changes(since, columns=["info:age"], versions=None, rows=(b"a", b"c")) as changes:
        assert [kind for kind, *_ in told(changes)] == ["insert", "insert"]
    with table.changes(columns="x:") as everything:
        assert told(everything, "row") == [("insert", b"ada"), ("insert", b"bob")]


def test_every_mutation_by_txn(db: Database) -> None:
    table, since = people(db)
    table.flush()
    with table.changes(since, mode="all") as changes:
        assert told(changes, "row", "qualifier") == [
            ("put", b"ada", b"age"),
            ("erase_row", b"gus", None),
            ("put", b"eve", b"age"),
            ("put", b"eve", b"name"),
            ("put", b"bob", b"age"),
        ]
        txns = [line["_commit_version"] for line in changes]
        assert txns == sorted(txns)
    with table.changes(since, txns[1], mode="all", rows=[(b"a", b"b"), (b"g", None)]) as some:
        assert told(some, "row") == [("put", b"ada"), ("erase_row", b"gus")]


def test_readers_of_arrow_take_it(db: Database) -> None:
    table, since = people(db)
    with table.changes(since, shape="rows") as changes:
        frame = pl.DataFrame(changes)
        assert frame.columns == changes.schema.names
        assert frame.height == len(changes.to_pandas()) == changes.to_polars().height == 4


def test_they_are_read_until_they_are_released(db: Database) -> None:
    table, since = people(db)
    changes = table.changes(since)
    before = changes.to_arrow()
    table.compact()
    table.truncate()
    assert changes.to_arrow().equals(before)
    with pytest.raises(SnapshotTooOld, match="forgotten"):
        table.changes(since)
    changes.release()
    changes.release()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"mode": "some"}, "net or all, not 'some'"),
        ({"mode": "all", "shape": "rows"}, "shape='cells'"),
        ({"mode": "all", "versions": None}, "versions are for net"),
        ({"shape": "rows", "versions": 2}, "one version"),
        ({"shape": "wide"}, "'cells' or 'rows'"),
        ({"since": None}, "since=0"),
        ({"since": 5, "until": 3}, "rising"),
        ({"since": "now"}, "no snapshot 'now'"),
        ({"lease": "soon"}, "lease"),
        ({"shape": "rows", "columns": ["y:"]}, "wide rows need columns"),
    ],
)
def test_what_makes_no_sense_is_refused(
    db: Database, arguments: dict[str, Any], reason: str
) -> None:
    table, _ = people(db)
    with pytest.raises((InvalidArgument, NotFound), match=reason):
        table.changes(**arguments)


def test_asyncio_has_it_too(tmp_path: Path) -> None:
    async def main() -> list[dict[str, Any]]:
        async with await stele.aio.open(tmp_path / "db") as database:
            table = await database.create_table("t", TYPED)
            await table.put(b"a", {"info:age": 1})
            with await table.changes(shape="rows", mode="net") as changes:
                return list(changes)

    assert [line["info:age"] for line in asyncio.run(main())] == [1]


@pytest.mark.parametrize("mode", ["net", "all"])
def test_rows_of_overlapping_ranges_are_told_once_and_in_order(db: Database, mode: Any) -> None:
    table, since = people(db)
    ranges = [(b"e", None), (b"b", b"f"), (b"a", b"c")]
    with table.changes(since, rows=ranges, mode=mode) as found, table.changes(since) as net:
        told = [(line["row"], line["_change_type"]) for line in found]
        if mode == "net":
            assert told == [(line["row"], line["_change_type"]) for line in net]
        assert len(found.to_arrow().group_by(found.schema.names).aggregate([])) == len(told)
