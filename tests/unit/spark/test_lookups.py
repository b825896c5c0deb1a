"""Keys go to the piece that may have them, and come back with their rows, or without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stele
from stele.errors import InvalidArgument, InvalidCells
from stele.model.ranges import EVERYTHING
from stele.spark.lookups import (
    KEY,
    PART,
    How,
    check_keys,
    check_lookup,
    encoded_keys,
    look_up_keys,
    make_lookup,
    route_keys,
)
from stele.spark.partition_policy import cut_evenly
from stele.spark.requests import ReadRequest
from stele.storage.read_plan import ReadPlan

SCHEMA = stele.Schema(
    [stele.Group("hot", ["info"], block_cells=256), stele.Group("rest", ["more"])],
    columns={"info:age": "int64", "info:name": "string"},
    key="string",
)
REQUEST = ReadRequest()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[stele.Table]:
    """Rows of many blocks, in files and memory, some erased, in three tablets."""
    dice = random.Random(3)
    with stele.open(tmp_path) as db:
        made = db.create_table("t", SCHEMA, splits=["k0300", "k0600"])
        with made.batch() as batch:
            for number in range(0, 900, 2):
                batch.put(f"k{number:04}", {"info:age": number, "more:x": b"%d" % number})
        made.compact()
        with made.batch() as batch:
            for number in dice.sample(range(0, 900, 2), 150):
                batch.put(f"k{number:04}", {"info:name": f"n{number}"})
        made.flush()
        for number in range(0, 900, 70):
            made.delete(f"k{number:04}")
        yield made


def run(plan: ReadPlan, lines: pa.RecordBatch, how: How = "left") -> list[dict[str, Any]]:
    """The two steps of a lookup, with the sort between them."""
    pieces = tuple(piece for task in cut_evenly(plan.tablets, (EVERYTHING,), 7) for piece in task)
    lookup = make_lookup(plan, REQUEST, pieces, ("key",), how)
    routed = pa.Table.from_batches(route_keys(lookup, 4, iter([lines])))
    ordered = routed.sort_by([(PART, "ascending"), (KEY, "ascending")])
    batches = ordered.combine_chunks().to_batches(max_chunksize=101)
    return [line for batch in look_up_keys(lookup, iter(batches)) for line in batch.to_pylist()]


def expected(table: stele.Table, keys: list[str | None]) -> list[dict[str, Any]]:
    wide = {line["row"]: line for line in table.scan(shape="rows").to_arrow().to_pylist()}
    return [
        {
            "n": number,
            "key": key,
            "info:age": wide.get(key, {}).get("info:age"),
            "info:name": wide.get(key, {}).get("info:name"),
        }
        for number, key in enumerate(keys)
    ]


def test_what_is_found_is_what_a_scan_finds(table: stele.Table) -> None:
    dice = random.Random(5)
    keys: list[str | None] = [f"k{dice.randrange(1000):04}" for _ in range(400)]
    keys += [None, "a", "z", "k0300", "k0300", None]
    lines = pa.record_batch({"n": pa.array(range(len(keys))), "key": pa.array(keys)})
    plan = table.core.backend.pin(None, 60_000_000)
    wanted = expected(table, keys)
    table.truncate()
    found = sorted(run(plan, lines), key=lambda line: line["n"])
    assert [{name: line[name] for name in wanted[0]} for line in found] == wanted
    inner = run(plan, lines, how="inner")
    present = {line["n"] for line in found if dict(line["more"] or ()) or line["info:name"]}
    assert {line["n"] for line in inner} == present
    assert present


def test_keys_of_other_types_and_nulls() -> None:
    schema = stele.Schema(key=[("tenant", "string"), ("day", "int32")])
    batch = pa.record_batch({"a": ["x", None, "y"], "b": pa.array([1, 2, None], pa.int64())})
    found = encoded_keys(schema, batch, ["a", "b"]).to_pylist()
    assert found == [schema.key.encode(("x", 1)), None, None]
    far = pa.record_batch({"a": ["x", "y"], "b": pa.array([2**40, 7], pa.int64())})
    assert encoded_keys(schema, far, ["a", "b"]).to_pylist() == [None, schema.key.encode(("y", 7))]
    nested = pa.record_batch({"a": ["x"], "b": [[1]]})
    with pytest.raises(InvalidCells, match="a, b are no keys"):
        encoded_keys(schema, nested, ["a", "b"])


def test_types_that_no_key_has_are_refused_before_a_job() -> None:
    schema = stele.Schema(key=[("tenant", "string"), ("day", "int32")])
    lines = pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.float64())])
    check_keys(schema, ["a", "b"], lines)
    with pytest.raises(
        InvalidArgument, match="'c' is double, and 'day' of the table's key is int32"
    ):
        check_keys(schema, ["a", "c"], lines)
    check_keys(stele.Schema(), ["a"], lines)
    check_keys(stele.Schema(key="uuid"), ["k"], pa.schema([("k", pa.binary())]))
    check_keys(stele.Schema(key="uint64"), ["k"], pa.schema([("k", pa.decimal128(20, 0))]))


def test_a_key_that_no_row_can_have_finds_nothing() -> None:
    keys = ["k1", "", None, "k" * 70_000]
    for schema in (SCHEMA, stele.Schema()):
        found = encoded_keys(schema, pa.record_batch({"k": keys}), ["k"]).to_pylist()
        assert found == [b"k1", None, None, None]
    numbers = stele.Schema(key="int64")
    encoded = pa.record_batch({"k": [numbers.key.encode(7), b"\xff"]})
    assert encoded_keys(numbers, encoded, ["k"]).to_pylist() == [numbers.key.encode(7), b"\xff"]


@pytest.mark.parametrize(
    ("names", "on", "how", "remedy"),
    [
        (["k"], ["key"], "left", "no column 'key' to look up; it has k"),
        (["k"], ["k"], "outer", "left, inner"),
        (["k", "l"], ["k", "l"], "left", "name as many columns"),
        (["k", "info:age"], ["k"], "left", "both sides have a column 'info:age'"),
    ],
)
def test_what_makes_no_sense(names: list[str], on: list[str], how: str, remedy: str) -> None:
    with pytest.raises(InvalidArgument, match=remedy):
        check_lookup(SCHEMA, REQUEST, names, on, how)
