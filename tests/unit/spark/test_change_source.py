"""The readers of changes without Spark around them: what Spark calls, as it calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

import stele
from stele.client.table import Table
from stele.errors import Conflict, InvalidArgument
from stele.spark.change_options import ChangeOptions
from stele.spark.change_source import ChangesReader, ChangesStreamReader, feed_schema
from stele.spark.options import METADATA_KEY

SPARK = CloudPickleSerializer()
"""How things travel."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db")


@pytest.fixture
def table(path: str) -> Iterator[Table]:
    with stele.open(path) as db:
        yield db.create_table("t", stele.Schema(columns={"info:age": "int64"}))


def options(path: str, *, streaming: bool = True, **more: str) -> ChangeOptions:
    given = {"db": path, "table": "t", "changes": "net", **more}
    return ChangeOptions.parse(given, streaming=streaming)


def stream(path: str, **more: str) -> ChangesStreamReader:
    found = options(path, streaming=True, **more)
    return ChangesStreamReader(found, feed_schema(found))


def at(table: Table, txn: int) -> dict[str, Any]:
    """An offset."""
    return {"txn": txn, "table": table.id}


def lines(reader: Any, partitions: list[Any]) -> list[tuple[bytes, int, str]]:
    return [
        (line["row"], line["info:age"], line["_change_type"])
        for partition in partitions
        for batch in reader.read(SPARK.loads(SPARK.dumps(partition)))
        for line in batch.to_pylist()
    ]


def test_a_batch_of_changes(path: str, table: Table) -> None:
    first = table.put(b"a", {"info:age": 1})
    table.put(b"a", {"info:age": 2})
    given = options(path, streaming=False, startingVersion=str(first + 1))
    reader = ChangesReader(given, feed_schema(given))
    assert lines(reader, reader.partitions()) == [
        (b"a", 1, "update_preimage"),
        (b"a", 2, "update_postimage"),
    ]
    given = options(path, streaming=False, endingVersion=str(first))
    reader = ChangesReader(given, feed_schema(given))
    assert lines(reader, reader.partitions()) == [(b"a", 1, "insert")]
    given = options(path, streaming=False, startingVersion="latest")
    reader = ChangesReader(given, feed_schema(given))
    assert len(reader.partitions()) == 1
    assert lines(reader, reader.partitions()) == []


def test_the_schema_carries_the_options(path: str, table: Table) -> None:
    assert table.name == "t"
    schema = feed_schema(options(path))
    assert schema.names == [
        "row",
        "info:age",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]
    assert '"changes": "net"' in schema.fields[0].metadata[METADATA_KEY]


def test_spark_asks_as_it_is_used_to(path: str, table: Table) -> None:
    table.put(b"a", {"info:age": 1})
    reader = stream(path)
    start = reader.initialOffset()
    assert reader.initialOffset() == start == at(table, 0)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert lines(reader, reader.partitions(start, end)) == [(b"a", 1, "insert")]
    assert reader.partitions(end, end) == []
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert reader.reportLatestOffset() == end
    reader.commit(end)
    table.put(b"a", {"info:age": 2})
    later = reader.latestOffset(end, ReadAllAvailable())
    other = stream(path)
    assert other.reportLatestOffset() is None
    expected = [(b"a", 1, "update_preimage"), (b"a", 2, "update_postimage")]
    assert lines(other, other.partitions(end, later)) == expected
    reader.stop()
    stream(path).stop()


def test_older_sparks_do_not_say_where_a_batch_begins(path: str, table: Table) -> None:
    reader = stream(path, maxRowsPerTrigger="1")
    first = table.put(b"a", {"info:age": 1})
    second = table.put(b"b", {"info:age": 2})
    assert reader.latestOffset() == at(table, first)
    assert reader.latestOffset() == at(table, second)
    assert reader.latestOffset() == at(table, second)


