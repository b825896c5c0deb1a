"""What a table does, over every backend: reads, writes, updates, tablets, snapshots."""

from __future__ import annotations

import datetime
import threading

import pytest

from stele import filters
from stele.client.database import Database
from stele.client.table import Table
from stele.errors import (
    AlreadyExists,
    InvalidArgument,
    InvalidCells,
    NotFound,
    SnapshotTooOld,
    StaleHandle,
)
from stele.model.columns import Column, FamilySelection
from stele.model.groups import Group
from stele.model.ranges import RowRange
from stele.model.schema import Schema


@pytest.fixture
def users(db: Database) -> Table:
    columns = {"info:age": "int64", "info:name": "string"}
    return db.create_table("users", Schema(columns=columns), splits=[b"g", b"p"])


def keys(table: Table, **options: object) -> list[bytes]:
    return [row.key for row in table.scan(**options)]  # type: ignore[arg-type]


def fill(table: Table) -> None:
    with table.batch() as batch:
        for letter in "abcdxyz":
            batch.put(letter.encode(), {"f:q": letter.encode(), "g:q": b"1"})


def test_a_put_is_read_back_typed(users: Table) -> None:
    txn = users.put(b"ada", {"info:name": "Ada", "info:age": 36, "raw:x": b"\x00"})
    row = users.get(b"ada")
    assert row is not None
    assert row.to_dict() == {"info:age": 36, "info:name": "Ada", "raw:x": b"\x00"}
    assert {cell.txn for cell in row.cells} == {cell.timestamp for cell in row.cells} == {txn}
    assert users.get(b"bob") is None


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"info:age": "36"}, "info:age"),
        ({"raw:x": "text"}, "raw:x"),
        ({"nocolon": b""}, "nocolon"),
        ({"_retry:x": b""}, "_retry"),
        ({}, "no values"),
        ([("info:age", 1)], "mapping"),
    ],
)
def test_a_wrong_put_names_the_offender(users: Table, values: object, word: str) -> None:
    with pytest.raises(InvalidArgument, match=word):
        users.put(b"ada", values)  # type: ignore[arg-type]
    assert users.get(b"ada") is None


@pytest.mark.parametrize("key", [b"", "text", None, 3, b"x" * 65_536])
def test_a_wrong_key_is_refused(users: Table, key: object) -> None:
    for call in (users.get, users.delete, users.transaction):
        with pytest.raises(InvalidArgument):
            call(key)


def test_an_unknown_family_is_refused(db: Database) -> None:
    table = db.create_table("t", Schema([Group("only", ["info"])]))
    with pytest.raises(InvalidCells, match="other"):
        table.put(b"a", {"other:x": b""})


def test_deletes_of_each_kind(users: Table) -> None:
    for number in (1, 2, 3):
        users.put(b"ada", {"a:x": b"%d" % number, "a:": b"-", "b:y": b"-"}, timestamp=number)
    users.delete(b"ada", columns=["a:x"], timestamp=3)
    assert users.get(b"ada", versions=None).versions("a:x") == [(2, b"2"), (1, b"1")]  # type: ignore[union-attr]
    users.delete(b"ada", columns="a:x", until=1)
    assert users.get(b"ada", versions=None).versions("a:x") == [(2, b"2")]  # type: ignore[union-attr]
    users.delete(b"ada", columns=[Column("a", b"")])
    assert list(users.get(b"ada")) == ["a:x", "b:y"]  # type: ignore[arg-type]
    users.delete(b"ada", columns=["a:"])
    assert list(users.get(b"ada")) == ["b:y"]  # type: ignore[arg-type]
    users.delete(b"ada")
    assert users.get(b"ada") is None
    users.put(b"ada", {"b:y": b"again"}, timestamp=1)
    assert users.get(b"ada")["b:y"] == b"again"  # type: ignore[index]


