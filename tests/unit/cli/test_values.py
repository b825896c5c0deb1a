"""Words become keys and values, and back."""

from __future__ import annotations

import datetime
import decimal
import os
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.cli.values import (
    from_bytes,
    moment,
    plain,
    read_cell,
    read_key,
    read_value,
    to_bytes,
    word,
)
from stele.errors import InvalidArgument
from stele.model.key_codec import KeyCodec
from stele.model.schema import Schema


@given(st.binary())
def test_every_byte_string_has_a_word(data: bytes) -> None:
    text = from_bytes(data)
    assert to_bytes(text) == data
    assert text.isprintable()


@pytest.mark.parametrize("text", ["\\", r"\x", r"\xg0", r"a\n"])
def test_a_wrong_escape_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="backslash"):
        to_bytes(text)


def test_bytes_of_a_command_line_that_are_no_text_stay_what_they_are() -> None:
    assert to_bytes(os.fsdecode(b"a\xff\xc3")) == b"a\xff\xc3"
    with pytest.raises(InvalidArgument, match="UTF-8"):
        to_bytes("\ud800")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("-7", "int8", -7),
        ("7", "uint64", 7),
        ("1.5", "float64", 1.5),
        ("TRUE", "bool", True),
        (r"\x", "string", r"\x"),
        (r"\x00", "binary", b"\x00"),
        ("2024-05-01", "date32", datetime.date(2024, 5, 1)),
        ("2024-05-01T01:02:03", "timestamp[us]", datetime.datetime(2024, 5, 1, 1, 2, 3)),  # noqa: DTZ001
        ("1.20", "decimal128(5, 2)", decimal.Decimal("1.20")),
        ("0" * 32, "uuid", uuid.UUID(int=0)),
    ],
)
def test_values_of_every_type(text: str, kind: str, value: object) -> None:
    assert read_value(text, kind, "it") == value


@pytest.mark.parametrize("kind", ["int8", "float64", "bool", "date32", "decimal128(5, 2)", "uuid"])
def test_a_wrong_value_is_named(kind: str) -> None:
    with pytest.raises(InvalidArgument, match=r"it: 'x' is not a value of type"):
        read_value("x", kind, "it")


def test_cells_and_keys_follow_the_schema() -> None:
    schema = Schema(columns={"f:n": "int8"})
    assert read_cell("7", schema.typed_column("f:n"), "f:n") == 7
    assert read_cell("7", None, "f:raw") == b"7"
    assert read_key("7", KeyCodec.parse("int64")) == 7
    codec = KeyCodec.parse([("a", "string"), ("b", "int8")])
    assert read_key('["x", 3]', codec) == ("x", 3)
    assert read_key('["x"]', codec) == ("x",)
    for wrong in ("x", "{}", '"x"', "[null, 3]", '[["x"], 3]', "[1.5, 3]", "[" * 100_000):
        with pytest.raises(InvalidArgument, match="JSON array"):
            read_key(wrong, codec)
    with pytest.raises(InvalidArgument, match="more parts"):
        read_key('["x", 3, "y"]', codec)


@pytest.mark.parametrize(
    ("value", "json_value", "text"),
    [
        (None, None, "null"),
        (True, True, "true"),
        (7, 7, "7"),
        (1.5, 1.5, "1.5"),
        (float("nan"), "nan", "nan"),
        (float("-inf"), "-inf", "-inf"),
        (b"\xff", r"\xff", r"\xff"),
        (datetime.date(2024, 5, 1), "2024-05-01", "2024-05-01"),
        (decimal.Decimal("1.20"), "1.20", "1.20"),
        (("a", b"b"), ["a", "b"], '["a", "b"]'),
    ],
)
def test_values_are_shown(value: object, json_value: object, text: str) -> None:
    assert plain(value) == json_value
    assert word(value) == text


def test_moments() -> None:
    assert moment("17") == 17
    assert moment("2024-05-01") == datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    assert moment("2024-05-01T00:00+02:00").utcoffset() == datetime.timedelta(hours=2)  # type: ignore[union-attr]
    assert moment("before") == "before"
    assert moment("9" * 5_000) == "9" * 5_000, "no txn, and no reason to fail"
