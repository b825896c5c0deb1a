"""``ss.read``: whatever the table went through, Spark's answer is the store's."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import filters
from stele import spark as ss
from tests.spark.tables import (
    SCHEMA,
    cells_of_frame,
    cells_of_scan,
    key,
    random_course,
    random_read,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


NOON = datetime.datetime(2026, 1, 1, 12)  # noqa: DTZ001 -- a clock reading has no zone

PLAIN = stele.Schema([stele.Group("hot", ["info"]), stele.Group("rest")])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "we[i]rd {x} ä") as database:
        yield database


def wide_of_scan(table: stele.Table, **arguments: Any) -> list[dict[str, Any]]:
    return sorted(
        table.scan(shape="rows", **arguments).to_arrow().to_pylist(), key=lambda line: line["row"]
    )


def wide_of_frame(frame: Any) -> list[dict[str, Any]]:
    found = [line.asDict() for line in frame.collect()]
    for line in found:
        line["row"] = bytes(line["row"])
        seen = line.get("stats:seen")
        if seen is not None:
            line["stats:seen"] = seen.astimezone(datetime.UTC)
    return sorted(found, key=lambda line: line["row"])


@pytest.mark.parametrize("seed", range(4))
def test_random_tables_and_random_reads(spark: Any, db: stele.Database, seed: int) -> None:
    dice = random.Random(seed)
    table = db.create_table("t", SCHEMA, splits=[key(40)])
    txns = random_course(table, dice, 150)
    for _ in range(2):
        arguments = random_read(dice, txns)
        versions = dice.choice([1, 2, None])
        frame = ss.read(spark, table, shape="cells", versions=versions, **arguments)
        assert cells_of_frame(frame) == cells_of_scan(table, versions=versions, **arguments), (
            arguments
        )
    arguments = {**random_read(dice, txns), "columns": ["info:", "stats:seen", "anchor:age"]}
    assert wide_of_frame(ss.read(spark, table, **arguments)) == wide_of_scan(table, **arguments)


def test_a_compacted_table_is_one_native_scan(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", PLAIN, splits=[key(n) for n in (10, 20, 30)])
    for number in range(120):
        table.put(key(number), {"info:age": b"%d" % number, "anchor:x": b"y"})
    table.compact()
    frame = ss.read(spark, table, shape="cells")
    assert len(frame.inputFiles()) == len({f for t in table.tablets() for f in t.details["files"]})
    assert cells_of_frame(frame) == cells_of_scan(table)
    rows = (b"\x10", b"\xf0")
    some = ss.read(spark, table, shape="cells", rows=rows, columns=["info:age"])
    assert some.inputFiles()
    assert cells_of_frame(some) == cells_of_scan(table, rows=rows, columns=["info:age"])


def test_typed_wide_rows_are_one_native_scan(spark: Any, db: stele.Database) -> None:
    schema = stele.Schema(
        [stele.Group("all", ["m"], block_cells=256)],
        columns={
            "m:count": "uint64",
            "m:small": "uint8",
            "m:day": "date",
            "m:price": "decimal128(10, 2)",
            "m:seen": "timestamp",
            "m:clock": "timestamp[us]",
            "m:ratio": "float32",
            "m:text": "string",
        },
        key="string",
    )
    table = db.create_table("t", schema, splits=["k5"])
    for number in range(100):
        table.put(
            f"k{number:02}",
            {
                "m:count": 2**64 - 1 - number,
                "m:small": 255 - number,
                "m:day": datetime.date(1969, 12, 31) + datetime.timedelta(number),
                "m:price": decimal.Decimal(number) / 4,
                "m:seen": datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC),
                "m:ratio": number / 2,
                "m:text": "Zoë",
            }
            if number % 10
            else {"m:clock": NOON},
        )
    table.compact()
    for arguments in (
        {},
        {"columns": ["m:text", "m:small"]},
        {"rows": ("k2", "k7"), "columns": ["m:clock", "m:price"]},
    ):
        frame = ss.read(spark, table, **arguments)
        assert frame.inputFiles(), "read by Spark itself"
        by_kernels = ss.read(spark, table, where=ALL, **arguments)
        assert frame.schema == by_kernels.schema
        assert sorted(frame.collect()) == sorted(by_kernels.collect())
        expected = table.scan(shape="rows", **arguments).to_arrow()
        assert frame.count() == expected.num_rows
    nested = ss.read(spark, table, names="nested").where("row = 'k01'").first()
    assert (nested.m.text, int(nested.m["count"]), nested.m.small) == ("Zoë", 2**64 - 2, 254)
    table.put("k33", {"m:text": "new"})
    table.delete("k44")
    mixed = ss.read(spark, table)
    assert mixed.inputFiles(), "the other tablet is clean"
    texts = {line.row: line["m:text"] for line in mixed.collect()}
    assert (len(texts), texts["k33"], texts["k55"]) == (99, "new", "Zoë")


def test_loaded_and_widened_files_are_read_natively(spark: Any, db: stele.Database) -> None:
    def typed(**kinds: str) -> stele.Schema:
        columns = {f"m:{name}": kind for name, kind in kinds.items()}
        return stele.Schema([stele.Group("all", ["m"])], columns=columns, key="string")

    table = db.create_table("t", typed(n="int32", small="uint8", x="float32"))
    lines = spark.range(50).selectExpr(
        "concat('k', id + 10) AS row", "cast(-id AS int) AS `m:n`",
        "cast(id AS smallint) AS `m:small`", "cast(id / 4 AS float) AS `m:x`",
    )  # fmt: skip
    ss.bulk_load(spark, lines, table, row="row")
    loaded = ss.read(spark, table)
    assert loaded.inputFiles(), "not merged because of the txn that the load was given"
    assert {tuple(line) for line in loaded.collect()} == {tuple(line) for line in lines.collect()}
    with table.files() as files:
        assert files.is_complete
        assert len(files.paths("columns")) == len(loaded.inputFiles())
    db.alter_table("t", typed(n="int64", small="int64", x="float64"))
    table.put("k99", {"m:n": 2**40, "m:small": -1, "m:x": 1e300})
    widened = ss.read(spark, table)
    assert widened.inputFiles(), "Spark widens what is in the file"
    assert widened.dtypes[1:] == [("m:n", "bigint"), ("m:small", "bigint"), ("m:x", "double")]
    expected = {tuple(line) for line in lines.collect()} | {("k99", 2**40, -1, 1e300)}
    assert {tuple(line) for line in widened.collect()} == expected
    by_kernels = ss.read(spark, table, where=ALL)
    assert {tuple(line) for line in by_kernels.collect()} == expected
    assert widened.where("`m:n` > -3 AND `m:x` >= 0.25").count() == 3


def test_no_row_is_left_out_where_the_undeclared_have_a_column(
    spark: Any, db: stele.Database, tmp_path: Path
) -> None:
    schema = stele.Schema([stele.Group("all")], columns={"info:age": "int64"}, key="string")
    table = db.create_table("t", schema)
    table.put("ada", {"info:age": 36, "info:city": b"London"})
    table.put("bob", {"info:city": b"Ulm", "x:y": b"1"})
    table.compact()
    assert [line.row for line in ss.read(spark, table).collect()] == ["ada"]
    expected = [
        ("ada", 36, {b"info:city": b"London"}),
        ("bob", None, {b"info:city": b"Ulm", b"x:y": b"1"}),
    ]
    by_call = ss.read(spark, table, undeclared="others")
    by_format = (
        spark.read.format("stele").option("db", str(next(tmp_path.iterdir()))).option("table", "t")
        .option("undeclared", "others").load()
    )  # fmt: skip
    for frame in (by_call, by_format):
        found = [
            (line.row, line["info:age"], line.others) for line in frame.orderBy("row").collect()
        ]
        assert [
            (row, age, {bytes(k): bytes(v) for k, v in m.items()}) for row, age, m in found
        ] == (expected)


def test_clean_and_other_files_are_united_under_one_schema(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", PLAIN, splits=[b"\x80"])
    for number in range(120):
        table.put(key(number), {"info:age": b"%d" % number})
    table.compact()
    table.put(b"\xff\x01", {"info:age": b"7"})
    table.delete(b"\xff\x01", columns=["info:name"])
    frame = ss.read(spark, table, shape="cells")
    assert frame.inputFiles()
    assert frame.columns == ["row", "family", "qualifier", "timestamp", "txn", "value"]
    assert cells_of_frame(frame) == cells_of_scan(table)
    assert frame.rdd.getNumPartitions() >= 2


def test_shapes_names_and_keys(spark: Any, db: stele.Database) -> None:
    schema = stele.Schema(
        columns={"m:count": "uint64", "m:day": "date", "m:price": "decimal128(10, 2)"},
        key=[("tenant", "string"), ("day", "date")],
    )
    table = db.create_table("t", schema)
    day = datetime.date(2026, 1, 31)
    table.put(("acme", day), {"m:count": 2**64 - 1, "m:day": day, "x:\u00e4": b"1"})
    table.put(("zeta", day), {"m:count": 1})
    frame = ss.read(spark, table, columns=["m:", "x:"], names="nested")
    assert frame.schema.simpleString() == (
        "struct<tenant:string,day:date,x:map<binary,binary>,"
        "m:struct<count:decimal(20,0),day:date,price:decimal(10,2)>>"
    )
    (line,) = frame.where("tenant = 'acme'").collect()
    assert (line.day, int(line.m["count"]), line.m.day) == (day, 2**64 - 1, day)
    assert {bytes(k): bytes(v) for k, v in line.x.items()} == {"\u00e4".encode(): b"1"}
    only = ss.read(spark, table, rows=(("z",), None), names="flat", columns=["m:count"])
    assert [(line.tenant, int(line["count"])) for line in only.collect()] == [("zeta", 1)]


def test_where_is_sql_or_filters(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", SCHEMA)
    for number in range(60):
        table.put(key(number), {"info:age": number})
    table.compact()
    assert ss.read(spark, table, where="`info:age` >= 50").count() == 10
    starts = filters.prefix("row", b"\x00")
    expected = cells_of_scan(table, filters=starts)
    assert cells_of_frame(ss.read(spark, table, shape="cells", where=starts)) == expected
    assert expected


def test_time_ranges_and_partitions(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", SCHEMA)
    for number in range(60):
        table.put(key(number), {"anchor:x": b"%d" % number}, timestamp=number)
    for compacted in (False, True):
        frame = ss.read(spark, table, shape="cells", time_range=(10, 20), partitions=5)
        assert cells_of_frame(frame) == cells_of_scan(table, time=(10, 20))
        assert frame.count() == 10
        if not compacted:
            table.compact()


def test_even_partitions(spark: Any, db: stele.Database) -> None:
    """A skewed table: one tablet has nine tenths of the rows."""
    table = db.create_table("t", stele.Schema([stele.Group("all", block_cells=256)]), [b"z"])
    with table.batch() as batch:
        for number in range(20_000):
            batch.put(b"%s%05d" % (b"a" if number % 10 else b"z", number), {"f:q": b"value"})
    table.flush()
    with table.batch() as batch:
        for number in range(0, 20_000, 10):
            batch.put(b"a%05d" % (number + 1), {"f:q": b"newer"})
    frame = ss.read(spark, table, shape="cells", columns=["f:q"], partitions=8, where=ALL)
    counts = sorted(len(part) for part in frame.rdd.glom().collect())
    assert sum(counts) == 20_000
    assert len(counts) == 8
    assert counts[-1] / counts[len(counts) // 2] < 1.5


ALL = filters.prefix("row", b"")
"""Makes the kernels read everything."""


def test_an_empty_table_has_a_schema(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", SCHEMA)
    assert ss.read(spark, table).columns == ["row", "info:age", "info:name", "stats:seen"]
    assert ss.read(spark, table, shape="cells").count() == 0


def test_a_frame_keeps_its_snapshot_whatever_happens(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", SCHEMA)
    for number in range(100):
        table.put(key(number), {"info:age": number})
    table.flush()
    table.put(key(3), {"info:age": -3})
    expected = cells_of_scan(table)
    frame = ss.read(spark, table, shape="cells")
    table.delete(key(5))
    table.split(key(50))
    table.compact()
    backend: Any = table.core.backend
    store = backend._backend.store
    for _ in range(2):
        store.collect_garbage()
    assert cells_of_frame(frame) == expected
    table.join(key(50))
    db.alter_table("t", table.schema.replace(groups=[stele.Group("all")]))
    table.compact()
    db.drop_table("t")
    for _ in range(2):
        store.collect_garbage()
    db.close()
    assert cells_of_frame(frame) == expected, "also after the owner is gone"


def test_views(spark: Any, db: stele.Database) -> None:
    table = db.create_table("people", SCHEMA)
    table.put(b"ada", {"info:age": 36, "info:name": "Ada"})
    ss.view(spark, table)
    query = "SELECT `info:name` FROM people WHERE `info:age` > 30"
    assert [line[0] for line in spark.sql(query).collect()] == ["Ada"]
    table.put(b"bob", {"info:age": 40, "info:name": "Bob"})
    assert spark.sql(query).count() == 1, "a view keeps its snapshot"
    ss.view(spark, table)
    assert sorted(line[0] for line in spark.sql(query).collect()) == ["Ada", "Bob"]
    ss.view(spark, table, "cells", shape="cells")
    assert spark.sql("SELECT count(DISTINCT row) FROM cells").first()[0] == 2


def test_a_read_is_never_narrowed_by_another_use(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", SCHEMA)
    for number in range(100):
        table.put(b"%03d" % number, {"info:age": number})
    frame = ss.read(spark, table)
    assert frame.where("`info:age` >= 10 and `info:age` < 20").count() == 10
    assert frame.count() == 100
    both = frame.where("`info:age` < 10").union(frame.where("`info:age` >= 90"))
    found = sorted(line["info:age"] for line in both.collect())
    assert found == [*range(10), *range(90, 100)]