@pytest.mark.parametrize(
    "arguments",
    [
        {"timestamp": 1},
        {"columns": [], "until": 1},
        {"columns": ["a:"], "timestamp": 1},
        {"columns": ["a:x"], "timestamp": 1, "until": 1},
        {"columns": [FamilySelection.prefix("a", b"x")]},
        {"columns": [["a:x"]]},
    ],
)
def test_a_delete_without_meaning_is_refused(users: Table, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        users.delete(b"ada", **arguments)  # type: ignore[arg-type]


def test_get_many_answers_in_the_order_of_the_keys(users: Table) -> None:
    fill(users)
    rows = users.get_many([b"z", b"nobody", b"a", b"z"], columns=["f:"])
    assert [row and row.key for row in rows] == [b"z", None, b"a", b"z"]
    assert [row.key for row in rows.found()] == [b"a", b"z"]
    assert rows.to_arrow().num_rows == 2
    assert rows[-1]["f:q"] == b"z"  # type: ignore[index]
    with pytest.raises(InvalidArgument, match="list of keys"):
        users.get_many(b"ada")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, b"abcdxyz"),
        ({"rows": (b"b", b"y")}, b"bcdx"),
        ({"rows": (None, b"b")}, b"a"),
        ({"rows": [(b"x", None), (b"a", b"b")]}, b"axyz"),
        ({"rows": RowRange(b"c", b"d")}, b"c"),
        ({"prefix": b"y"}, b"y"),
        ({"limit": 2}, b"ab"),
        ({"limit": 2, "reverse": True}, b"zy"),
        ({"filters": filters.equal("value", b"b", b"z")}, b"bz"),
        ({"filters": [filters.prefix("row", b"x"), filters.equal("value", b"1")]}, b"x"),
        ({"columns": "nothing:"}, b""),
    ],
)
def test_scans_select_rows(users: Table, options: dict[str, object], expected: bytes) -> None:
    fill(users)
    assert b"".join(keys(users, **options)) == expected
    assert users.scan(**options).count() == len(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"rows": (b"b", b"a")},
        {"rows": b"a"},
        {"rows": [b"a", b"b"]},
        {"rows": (b"a", b"b"), "prefix": b"a"},
        {"limit": 0},
        {"versions": 0},
        {"shape": "wide"},
        {"time": 3},
        {"at": 1.5},
        {"at": datetime.datetime(2024, 1, 1)},  # noqa: DTZ001 -- the missing zone is the point
        {"shape": "rows", "versions": 2},
    ],
)
def test_a_scan_without_meaning_is_refused(users: Table, options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        list(users.scan(**options))  # type: ignore[arg-type]


def test_versions_and_time_ranges(users: Table) -> None:
    for number in range(1, 6):
        users.put(b"a", {"f:q": b"%d" % number}, timestamp=number)
    row = users.get(b"a", versions=2, time=(2, 5))
    assert row is not None
    assert row.versions("f:q") == [(4, b"4"), (3, b"3")]
    assert users.get(b"a", time=(6, None)) is None


def test_the_past_can_be_read_by_txn_time_and_name(users: Table) -> None:
    first = users.put(b"a", {"f:q": b"1"})
    users.snapshot("one")
    users.put(b"a", {"f:q": b"2"})
    moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
        microseconds=first
    )
    for at in (first, moment, "one"):
        assert users.get(b"a", at=at)["f:q"] == b"1"  # type: ignore[index]
        assert [row["f:q"] for row in users.scan(at=at)] == [b"1"]
    assert users.snapshots().keys() == {"one"}
    users.drop_snapshot("one")
    with pytest.raises(NotFound, match="'one'"):
        users.get(b"a", at="one")
    with pytest.raises(NotFound, match="one"):
        users.drop_snapshot("one")


def test_a_scan_is_of_one_moment_and_can_be_run_again(users: Table) -> None:
    fill(users)
    scan = users.scan(columns=["f:"])
    running = iter(scan)
    assert next(running).key == b"a"
    users.delete(b"z")
    assert [row.key for row in running][-1] == b"z"
    assert [row.key for row in scan][-1] == b"y"


def test_conditional_mutation(users: Table) -> None:
    assert users.mutate_if(b"a", {"f:q": None}, put={"f:q": b"1"}) is not None
    assert users.mutate_if(b"a", {"f:q": None}, put={"f:q": b"2"}) is None
    assert users.mutate_if(b"a", {"f:q": b"1", "info:age": None}, put={"info:age": 1}, delete="f:q")
    assert users.get(b"a").to_dict() == {"info:age": 1}  # type: ignore[union-attr]
    assert users.mutate_if(b"a", {"info:age": 1}, delete=True) is not None
    assert users.get(b"a") is None


