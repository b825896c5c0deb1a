"""``format("stele")`` and SQL, with everything that Spark is known to do to data sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROWS = 100


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stele.Database]:
    with stele.open(tmp_path_factory.mktemp("store")) as database:
        people = database.create_table("people", stele.Schema(columns={"info:age": "int64"}))
        for number in range(ROWS):
            people.put(b"%03d" % number, {"info:age": number, "x:y": b"z"})
        yield database


@pytest.fixture(scope="module")
def path(db: stele.Database) -> str:
    """Where the database is, which stays open: planners attach to it."""
    location: str = db.table("people").core.backend.pin(None, 3_600_000_000).location
    return str(Path(location).parent)


def load(spark: Any, path: str, **options: str) -> Any:
    return spark.read.format("stele").options(db=path, table="people", **options).load()


def ages(frame: Any) -> list[int]:
    return sorted(line["info:age"] for line in frame.collect())


def test_memory_of_an_open_database_is_included(spark: Any, db: stele.Database, path: str) -> None:
    frame = load(spark, path)
    assert frame.schema.simpleString() == "struct<row:binary,info:age:bigint>"
    assert ages(frame) == list(range(ROWS))
    people = db.table("people")
    people.put(b"new", {"info:age": 1_000})
    assert frame.count() == ROWS, "a frame keeps its snapshot"
    assert load(spark, path).count() == ROWS + 1
    people.delete(b"new")
    people.compact()
    assert frame.count() == ROWS


def test_a_second_use_is_not_narrowed_by_the_first(spark: Any, path: str) -> None:
    frame = load(spark, path)
    assert frame.where("`info:age` >= 10 and `info:age` < 20").count() == 10
    assert frame.count() == ROWS
    both = frame.where("`info:age` < 10").union(frame.where("`info:age` >= 90"))
    assert ages(both) == [*range(10), *range(90, 100)]
    frame.createOrReplaceTempView("people_frame")
    query = (
        "SELECT (SELECT count(*) FROM people_frame WHERE `info:age` < {a}) a, count(*) b FROM {t}"
    )
    line = spark.sql(query.format(a=10, t="people_frame WHERE `info:age` < 5")).first()
    assert (line.a, line.b) == (10, 5)


def test_options_narrow_a_load(spark: Any, path: str) -> None:
    assert ages(load(spark, path, startRow="090")) == list(range(90, ROWS))
    cells = load(spark, path, shape="cells", columns="x:", endRow="3030", rowEncoding="hex")
    assert cells.count() == 0
    cells = load(spark, path, shape="cells", columns="x:", endRow="303035", rowEncoding="hex")
    assert [bytes(line.row) for line in cells.sort("row").collect()] == [
        b"%03d" % n for n in range(5)
    ]
    assert spark.read.format("stele").load(f"{path}#people").count() == ROWS
    narrow = spark.read.format("stele").schema("`info:age` bigint").load(f"{path}#people")
    assert ages(narrow) == list(range(ROWS))


def test_create_table_using(spark: Any, db: stele.Database, path: str) -> None:
    spark.sql("DROP TABLE IF EXISTS t")
    spark.sql(f"CREATE TABLE t USING stele OPTIONS (db '{path}', table 'people')")
    try:
        assert spark.sql("SELECT count(*) FROM t").first()[0] == ROWS
        assert spark.table("t").columns == ["row", "info:age"]
        union = (
            "SELECT `info:age` FROM t WHERE `info:age` < 3 "
            "UNION ALL SELECT `info:age` FROM t WHERE `info:age` >= 98"
        )
        assert ages(spark.sql(union)) == [0, 1, 2, 98, 99]
        both = spark.sql(
            "SELECT (SELECT count(*) FROM t WHERE `info:age` < 10) a, "
            "(SELECT count(*) FROM t WHERE `info:age` < 5) b"
        ).first()
        assert (both.a, both.b) == (10, 5)
        spark.sql("CREATE OR REPLACE TEMP VIEW young AS SELECT * FROM t WHERE `info:age` < 7")
        assert spark.sql("SELECT count(*) FROM young").first()[0] == 7
        assert spark.sql("SELECT count(*) FROM t WITH (startRow='095')").first()[0] == 5
        assert spark.read.option("endRow", "005").table("t").count() == 5
        db.table("people").put(b"zzz", {"info:age": 5_000})
        assert spark.sql("SELECT max(`info:age`) FROM t").first()[0] == 5_000, "a new snapshot"
        db.table("people").delete(b"zzz")
    finally:
        spark.sql("DROP TABLE t")


def test_a_temporary_view_using(spark: Any, path: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW v USING stele "
        f"OPTIONS (db '{path}', table 'people', startRow '050')"
    )
    assert spark.sql("SELECT count(*) FROM v").first()[0] == 50
    assert spark.sql("SELECT count(*) FROM v WHERE `info:age` = 60").first()[0] == 1


def test_a_version_or_a_time_is_read(spark: Any, db: stele.Database, path: str) -> None:
    people = db.table("people")
    before = people.snapshot("before")
    people.put(b"later", {"info:age": 7})
    assert load(spark, path, versionAsOf="before").count() == ROWS
    assert load(spark, path, versionAsOf=str(before)).count() == ROWS
    people.delete(b"later")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startKey": "a"}, "no option 'startkey'; did you mean 'startRow'"),
        ({"versionAsOf": "1", "timestampAsOf": "1"}, "contradict"),
        ({"table": "people2"}, "did you mean 'people'"),
        ({"db": "/nowhere"}, "no database in /nowhere"),
        ({"shape": "tall"}, "shape is one of"),
    ],
)
def test_bad_options_are_refused_by_name(
    spark: Any, path: str, options: dict[str, str], said: str
) -> None:
    given = {"db": path, "table": "people", **options}
    with pytest.raises(Exception, match=said):
        spark.read.format("stele").options(**given).load()


def test_a_schema_that_does_not_fit_is_refused(spark: Any, path: str) -> None:
    frame = spark.read.format("stele").schema("age bigint").load(f"{path}#people")
    with pytest.raises(Exception, match="has no column 'age'; it has row, info:age"):
        frame.count()


def test_the_format_registers_itself(spark: Any, path: str) -> None:
    """A session that nobody set up finds the installed module by its name."""
    fresh = spark.newSession()
    assert fresh.read.format("stele").load(f"{path}#people").count() == ROWS
