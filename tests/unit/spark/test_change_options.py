"""Options of change feeds: each is checked by itself, and against the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stele
from stele.errors import InvalidArgument
from stele.model.schema import Schema
from stele.spark.change_options import ChangeOptions, is_feed
from stele.spark.options import from_metadata
from stele.storage.change_counts import ChangeLimits
from stele.storage.change_lines import CHANGED_CELLS

TABLE = {"db": "/data", "table": "users"}


def batch(**options: str) -> ChangeOptions:
    return ChangeOptions.parse(TABLE | options, streaming=False)


def stream(**options: str) -> ChangeOptions:
    return ChangeOptions.parse(TABLE | options, streaming=True)


def test_any_of_its_options_makes_a_feed() -> None:
    assert not is_feed(TABLE | {"columns": "info:"})
    assert is_feed(TABLE | {"CHANGES": "net"})
    assert is_feed({"option.startingversion": "5"})


def test_shapes_follow_from_how_it_is_told() -> None:
    assert batch().request().read.shape == "rows"
    assert batch(changes="all").request().read.shape == "cells"
    assert batch(shape="cells", versions="all").request().read.spec.versions is None
    schema = Schema(columns={"info:age": "int64"})
    assert batch(changes="all").request().telling(schema).schema.equals(CHANGED_CELLS)
    names = batch().request().telling(schema).schema.names
    assert names == ["row", "info:age", *CHANGED_CELLS.names[-3:]]


def test_ends_are_told_too(tmp_path: Path) -> None:
    with stele.open(tmp_path) as db:
        table = db.create_table("t", Schema())
        table.put(b"a", {"f:q": b"v"})
        durable = table.core.backend.durable_txn()
        assert batch().since(table) == 0
        assert batch(startingVersion="earliest").since(table) == 0
        assert batch(startingVersion="0").since(table) == 0
        assert batch(startingVersion="5").since(table) == 4
        assert batch(startingTimestamp="1970-01-01T00:00:01Z").since(table) == 999_999
        assert stream(startingVersion="latest").since(table) == durable
    assert batch().until() is None
    assert batch(endingVersion="7").until() == 7
    assert batch(endingTimestamp="1970-01-01T00:00:01+00:00").until() == 1_000_000


def test_limits_are_of_streams() -> None:
    assert stream().limits() == ChangeLimits()
    assert stream().limits().is_open
    limits = stream(maxRowsPerTrigger="10", maxBytesPerTrigger="1000").limits()
    assert limits == ChangeLimits(10, 1_000)


def test_what_a_schema_carries_is_enough() -> None:
    given = stream(changes="all", startingVersion="5", lease="2h", token="secret")
    kept = from_metadata(given.metadata)
    assert kept == TABLE | {"changes": "all", "startingVersion": "5", "lease": "2h"}
    assert stream(lease="2h").lease_us == 2 * 3_600_000_000
    assert stream().address.table == "users"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"changes": "some"}, "net or all, not 'some'"),
        ({"changes": "all", "shape": "rows"}, "shape='cells'"),
        ({"changes": "all", "versions": "2"}, "versions are for net"),
        ({"versions": "2"}, "one version"),
        ({"shape": "tall"}, "shape is"),
    ],
)
def test_what_cannot_be_told_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        stream(**options).request()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingVersions": "5"}, "did you mean 'startingVersion'"),
        ({"versionAsOf": "5"}, "reads of a state"),
        ({"endingVersion": "5"}, "for batches of changes: a stream goes on"),
        ({"startingVersion": "5", "startingTimestamp": "6"}, "contradict"),
    ],
)
def test_what_contradicts_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        stream(**options)
    with pytest.raises(InvalidArgument, match="for streams of changes: a batch has all"):
        batch(maxRowsPerTrigger="5")
    with pytest.raises(InvalidArgument, match="contradict"):
        batch(endingVersion="5", endingTimestamp="6")


@pytest.mark.parametrize(
    ("options", "ask", "reason"),
    [
        ({"startingVersion": "first"}, "since", "earliest, latest or a txn, not 'first'"),
        ({"startingVersion": "-3"}, "since", "a txn, not '-3'"),
        ({"startingVersion": "9" * 30}, "since", "not within 0"),
        ({"startingTimestamp": "yesterday"}, "since", "a time such as"),
        ({"startingTimestamp": "-5"}, "since", "startingTimestamp '-5' is not within"),
        ({"maxRowsPerTrigger": "0"}, "limits", "from 1"),
        ({"maxBytesPerTrigger": "few"}, "limits", "whole number"),
    ],
)
def test_values_are_checked(options: dict[str, str], ask: str, reason: str) -> None:
    found: Any = getattr(stream(**options), ask)
    with pytest.raises(InvalidArgument, match=reason):
        found(None) if ask == "since" else found()


def test_an_end_is_checked() -> None:
    with pytest.raises(InvalidArgument, match="endingVersion is a txn, not 'last'"):
        batch(endingVersion="last").until()
