"""Names of types, near types of arrays, and what may be widened to what."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells
from stele.model.types import ValueType, is_bytes, is_text, value_type, widens
from tests.unit.model.strategies import chunked
from tests.unit.model.typed_values import DECIMALS, VALUES, bits

NAMES = sorted(VALUES)


@pytest.mark.parametrize("name", NAMES)
def test_names_and_arrow_types_stand_for_types(name: str) -> None:
    kind = value_type(name)
    assert kind.name == str(kind) == name
    assert value_type(kind) is kind
    assert value_type(kind.arrow) == kind
    assert value_type(f" {name} ") == kind


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("str", "string"),
        ("utf8", "string"),
        ("bytes", "binary"),
        ("boolean", "bool"),
        ("double", "float64"),
        ("float", "float32"),
        ("date", "date32"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        ("decimal(10,2)", "decimal128(10, 2)"),
        ("decimal128( 10 , 2 )", "decimal128(10, 2)"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert value_type(alias).name == name


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "int", "int63", "INT64", "int64[]", "decimal128(39, 0)", "decimal128(0, 0)"),
        *("decimal128(5, 6)", "decimal128(5)", "timestamp[ns]", "x" * 1000, 64, None),
        *(pa.list_(pa.int8()), pa.large_utf8(), pa.timestamp("ns"), pa.decimal256(5, 2)),
    ],
)
def test_unknown_types_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        value_type(wrong)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("int64", pa.array([1, None], pa.int8())),
        ("int8", pa.array([1, None], pa.uint64())),
        ("string", pa.array(["a", None], pa.large_utf8())),
        ("string", pa.array(["a", None]).dictionary_encode()),
        ("string", pa.array(["a", None], pa.string_view())),
        ("binary", pa.array([b"a", None], pa.large_binary())),
        ("binary", pa.array([b"a", None], pa.binary(1))),
        ("timestamp[us]", pa.array([1, None], pa.timestamp("ms"))),
        ("timestamp[us, tz=UTC]", pa.array([1000, None], pa.timestamp("ns", "UTC"))),
        ("date32", pa.array([86_400_000, None], pa.date64())),
        ("decimal128(10, 2)", pa.array([1, None], pa.decimal128(5, 0))),
        ("float32", pa.array([0.1, None], pa.float64())),
        ("int64", pa.nulls(2)),
    ],
)
def test_near_types_are_cast(name: str, array: pa.Array) -> None:
    kind = value_type(name)
    encoded = kind.encode_array(array)
    assert encoded.null_count in (1, 2)
    if encoded[0].is_valid:
        assert kind.encode(kind.decode(encoded[0].as_py())) == encoded[0].as_py()


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("int8", pa.array([128], pa.int64())),
        ("int64", pa.array(["1"])),
        ("int64", pa.array([1.0])),
        ("int64", pa.array([True])),
        ("string", pa.array([1])),
        ("string", pa.array([b"a"])),
        ("binary", pa.array(["a"])),
        ("float64", pa.array([1])),
        ("float32", pa.array([1e300])),
        ("timestamp[us]", pa.array([1], pa.timestamp("us", "UTC"))),
        ("timestamp[us]", pa.array([1], pa.timestamp("ns"))),
        ("date32", pa.array([1], pa.timestamp("s"))),
        ("decimal128(5, 2)", pa.array([123456], pa.decimal128(10, 0))),
        ("bool", pa.array([1])),
        ("int64", pa.array([[1]])),
    ],
)
def test_arrays_of_another_type_are_refused(name: str, array: pa.Array) -> None:
    with pytest.raises(InvalidArgument):
        value_type(name).encode_array(array)


@given(st.data(), st.lists(st.none() | st.integers(-5, 5)))
def test_chunks_are_joined(data: st.DataObject, values: list[int | None]) -> None:
    kind = value_type("int64")
    encoded = kind.encode_array(data.draw(chunked(values, pa.int64())))
    decoded, undecodable = kind.decode_array(pa.chunked_array([encoded, encoded]))
    assert decoded.to_pylist() == values * 2
    assert not undecodable.any()


@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.data())
def test_widening_keeps_every_value_and_never_mistakes_its_bytes(
    old_name: str, new_name: str, data: st.DataObject
) -> None:
    old, new = value_type(old_name), value_type(new_name)
    if not widens(old, new):
        return
    value = data.draw(VALUES[old_name])
    encoded = old.encode(value)
    try:
        seen = new.decode(encoded)
    except InvalidCells:
        # Told apart by its length: then the value itself must be one of the new type.
        assert bits(new.decode(new.encode(value))) == bits(value)
    else:
        assert bits(seen) == bits(value) or (old_name, new_name) == ("string", "binary")


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("int8", "int64", True),
        ("int32", "int32", True),
        ("uint8", "int16", True),
        ("uint32", "uint64", True),
        ("float32", "float64", True),
        ("string", "binary", True),
        ("decimal128(5, 2)", "decimal128(10, 2)", True),
        ("int64", "int32", False),
        ("int8", "uint16", False),
        ("uint8", "int8", False),
        ("int32", "float64", False),
        ("binary", "string", False),
        ("date32", "timestamp[us]", False),
        ("decimal128(5, 2)", "decimal128(10, 3)", False),
        ("decimal128(10, 2)", "decimal128(5, 2)", False),
        ("decimal128(5, 2)", "int64", False),
        ("bool", "int8", False),
        ("timestamp[us]", "timestamp[us, tz=UTC]", False),
    ],
)
def test_widens(old: str, new: str, allowed: bool) -> None:
    assert widens(value_type(old), value_type(new)) is allowed


@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_widening_is_transitive(a: str, b: str, c: str) -> None:
    one, two, three = map(value_type, (a, b, c))
    if widens(one, two) and widens(two, three):
        assert widens(one, three)


def test_kinds_of_arrow_types() -> None:
    assert is_text(pa.large_utf8())
    assert not is_text(pa.binary())
    assert is_bytes(pa.binary(3))
    assert not is_bytes(pa.utf8())


def test_types_are_values() -> None:
    assert len({value_type(name) for name in NAMES}) == len(NAMES)
    precision, scale = DECIMALS[1]
    assert value_type(f"decimal({precision},{scale})") == value_type(
        pa.decimal128(precision, scale)
    )
    assert isinstance(hash(value_type("int8")), int)
    assert value_type("int8") != ValueType("int9", value_type("int8").codec)


def test_checked_arrays_have_exactly_the_type() -> None:
    checked = value_type("int64").check_array(pa.chunked_array([[1], [2]], pa.int8()))
    assert (checked.type, checked.to_pylist()) == (pa.int64(), [1, 2])
    for kind, wrong in (("int8", pa.array([300])), ("date32", pa.array([10**7], pa.date32()))):
        with pytest.raises(InvalidArgument):
            value_type(kind).check_array(wrong)