@pytest.mark.parametrize(
    ("conditions", "arguments"),
    [({}, {"put": {"f:q": b""}}), ({"f:q": None}, {}), ({"info:age": "x"}, {"delete": True})],
)
def test_a_condition_without_meaning_is_refused(
    users: Table, conditions: dict[str, object], arguments: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgument):
        users.mutate_if(b"a", conditions, **arguments)  # type: ignore[arg-type]


def test_counters_count_and_do_not_overflow(users: Table) -> None:
    assert users.increment(b"a", "info:age") == 1
    assert users.increment(b"a", "raw:n", -5) == -5
    assert users.get(b"a")["raw:n"] == (-5).to_bytes(8, "big", signed=True)  # type: ignore[index]
    top = 2**63 - 1
    users.put(b"a", {"info:age": top})
    with pytest.raises(InvalidArgument, match="int64"):
        users.increment(b"a", "info:age")
    assert users.get(b"a")["info:age"] == top  # type: ignore[index]
    users.put(b"a", {"raw:n": b"short"})
    with pytest.raises(InvalidArgument, match="no counter"):
        users.increment(b"a", "raw:n")
    with pytest.raises(InvalidArgument, match="string"):
        users.increment(b"a", "info:name")


def test_threads_share_a_counter(db: Database) -> None:
    table = db.create_table("counters")

    def count() -> None:
        for _ in range(10):
            db.table("counters").increment(b"a", "f:n")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.increment(b"a", "f:n", 0) == 40


def test_appending(users: Table) -> None:
    assert users.append(b"a", "raw:x", b"ab") == b"ab"
    assert users.append(b"a", "raw:x", b"c") == b"abc"
    assert users.append(b"a", "info:name", "é") == "é".encode()
    with pytest.raises(InvalidArgument, match="int64"):
        users.append(b"a", "info:age", b"1")


def test_typed_keys_and_their_bytes_mean_the_same(db: Database) -> None:
    schema = Schema(key=[("tenant", "string"), ("day", "date")])
    table = db.create_table("events", schema, splits=[("b",)])
    day = datetime.date(2024, 5, 1)
    table.put(("a", day), {"f:q": b"1"})
    table.put({"tenant": "b", "day": day}, {"f:q": b"2"})
    row = table.get(("a", day))
    assert row is not None
    assert row.typed_key == ("a", day)
    assert table.get(row.key) == row
    assert [row.typed_key[0] for row in table.scan(prefix=("b",))] == ["b"]
    assert [row.typed_key[0] for row in table.scan((("a",), ("b",)))] == ["a"]
    assert len(table.tablets()) == 2
    with pytest.raises(InvalidArgument, match="not an encoded key"):
        table.put(b"\xff", {"f:q": b""})


def test_tablets_split_and_join(users: Table) -> None:
    fill(users)
    before = keys(users)
    users.split(b"c")
    users.split(b"c")
    starts = [tablet.rows.start for tablet in users.tablets()]
    assert starts == [b"", b"c", b"g", b"p"]
    users.join(b"c")
    assert len(users.tablets()) == 3
    with pytest.raises(InvalidArgument):
        users.join(b"c")
    users.flush()
    users.compact()
    assert keys(users) == before
    assert set(users.sample_keys(2)) <= set(before)


def test_truncating_takes_the_history_too(users: Table) -> None:
    fill(users)
    before = users.put(b"b", {"f:q": b"new"})
    users.put(b"b", {"f:q": b"newer"})
    users.truncate(rows=(b"b", b"d"))
    assert b"".join(keys(users)) == b"adxyz"
    with pytest.raises(SnapshotTooOld):
        users.get(b"b", at=before)
    users.truncate()
    assert keys(users) == []


def test_a_clone_goes_its_own_way(users: Table, db: Database) -> None:
    fill(users)
    clone = users.clone("users2")
    clone.delete(b"a")
    users.delete(b"z")
    assert keys(clone)[0] == b"b"
    assert keys(clone)[-1] == b"z"
    assert keys(users)[0] == b"a"
    with pytest.raises(AlreadyExists):
        users.clone("users2")
    assert db.tables() == ["users", "users2"]


def test_a_closed_table_says_so(db: Database) -> None:
    table = db.create_table("t")
    db.close()
    for call in (table.get, table.delete, table.split, table.transaction):
        with pytest.raises(StaleHandle, match="closed"):
            call(b"a")
    assert repr(table) == "Table('t')"