def test_limits_are_what_options_say_unless_spark_wants_all(path: str, table: Table) -> None:
    txns = [table.put(b"%d" % number, {"info:age": number}) for number in range(3)]
    assert stream(path).getDefaultReadLimit() == ReadAllAvailable()
    assert stream(path, maxBytesPerTrigger="9").getDefaultReadLimit() == ReadMaxBytes(9)
    reader = stream(path, maxRowsPerTrigger="2", maxBytesPerTrigger="1")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(2)
    assert reader.latestOffset(at(table, 0), limit) == at(table, txns[0]), "bytes count as well"
    assert reader.latestOffset(at(table, 0), ReadAllAvailable()) == at(table, txns[2])


def test_available_now_goes_no_further(path: str, table: Table) -> None:
    txn = table.put(b"a", {"info:age": 1})
    reader = stream(path)
    reader.prepareForTriggerAvailableNow()
    table.put(b"b", {"info:age": 2})
    assert reader.latestOffset(at(table, 0), ReadAllAvailable()) == at(table, txn)
    assert reader.latestOffset(at(table, txn), ReadAllAvailable()) == at(table, txn)


def test_a_reader_travels_to_executors(path: str, table: Table) -> None:
    assert table.name == "t"
    assert isinstance(SPARK.loads(SPARK.dumps(stream(path))), ChangesStreamReader)


def test_fewer_columns_are_a_projection_and_others_are_refused(path: str, table: Table) -> None:
    table.put(b"a", {"info:age": 1})
    some = StructType([StructField("_change_type", StringType())])
    reader = ChangesStreamReader(options(path), some)
    end = reader.latestOffset(at(table, 0), ReadAllAvailable())
    (partition,) = reader.partitions(at(table, 0), end)
    assert [batch.to_pylist() for batch in reader.read(partition)] == [[{"_change_type": "insert"}]]
    wrong = ChangesStreamReader(options(path), StructType([StructField("size", LongType())]))
    with pytest.raises(InvalidArgument, match="no column 'size'"):
        wrong.partitions(at(table, 0), end)


def test_an_offset_of_another_table_is_refused(path: str) -> None:
    with stele.open(path) as db:
        schema = stele.Schema(columns={"info:age": "int64"})
        old = db.create_table("t", schema)
        txn = old.put(b"a", {"info:age": 1})
        running = stream(path)
        assert running.latestOffset(running.initialOffset(), ReadAllAvailable()) == at(old, txn)
        db.drop_table("t")
        new = db.create_table("t", schema)
        later = new.put(b"b", {"info:age": 2})
        sentence = (
            r"table 't' is another table .*dropped or renamed.* new checkpoint from 'earliest'"
        )
        asked: list[Callable[[], object]] = [
            lambda: running.latestOffset(at(old, txn), ReadAllAvailable()),
            lambda: stream(path).latestOffset(at(old, txn), ReadAllAvailable()),
            lambda: stream(path).partitions(at(old, txn), at(old, later)),
            lambda: stream(path).partitions(at(old, txn), at(new, later)),
        ]
        for ask in asked:
            with pytest.raises(Conflict, match=sentence):
                ask()
        fresh = stream(path)
        start = fresh.initialOffset()
        end = fresh.latestOffset(start, ReadAllAvailable())
        assert end == at(new, later)
        assert lines(fresh, fresh.partitions(start, end)) == [(b"b", 2, "insert")]


def test_an_offset_that_names_no_table_is_refused(path: str, table: Table) -> None:
    txn = table.put(b"a", {"info:age": 1})
    with pytest.raises(InvalidArgument, match=r"does not say which table .*'t'.* new checkpoint"):
        stream(path).latestOffset({"txn": txn}, ReadAllAvailable())
    with pytest.raises(InvalidArgument, match="does not say which table"):
        stream(path).partitions({"txn": 0}, {"txn": txn})


def test_a_table_that_is_dropped_and_comes_back_is_the_same(path: str) -> None:
    with stele.open(path) as db:
        table = db.create_table("t", stele.Schema(columns={"info:age": "int64"}))
        txn = table.put(b"a", {"info:age": 1})
        db.drop_table("t")
        again = db.undrop_table("t")
        later = again.put(b"b", {"info:age": 2})
        reader = stream(path)
        end = reader.latestOffset(at(table, txn), ReadAllAvailable())
        assert end == at(again, later)
        assert lines(reader, reader.partitions(at(table, txn), end)) == [(b"b", 2, "insert")]
