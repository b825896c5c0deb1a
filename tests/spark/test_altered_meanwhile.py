"""Tables that are altered while a job runs: what was made for other columns is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.env.failpoints import armed
from stele.errors import Conflict, InvalidArgument, TableNotFound

pytestmark = [
    pytest.mark.spark,
    # PySpark's own doing, at import and at the end of a session.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

INT32 = stele.Schema(columns={"c:a": "int32"})
NOTHING = stele.Schema()
BEGUN, DONE = "spark.load.after_begin", "spark.load.after_tasks"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        yield database


def numbers(spark: Any) -> Any:
    return spark.createDataFrame([("k1", 1), ("k2", 2)], "row string, `c:a` int")


def altering(db: stele.Database, *schemas: stele.Schema) -> Callable[[str], None]:
    def alter(_point: str) -> None:
        for schema in schemas:
            db.alter_table("t", schema)

    return alter


@pytest.mark.parametrize("point", [BEGUN, DONE])
def test_a_family_that_goes_takes_the_load_with_it(
    spark: Any, db: stele.Database, point: str
) -> None:
    both = stele.Schema([stele.Group("x", ["c"]), stele.Group("y", ["d"])])
    table = db.create_table("t", both)
    df = spark.createDataFrame([("k", "v", "w")], "row string, `c:x` string, `d:x` string")
    narrow = stele.Schema([stele.Group("x", ["c"])])
    with (
        armed(point, altering(db, narrow), hit=1),
        pytest.raises(InvalidArgument, match=r"family 'd' of .* was altered while the job ran"),
    ):
        ss.bulk_load(spark, df, table, splits=[])
    assert not list(table.scan())


def test_a_column_that_was_declared_anew_is_another_one(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", INT32)
    text = stele.Schema(columns={"c:a": "string"})
    with (
        armed(DONE, altering(db, NOTHING, text), hit=1),
        pytest.raises(Conflict, match=r"'t' was altered .* 'c:a' was int32 and is string; nothing"),
    ):
        ss.bulk_load(spark, numbers(spark), table, splits=[])
    assert not list(table.scan())


def test_what_leaves_the_files_readable_may_happen(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", INT32)
    wider = stele.Schema(columns={"c:a": "int64", "c:new": "string"})
    with armed(DONE, altering(db, wider), hit=1) as point:
        ss.bulk_load(spark, numbers(spark), table, splits=[])
    assert point.fired == 1
    table.put(b"k3", {"c:a": 1 << 40, "c:new": "x"})
    for _ in range(2):
        assert [row["c:a"] for row in table.scan()] == [1, 2, 1 << 40]
        found = ss.read(spark, table).orderBy("row").collect()
        assert [line["c:a"] for line in found] == [1, 2, 1 << 40]
        table.compact()


@pytest.mark.parametrize("is_load", [True, False])
def test_a_table_that_is_dropped_is_named(spark: Any, db: stele.Database, is_load: bool) -> None:
    table = db.create_table("people", INT32)

    def drop(_point: str) -> None:
        db.drop_table("people")

    def run() -> None:
        if is_load:
            ss.bulk_load(spark, numbers(spark), table, splits=[])
        else:
            ss.write(numbers(spark), table)

    point = DONE if is_load else "spark.write.after_tasks"
    sentence = "^table 'people' was dropped, and job '.*' cannot go on: bring it back with undrop"
    with armed(point, drop, hit=1), pytest.raises(TableNotFound, match=sentence):
        run()
    assert not list(db.undrop_table("people").scan())


def test_columns_that_spark_cannot_tell_apart_are_refused(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", NOTHING)
    df = spark.createDataFrame([("a", "1", "2")], "row string, x string, X string")
    with pytest.raises(
        InvalidArgument, match=r"(?s)cannot make sense of the DataFrame: .*mbiguous"
    ):
        ss.bulk_load(spark, df, table, family="c", splits=[])
    with pytest.raises(InvalidArgument, match="two columns of the DataFrame are called 'x'"):
        ss.bulk_load(spark, df.toDF("row", "x", "x"), table, family="c")
    with pytest.raises(InvalidArgument, match=r"a DataFrame of Spark, not builtins\.list: make"):
        ss.bulk_load(spark, [("a", "1")], table)
