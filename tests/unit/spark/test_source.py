"""The data source without Spark around it: what Spark would call, in the order it would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

import stele
from stele.errors import InvalidArgument
from stele.spark.change_source import ChangesStreamReader
from stele.spark.source import SteleDataSource, SteleReader


@pytest.fixture
def db(tmp_path: Path) -> str:
    with stele.open(tmp_path) as database:
        users = database.create_table("users", stele.Schema(columns={"info:age": "int64"}))
        for number in range(50):
            users.put(b"%02d" % number, {"info:age": number})
        database.create_table("empty", stele.Schema(columns={"info:age": "int64"}))
    return str(tmp_path)


def rows_of(reader: SteleReader) -> list[dict[str, Any]]:
    return [
        line
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for line in batch.to_pylist()
    ]


def test_options_reach_a_reader_by_themselves_or_by_the_schema(db: str) -> None:
    source = SteleDataSource({"db": db, "table": "users"})
    schema = source.schema()
    assert schema.simpleString() == "struct<row:binary,info:age:bigint>"
    expected = [{"row": b"%02d" % n, "info:age": n} for n in range(50)]
    assert rows_of(source.reader(schema)) == expected
    forgetful = SteleDataSource({})
    assert rows_of(forgetful.reader(schema)) == expected
    narrowed = SteleDataSource({"startrow": "48"})
    assert rows_of(narrowed.reader(schema)) == expected[48:]


def test_a_schema_with_fewer_columns_is_a_projection(db: str) -> None:
    source = SteleDataSource({"db": db, "table": "users"})
    some = StructType([StructField("info:age", LongType())])
    assert rows_of(source.reader(some))[:2] == [{"info:age": 0}, {"info:age": 1}]


def test_a_table_without_rows_has_one_partition_without_any(db: str) -> None:
    source = SteleDataSource({"db": db, "table": "empty"})
    reader = source.reader(source.schema())
    assert len(reader.partitions()) == 1
    assert rows_of(reader) == []


def test_no_filters_are_ever_pushed() -> None:
    assert "pushFilters" not in vars(SteleReader)


def test_a_stream_has_to_say_how_changes_are_told(db: str) -> None:
    source = SteleDataSource({"db": db, "table": "users"})
    with pytest.raises(InvalidArgument, match=r"changes='net'.*or changes='all'"):
        source.streamReader(source.schema())


def test_any_option_of_a_feed_makes_it_one(db: str) -> None:
    source = SteleDataSource({"db": db, "table": "users", "startingversion": "earliest"})
    schema = source.schema()
    assert schema.names[-3:] == ["_change_type", "_commit_version", "_commit_timestamp"]
    assert isinstance(source.streamReader(schema), ChangesStreamReader)
    lines = rows_of(SteleDataSource({}).reader(schema))
    assert {line["_change_type"] for line in lines} == {"insert"}
    assert [line["info:age"] for line in lines] == list(range(50))
