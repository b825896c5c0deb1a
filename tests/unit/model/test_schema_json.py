"""Schemas as JSON: one text for one schema, and nothing unknown gets in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidSchema, UnsupportedFormat
from stele.model.groups import Group
from stele.model.limits import SCHEMA_BYTES_MAX
from stele.model.schema import Schema
from stele.model.schema_json import SCHEMA_FORMAT, schema_from_json, schema_to_json
from tests.unit.model.schemas import schemas


@given(schemas())
def test_round_trip_is_canonical(schema: Schema) -> None:
    text = schema_to_json(schema)
    again = schema_from_json(text)
    assert again == schema
    assert schema_to_json(again) == text
    loose = json.dumps(json.loads(text), indent=2, sort_keys=True)
    assert schema_to_json(schema_from_json(loose)) == text


def test_the_text_is_what_the_format_says() -> None:
    schema = Schema([Group("g", ["f"], purge="max-age=1d")], {b"f:\xff": "int8"}, "string", 5)
    assert schema_to_json(schema) == (
        b'{"format":1,"version":1,"history_us":5,"key":"string","groups":[{"name":"g",'
        b'"families":["f"],"purge":"max-age=1d","compression":"zstd","block_cells":4096,'
        b'"in_memory":false}],"columns":[{"id":16,"family":"f","qualifier":"/w==","type":"int8",'
        b'"label":"f:\\\\xff","former":[]}],"removed":[],"next_column_id":17}'
    )


GOOD = json.loads(schema_to_json(Schema([Group("g", ["f"])], {"f:x": "int8"})))


def edited(path: str, value: object) -> bytes:
    """The good document with one field set (or, for ``...``, taken out)."""
    document = json.loads(json.dumps(GOOD))
    *parents, last = path.split(".")
    place = document
    for name in parents:
        place = place[int(name)] if name.isdigit() else place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", ...),
        ("version", 0),
        ("version", "1"),
        ("version", 2**63),
        ("history_us", -1),
        ("key", "float64"),
        ("key", [["a", "string", "b"]]),
        ("groups", []),
        ("groups.0.name", "a b"),
        ("groups.0.families", "f"),
        ("groups.0.families", []),
        ("groups.0.families", ["f", "f"]),
        ("groups.0.purge", "max-what=1"),
        ("groups.0.compression", "lzo"),
        ("groups.0.block_cells", 1),
        ("groups.0.in_memory", 1),
        ("groups.0.more", 1),
        ("columns.0.id", 3),
        ("columns.0.family", "g"),
        ("columns.0.qualifier", "not base64!"),
        ("columns.0.type", "int7"),
        ("columns.0.former", ["int64"]),
        ("columns.0.label", 7),
        ("removed", ["f"]),
        ("removed", "f"),
        ("unknown", None),
        ("format", "1"),
        ("format", ...),
    ],
)
def test_damaged_documents_are_refused(path: str, value: object) -> None:
    assert schema_from_json(edited("version", 7)).version == 7
    with pytest.raises(InvalidSchema):
        schema_from_json(edited(path, value))


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"{", b'"x"', b"\xff", b"[" * 100_000, "\ud800"]
)
def test_what_is_no_document_is_refused(text: bytes | str) -> None:
    with pytest.raises(InvalidSchema):
        schema_from_json(text)


def test_a_newer_format_is_named() -> None:
    with pytest.raises(
        UnsupportedFormat, match=f"format 2; this program reads format {SCHEMA_FORMAT}"
    ):
        schema_from_json(edited("format", 2))
    newer = json.dumps({"format": 2, "everything": "else"})
    with pytest.raises(UnsupportedFormat):
        schema_from_json(newer)


def test_the_size_is_limited() -> None:
    with pytest.raises(InvalidSchema, match=str(SCHEMA_BYTES_MAX)):
        schema_from_json(b" " * (SCHEMA_BYTES_MAX + 1))


@given(st.binary(max_size=60))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidSchema):
        schema_from_json(data)
