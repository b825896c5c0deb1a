"""Keys: byte order is key order, and encoding is a bijection."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.key_codec import RAW_KEYS, KeyCodec
from stele.model.limits import KEY_COMPONENTS_MAX, ROW_BYTES_MAX
from tests.unit.model.strategies import nasty_bytes, nasty_text, sliced
from tests.unit.model.typed_values import VALUES

PARTS: dict[str, st.SearchStrategy[Any]] = {
    **{name: VALUES[name] for name in VALUES if "float" not in name and "decimal" not in name},
    "string": nasty_text,
    "binary": nasty_bytes,
    "uuid": st.uuids(),
}

specs = st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=4)


def codec_of(types: list[str]) -> KeyCodec:
    return KeyCodec.parse([(f"p{index}", name) for index, name in enumerate(types)])


@st.composite
def codecs_and_keys(draw: st.DrawFn, count: int) -> tuple[KeyCodec, list[tuple[Any, ...]]]:
    types = draw(specs)
    parts = st.tuples(*(PARTS[name] for name in types))
    keys = [draw(parts) for _ in range(count)]
    if len(keys) > 1 and draw(st.booleans()):
        shared = draw(st.integers(0, len(types)))  # equal first parts make the rest decide
        keys = [(*keys[0][:shared], *key[shared:]) for key in keys]
    return codec_of(types), keys


def encoded_or_none(codec: KeyCodec, key: tuple[Any, ...]) -> bytes | None:
    """The row of a key; there is none for the one key that would be empty."""
    return codec.encode(key) if codec.bound(key) else None


@given(codecs_and_keys(2))
@settings(max_examples=500)
def test_byte_order_is_key_order(case: tuple[KeyCodec, list[tuple[Any, ...]]]) -> None:
    codec, (a, b) = case
    row_a, row_b = codec.bound(a), codec.bound(b)
    assert (row_a < row_b) == (a < b)
    assert (row_a == row_b) == (a == b)


@given(codecs_and_keys(1))
@settings(max_examples=300)
def test_round_trip(case: tuple[KeyCodec, list[tuple[Any, ...]]]) -> None:
    codec, (key,) = case
    row = encoded_or_none(codec, key)
    if row is None:
        return
    assert codec.decode(row) == codec.from_bytes(row) == key
    assert codec.to_bytes(key) == codec.to_bytes(row) == row
    assert codec.encode(dict(zip(codec.names, key, strict=True))) == row
    assert codec.encode(list(key)) == row


@given(specs, st.data())
@settings(max_examples=300)
def test_bytes_that_no_key_encodes_to_are_refused(types: list[str], data: st.DataObject) -> None:
    codec = codec_of(types)
    parts = st.tuples(*(PARTS[name] for name in types))
    row = codec.bound(data.draw(parts)) if data.draw(st.booleans()) else data.draw(nasty_bytes)
    edits = st.lists(st.tuples(st.integers(0, len(row)), nasty_bytes), max_size=2)
    for position, inserted in data.draw(edits):
        row = row[:position] + inserted + row[position + 1 :]
    try:
        key = codec.decode(row)
    except InvalidArgument:
        columns, undecodable = codec.decode_arrays(pa.array([row]))
        assert undecodable.tolist() == [True]
        assert all(column.null_count == 1 for column in columns)
    else:
        assert codec.bound(key) == row
        _, undecodable = codec.decode_arrays(pa.array([row]))
        assert undecodable.tolist() == [False]


@pytest.mark.parametrize(
    "row",
    [
        b"a\x00\x01",
        b"a\x00\x01\x80\x00\x4d\x46\x00",
        b"a\x80\x00\x4d\x46",
        b"a\x00b\x00\x01\x80\x00\x4d\x46",
        b"a\x00\x00\x01\x80\x00\x4d\x46",
        b"\xff\x00\x01\x80\x00\x4d\x46",
        b"a\x00\x01\xff\xff\xff\xff",
    ],
)
def test_near_misses_of_an_encoded_key(row: bytes) -> None:
    codec = KeyCodec.parse([("tenant", "string"), ("day", "date")])
    with pytest.raises(InvalidArgument, match="is not an encoded key"):
        codec.decode(row)
    good = codec.encode(("a", datetime.date(2024, 2, 29)))
    columns, undecodable = codec.decode_arrays(pa.array([good, row, good]))
    assert undecodable.tolist() == [False, True, False]
    assert columns[0].to_pylist() == ["a", None, "a"]


def arrow_values(type_name: str, values: list[Any]) -> list[Any]:
    return [value.bytes for value in values] if type_name == "uuid" else values


@given(specs, st.data())
@settings(max_examples=200)
def test_arrays_encode_and_decode_like_single_keys(types: list[str], data: st.DataObject) -> None:
    codec = codec_of(types)
    keys = data.draw(st.lists(st.tuples(*(PARTS[name] for name in types)), max_size=8))
    keys = [key for key in keys if codec.bound(key)]
    columns = [
        data.draw(sliced(arrow_values(part.type_name, [key[at] for key in keys]), part.arrow))
        for at, part in enumerate(codec.parts)
    ]
    rows = codec.encode_arrays(columns)
    rows.validate(full=True)
    assert rows.to_pylist() == [codec.encode(key) for key in keys]
    again, undecodable = codec.decode_arrays(rows)
    assert not undecodable.any()
    assert [one.to_pylist() for one in again] == [one.to_pylist() for one in columns]


@given(specs, st.data())
@settings(max_examples=200)
def test_prefixes_and_ranges_hold_exactly_their_keys(types: list[str], data: st.DataObject) -> None:
    codec = codec_of(types)
    parts = st.tuples(*(PARTS[name] for name in types))
    key, start, end = data.draw(parts), data.draw(parts), data.draw(parts)
    row = encoded_or_none(codec, key)
    if row is None:
        return
    count = data.draw(st.integers(0, len(types)))
    shared = key if data.draw(st.booleans()) else start
    if count < len(types) or codec.bound(shared):
        inside = codec.prefix_range(shared[:count]).contains(row)
        assert inside == (key[:count] == shared[:count])
    if codec.bound(start[:count]) < codec.bound(end[:count]):
        inside = codec.range(start[:count], end[:count]).contains(row)
        assert inside == (start[:count] <= key and key < end[:count])


def test_single_keys_are_values() -> None:
    codec = KeyCodec.parse("string")
    assert codec.encode("ada") == codec.to_bytes(b"ada") == b"ada"
    assert codec.decode(b"ada") == "ada"
    assert codec.range("a", "b").contains(b"ada")
    assert codec.range(b"\xff").contains(b"\xff\x00"), "raw bounds need not be encoded keys"
    assert not codec.composite
    assert str(codec) == codec.spec == "string"
    with pytest.raises(InvalidArgument, match="not an encoded key"):
        codec.to_bytes(b"\xff")


def test_raw_keys_take_any_bytes() -> None:
    assert RAW_KEYS.to_bytes(b"\x00\xff") == b"\x00\xff"
    with pytest.raises(InvalidArgument):
        RAW_KEYS.to_bytes("text")
    with pytest.raises(InvalidArgument, match="at least one byte"):
        RAW_KEYS.to_bytes(b"")


def test_the_example_of_a_composite_key() -> None:
    codec = KeyCodec.parse([("tenant", "string"), ("day", "date")])
    day = datetime.date(2024, 2, 29)
    assert codec.encode(("acme", day)) == b"acme\x00\x01\x80\x00\x4d\x46"
    assert codec.prefix_range(("acme",)).contains(codec.encode(("acme", day)))
    assert not codec.prefix_range(("acme",)).contains(codec.encode(("acme\x00", day)))
    assert codec.range(("acme", day), ("acme", datetime.date(2024, 3, 1))).contains(
        codec.encode({"tenant": "acme", "day": day})
    )
    assert KeyCodec.parse(codec.spec) == codec
    assert str(codec) == "tenant string, day date32"


@pytest.mark.parametrize(
    "key",
    [
        ("acme",),
        ("acme", datetime.date(2024, 1, 1), 3),
        ("acme", "2024-01-01"),
        "acme",
        {"tenant": "acme"},
        {"tenant": "acme", "day": datetime.date(2024, 1, 1), "x": 1},
        {"day": datetime.date(2024, 1, 1)},
        None,
        7,
    ],
)
def test_bad_keys_are_refused(key: object) -> None:
    codec = KeyCodec.parse([("tenant", "string"), ("day", "date")])
    with pytest.raises(InvalidArgument):
        codec.to_bytes(key)


@pytest.mark.parametrize(
    "spec",
    [
        *(None, 7, b"string", "", "float64", [], [("a",)], [("a", "string", "x")], ["string"]),
        *([("a", "string"), ("a", "date")], [("", "string")], [(1, "string")], [("a", 1)]),
        [(f"p{number}", "int8") for number in range(KEY_COMPONENTS_MAX + 1)],
    ],
)
def test_bad_codecs_are_refused(spec: object) -> None:
    with pytest.raises(InvalidArgument):
        KeyCodec.parse(spec)


def test_keys_too_long_for_a_row_are_refused() -> None:
    codec = KeyCodec.parse([("a", "binary"), ("b", "int8")])
    longest = b"\x00" * ((ROW_BYTES_MAX - 3) // 2)
    assert len(codec.encode((longest, 1))) == ROW_BYTES_MAX
    with pytest.raises(LimitExceeded, match=str(ROW_BYTES_MAX)):
        codec.encode((longest + b"a", 1))
    with pytest.raises(LimitExceeded, match=str(ROW_BYTES_MAX)):
        codec.encode_arrays([pa.array([longest + b"a"]), pa.array([1])])
    with pytest.raises(InvalidArgument, match="at least one byte"):
        RAW_KEYS.encode_arrays([pa.array([b"a", b""])])
    with pytest.raises(InvalidArgument, match="1 columns for a key of 2 parts"):
        codec.encode_arrays([pa.array([b"a"])])
