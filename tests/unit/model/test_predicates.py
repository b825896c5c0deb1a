"""Read specifications: what they take, their JSON, and the order of evaluation by example."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.clock import TXN_MAX
from stele.model.columns import Column, ColumnSelection, FamilySelection
from stele.model.filters import Filter, equal, prefix, regex, value_between
from stele.model.limits import FILTERS_MAX, READ_RANGES_MAX, SPEC_BYTES_MAX
from stele.model.predicates import ReadSpec, ScanSpec, spec_from_json, spec_to_json
from stele.model.ranges import EVERYTHING, RowRange
from tests.unit.model.strategies import families, nasty_bytes, rows

ranges = nasty_bytes.map(RowRange.prefix) | rows.map(RowRange.row)
selections = st.none() | st.lists(
    st.builds(Column, families, nasty_bytes)
    | st.builds(FamilySelection.prefix, families, nasty_bytes),
    max_size=4,
)
filters: st.SearchStrategy[Filter] = st.one_of(
    st.builds(equal, st.sampled_from(["row", "qualifier", "value"]), nasty_bytes),
    st.builds(prefix, st.sampled_from(["row", "qualifier", "value"]), nasty_bytes),
    st.just(regex("value", r"^a\xff|é")),
    st.builds(lambda low: value_between("int64", low), st.integers(-5, 5)),
)
times = st.lists(
    st.integers(TIMESTAMP_MIN, TIMESTAMP_MAX), min_size=2, max_size=2, unique=True
).map(sorted)
counts = st.none() | st.integers(1, 2**63 - 1)


@st.composite
def cell_fields(draw: st.DrawFn) -> dict[str, object]:
    start, end = draw(times)
    return {
        "columns": ColumnSelection.parse(draw(selections)),
        "time_start": start,
        "time_end": end,
        "versions": draw(counts),
        "filters": tuple(draw(st.lists(filters, max_size=3))),
        "cells_per_row": draw(counts),
        "at": draw(st.none() | st.integers(0, TXN_MAX)),
    }


@st.composite
def specs(draw: st.DrawFn) -> ReadSpec | ScanSpec:
    fields = draw(cell_fields()) if draw(st.booleans()) else {}
    if draw(st.booleans()):
        return ReadSpec(rows=tuple(draw(st.lists(rows, max_size=4))), **fields)  # type: ignore[arg-type]
    return ScanSpec(
        ranges=tuple(draw(st.lists(ranges, max_size=4))),
        limit=draw(counts),
        reverse=draw(st.booleans()),
        **fields,  # type: ignore[arg-type]
    )


@given(specs())
def test_json_round_trip(spec: ReadSpec | ScanSpec) -> None:
    text = spec_to_json(spec)
    again = spec_from_json(text)
    assert again == spec
    assert type(again) is type(spec)
    assert spec_to_json(again) == text


def test_defaults_are_everything_newest() -> None:
    scan = ScanSpec()
    assert scan.ranges == (EVERYTHING,)
    assert scan.columns.is_everything
    assert (scan.time_start, scan.time_end) == (TIMESTAMP_MIN, TIMESTAMP_MAX)
    assert scan.versions == 1
    assert (scan.limit, scan.cells_per_row, scan.at, scan.reverse) == (None, None, None, False)
    assert spec_to_json(scan) == b'{"kind":"scan"}'


def test_ranges_are_tidied() -> None:
    scan = ScanSpec(ranges=(RowRange(b"m"), RowRange(b"a", b"c"), RowRange(b"b", b"d")))
    assert scan.ranges == (RowRange(b"a", b"d"), RowRange(b"m"))
    assert ScanSpec(ranges=()).ranges == ()


def test_rows_stay_in_the_order_asked_for() -> None:
    assert ReadSpec(rows=(b"b", b"a", b"b")).rows == (b"b", b"a", b"b")


def test_filters_by_field() -> None:
    one, two = equal("value", b"x"), prefix("row", b"r")
    spec = ScanSpec(filters=(one, two))
    assert spec.filters_on("value") == (one,)
    assert spec.filters_on("row") == (two,)
    assert spec.filters_on("qualifier") == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"time_start": 5, "time_end": 5}, "time range is empty"),
        ({"time_start": TIMESTAMP_MIN - 1}, "64 bits"),
        ({"time_end": TIMESTAMP_MAX + 1}, "64 bits"),
        ({"versions": 0}, "versions is a number from 1"),
        ({"versions": -1}, "versions"),
        ({"cells_per_row": 0}, "cells_per_row"),
        ({"limit": 0}, "limit"),
        ({"limit": 2**63}, "limit"),
        ({"at": -1}, "at is a txn"),
        ({"at": TXN_MAX + 1}, "at is a txn"),
        ({"filters": (regex("row", "a"),) * (FILTERS_MAX + 1)}, str(FILTERS_MAX)),
        ({"ranges": (EVERYTHING,) * (READ_RANGES_MAX + 1)}, str(READ_RANGES_MAX)),
    ],
)
def test_nonsense_is_refused_by_name(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        ScanSpec(**fields)  # type: ignore[arg-type]


def test_rows_are_row_keys() -> None:
    with pytest.raises(InvalidArgument, match="at least one byte"):
        ReadSpec(rows=(b"a", b""))
    with pytest.raises(LimitExceeded, match=str(READ_RANGES_MAX)):
        ReadSpec(rows=(b"a",) * (READ_RANGES_MAX + 1))


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"kind": "drop"},
        {"kind": "scan", "rows": []},
        {"kind": "read"},
        {"kind": "scan", "limit": "3"},
        {"kind": "scan", "limit": 1.5},
        {"kind": "scan", "versions": 0},
        {"kind": "scan", "ranges": [{"start": "YQ==", "end": "YQ=="}]},
        {"kind": "scan", "ranges": [{"start": "not base64!"}]},
        {"kind": "scan", "filters": [{"field": "family", "regex": "a"}]},
        {"kind": "scan", "filters": [{"field": "row"}]},
        {"kind": "scan", "filters": [{"field": "row", "regex": "("}]},
        {"kind": "scan", "columns": {"families": [{"family": "_retry"}]}},
        {"kind": "scan", "columns": {"families": [{"family": "a", "ranges": []}]}},
        {"kind": "scan", "time_start": 2**70},
    ],
)
def test_damaged_documents_are_refused(document: object) -> None:
    with pytest.raises(InvalidArgument):
        spec_from_json(json.dumps(document).encode())


@given(st.binary(max_size=40))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        spec_from_json(data)


def test_the_size_is_limited() -> None:
    with pytest.raises(LimitExceeded, match=str(SPEC_BYTES_MAX)):
        spec_from_json(b" " * (SPEC_BYTES_MAX + 1))
    with pytest.raises(InvalidArgument):
        spec_from_json(b"[" * 100_000)
