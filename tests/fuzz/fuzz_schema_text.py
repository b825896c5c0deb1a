"""Texts that users and META hold: schemas and reads as JSON, purge policies, column names.

The first byte chooses the decoder, the rest is its input.
"""

from __future__ import annotations

from stele.model.columns import Column, ColumnSelection
from stele.model.durations import format_duration, parse_duration
from stele.model.filters import prefix, regex
from stele.model.groups import Group
from stele.model.predicates import ReadSpec, ScanSpec, spec_from_json, spec_to_json
from stele.model.purge import PurgePolicy
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json, schema_to_json
from stele.model.types import value_type


def _schema(data: bytes) -> None:
    schema = schema_from_json(data)
    text = schema_to_json(schema)
    assert schema_from_json(text) == schema
    assert schema_to_json(schema_from_json(text)) == text
    for group in schema.groups:
        assert schema.group(group.name) is group
        assert all(schema.group_of(family) is group for family in group.families or ())


def _purge(data: bytes) -> None:
    policy = PurgePolicy.parse(data.decode("utf-8", "replace"))
    assert PurgePolicy.parse(str(policy)) == policy
    assert not policy.drops(0, 10, 10), "the newest version of this very moment always stays"


def _spec(data: bytes) -> None:
    spec = spec_from_json(data)
    assert spec_from_json(spec_to_json(spec)) == spec


def _names(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    column = Column.parse(data)
    assert Column.parse(column.name) == column
    assert ColumnSelection.parse(data).contains(column.family, column.qualifier)
    assert Column.parse(text).family == column.family


def _words(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    if text[:1].isdigit():
        micros = parse_duration(text)
        assert parse_duration(format_duration(micros)) == micros
    else:
        assert value_type(value_type(text).name) == value_type(text)


_DECODERS = (_schema, _purge, _spec, _names, _words)

_SCHEMA = Schema(
    [Group("hot", ["info"], purge="max-history=3 and max-age=7d", in_memory=True), Group("rest")],
    {"info:age": "int64", "info:é": "decimal128(9, 2)"},
    [("tenant", "string"), ("day", "date")],
    "24h",
    removed=["old"],
)
_SCAN = ScanSpec(
    ranges=(RowRange(b"a", b"c"), RowRange.prefix(b"\xff")),
    columns=ColumnSelection.parse(["info:", "a:x"]),
    filters=(prefix("value", b"x"), regex("row", r"^a\xff|b+")),
    time_end=5,
    versions=None,
    limit=3,
    reverse=True,
    at=7,
)

SEEDS = [
    b"\x00" + schema_to_json(Schema()),
    b"\x00" + schema_to_json(_SCHEMA),
    b"\x01max-history=3 and (max-age=7d or max-age=1) or max-history=10",
    b"\x02" + spec_to_json(_SCAN),
    b"\x02" + spec_to_json(ReadSpec(rows=(b"a", b"b"))),
    b"\x03info:age",
    b"\x03info:",
    b"\x0415m",
    b"\x04decimal128(10, 2)",
]


def TestOneInput(data: bytes) -> None:
    """Whatever is accepted comes back the same through its canonical text."""
    if data:
        _DECODERS[data[0] % len(_DECODERS)](data[1:])
