"""Nonsense in every argument of the public API: a typed error that says so, and no damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import stele
from stele import filters
from stele.client.database import Database
from stele.errors import GiveUp
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.options import EngineOptions

Call = Callable[[Any, Any], object]
"""Called with a database and a table of it."""

CALLS: dict[str, Call] = {
    "open a number": lambda _db, _t: stele.open(5),  # type: ignore[arg-type]
    "open nothing": lambda _db, _t: stele.open(""),
    "open a file": lambda _db, _t: stele.open(__file__),
    "open zero byte": lambda _db, _t: stele.open("\0"),
    "no options": lambda _db, _t: stele.open("/nowhere", "fast"),  # type: ignore[arg-type]
    "tiny log": lambda _db, _t: EngineOptions(log_file_bytes=100),
    "log of text": lambda _db, _t: EngineOptions(log_file_bytes="x"),  # type: ignore[arg-type]
    "table number": lambda db, _t: db.create_table(5),
    "table newline": lambda db, _t: db.create_table("a\n"),
    "splits number": lambda db, _t: db.create_table("x", splits=5),
    "splits bytes": lambda db, _t: db.create_table("x", splits=b"abc"),
    "no such table": lambda db, _t: db.table(None),
    "drop number": lambda db, _t: db.drop_table(7),
    "undrop number": lambda db, _t: db.undrop_table(7),
    "rename to number": lambda db, _t: db.rename_table("t", 5),
    "clone to number": lambda _db, t: t.clone(5),
    "alter to number": lambda db, _t: db.alter_table("t", 5),
    "put no key": lambda _db, t: t.put(None, {"f:a": b"x"}),
    "put empty key": lambda _db, t: t.put(b"", {"f:a": b"x"}),
    "put long key": lambda _db, t: t.put(b"a" * 100_000, {"f:a": b"x"}),
    "put nothing": lambda _db, t: t.put(b"a", {}),
    "put number": lambda _db, t: t.put(b"a", 5),
    "put number column": lambda _db, t: t.put(b"a", {5: b"x"}),
    "put no colon": lambda _db, t: t.put(b"a", {"f": b"x"}),
    "put text": lambda _db, t: t.put(b"a", {"f:a": "text"}),
    "put reserved": lambda _db, t: t.put(b"a", {"_retry:a": b"x"}),
    "put overflow": lambda _db, t: t.put(b"a", {"f:n": 1 << 70}),
    "put huge": lambda _db, t: t.put(b"a", {"f:a": bytes(65 << 20)}),
    "put timestamp": lambda _db, t: t.put(b"a", {"f:a": b"x"}, timestamp="soon"),
    "put timeout": lambda _db, t: t.put(b"a", {"f:a": b"x"}, timeout=-1),
    "get number": lambda _db, t: t.get(5),
    "get columns number": lambda _db, t: t.get(b"a", columns=5),
    "get versions text": lambda _db, t: t.get(b"a", versions="x"),
    "get versions 0": lambda _db, t: t.get(b"a", versions=0),
    "get at snapshot": lambda _db, t: t.get(b"a", at="none"),
    "get at fraction": lambda _db, t: t.get(b"a", at=1.5),
    "get time": lambda _db, t: t.get(b"a", time=(5,)),
    "get filters number": lambda _db, t: t.get(b"a", filters=5),
    "get filters text": lambda _db, t: t.get(b"a", filters="x"),
    "get filters list": lambda _db, t: t.get(b"a", filters=["x"]),
    "get_many number": lambda _db, t: t.get_many(5),
    "get_many bytes": lambda _db, t: t.get_many(b"ab"),
    "scan rows": lambda _db, t: t.scan(rows=5),
    "scan backwards": lambda _db, t: t.scan(rows=(b"z", b"a")),
    "scan limit": lambda _db, t: t.scan(limit="x"),
    "scan mode": lambda _db, t: t.scan(mode="newest"),
    "scan mode at": lambda _db, t: t.scan(mode="latest", at=5),
    "scan shape": lambda _db, t: t.scan(shape="x"),
    "scan prefix": lambda _db, t: t.scan(prefix=5),
    "split number": lambda _db, t: t.split(5),
    "join nowhere": lambda _db, t: t.join(b"zz"),
    "compact number": lambda _db, t: t.compact(5),
    "truncate number": lambda _db, t: t.truncate(5),
    "snapshot number": lambda _db, t: t.snapshot(5),
    "snapshot empty": lambda _db, t: t.snapshot(""),
    "sample text": lambda _db, t: t.sample_keys("x"),
    "increment text": lambda _db, t: t.increment(b"a", "f:n", "x"),
    "append number": lambda _db, t: t.append(b"a", "f:a", 5),
    "mutate_if nothing": lambda _db, t: t.mutate_if(b"a", {}),
    "mutate_if number": lambda _db, t: t.mutate_if(b"a", 5, put={"f:a": b"x"}),
    "write number": lambda _db, t: t.write(5),
    "write dict": lambda _db, t: t.write({"row": [b"a"]}),
    "delete columns number": lambda _db, t: t.delete(b"a", columns=5),
    "delete no columns": lambda _db, t: t.delete(b"a", columns=[]),
    "transaction number": lambda _db, t: t.transaction(5),
    "schema groups": lambda _db, _t: stele.Schema(groups=5),  # type: ignore[arg-type]
    "schema columns": lambda _db, _t: stele.Schema(columns=5),  # type: ignore[arg-type]
    "schema columns list": lambda _db, _t: stele.Schema(columns=[("f:n", "int64")]),  # type: ignore[list-item]
    "table half a letter": lambda db, _t: db.create_table("\udcff"),
    "snapshot half a letter": lambda _db, t: t.snapshot("\udcff"),
    "rename to half a letter": lambda db, _t: db.rename_table("t", "\udcff"),
    "open half a letter": lambda _db, _t: stele.open("/tmp/\udcff"),
    "write row number": lambda _db, t: t.write(pa.table({"row": [b"a"]}), row=5),
    "schema key": lambda _db, _t: stele.Schema(key=5),  # type: ignore[arg-type]
    "schema history": lambda _db, _t: stele.Schema(history="x"),
    "group purge": lambda _db, _t: stele.Group("a", purge="max-hist=3"),
    "filter field": lambda _db, _t: filters.prefix("zz", b"x"),  # type: ignore[arg-type]
    "filter field list": lambda _db, _t: filters.equal(["row"], b"x"),  # type: ignore[arg-type]
    "filter text": lambda _db, _t: filters.prefix("row", "x"),  # type: ignore[arg-type]
    "filter number": lambda _db, _t: filters.prefix("row", 5),  # type: ignore[arg-type]
    "filter equal text": lambda _db, _t: filters.equal("value", b"a", "x"),  # type: ignore[arg-type]
    "filter between": lambda _db, _t: filters.between("row", 5),  # type: ignore[arg-type]
    "filter between text": lambda _db, _t: filters.between("row", b"a", "b"),  # type: ignore[arg-type]
    "filter regex bytes": lambda _db, _t: filters.regex("row", b"x"),  # type: ignore[arg-type]
    "filter regex number": lambda _db, _t: filters.regex("row", 5),  # type: ignore[arg-type]
    "filter value type": lambda _db, _t: filters.value_between("int65", 1),
    "filter value": lambda _db, _t: filters.value_between("int64", "x"),
    "filter ranges": lambda _db, _t: filters.Filter("row", (5,)),  # type: ignore[arg-type]
    "group in memory text": lambda _db, _t: stele.Group("a", in_memory="no"),  # type: ignore[arg-type]
    "group in memory number": lambda _db, _t: stele.Group("a", in_memory=1),  # type: ignore[arg-type]
    "schema version": lambda _db, _t: stele.Schema(version="x"),  # type: ignore[arg-type]
    "schema version true": lambda _db, _t: stele.Schema(version=True),
    "schema version half": lambda _db, _t: stele.Schema(version=1.5),  # type: ignore[arg-type]
    "schema next id": lambda _db, _t: stele.Schema(next_column_id="x"),  # type: ignore[arg-type]
    "schema removed": lambda _db, _t: stele.Schema(removed=5),  # type: ignore[arg-type]
    "schema removed text": lambda _db, _t: stele.Schema(removed="abc"),
    "schema removed list": lambda _db, _t: stele.Schema(removed=[5, "a"]),  # type: ignore[list-item]
    "background text": lambda _db, _t: EngineOptions(background="no"),  # type: ignore[arg-type]
    "cache true": lambda _db, _t: EngineOptions(cache_bytes=True),
    "flush number": lambda _db, _t: EngineOptions(flush=5),  # type: ignore[arg-type]
    "sizes number": lambda _db, _t: EngineOptions(sizes=5),  # type: ignore[arg-type]
    "flush text": lambda _db, _t: EngineOptions(flush=FlushLimits(log_bytes="x")),  # type: ignore[arg-type]
    "flush below 0": lambda _db, _t: EngineOptions(flush=FlushLimits(memory_bytes=-1)),
    "group compression": lambda _db, _t: stele.Group("a", compression="lzo"),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with stele.open(tmp_path_factory.mktemp("database")) as db:
        table = db.create_table("t", stele.Schema(columns={"f:n": "int64"}))
        table.put(b"a", {"f:n": 1, "f:a": b"x"})
        yield db


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_refused_in_a_sentence(name: str, database: Database) -> None:
    table = database.table("t")
    with pytest.raises(GiveUp) as caught:
        CALLS[name](database, table)
    assert 10 < len(str(caught.value)) < 1_000
    row = table.get(b"a")
    assert row is not None
    assert row.to_dict() == {"f:n": 1, "f:a": b"x"}
    assert database.tables() == ["t"]
