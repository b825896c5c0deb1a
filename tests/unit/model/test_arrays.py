"""The bridges between Arrow and numpy, over slices, nulls and chunks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import LimitExceeded
from stele.model.arrays import (
    binary_array,
    binary_from_matrix,
    flatten,
    gather,
    integer_array,
    matrix_from_binary,
    numbers,
    offsets,
    valid_mask,
)
from tests.unit.model.strategies import chunked, nasty_bytes, sliced

int64s = st.integers(-(2**63), 2**63 - 1)
optional_bytes = st.one_of(st.none(), nasty_bytes)


@given(st.data(), st.lists(int64s))
def test_numbers(data: st.DataObject, values: list[int]) -> None:
    array = data.draw(sliced(values, pa.int64()))
    assert numbers(array, np.int64).tolist() == values


@given(st.data(), st.lists(optional_bytes))
def test_offsets_and_validity(data: st.DataObject, values: list[bytes | None]) -> None:
    array = data.draw(sliced(values, pa.binary()))
    assert np.diff(offsets(array)).tolist() == [len(value or b"") for value in values]
    assert valid_mask(array).tolist() == [value is not None for value in values]


@given(st.lists(nasty_bytes, max_size=200))
def test_binary_array(values: list[bytes]) -> None:
    array = binary_array(values)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.binary()))


def test_binary_array_is_the_same_for_few_and_many() -> None:
    for count in (0, 1, 127, 128, 129, 300):
        values = [b"\x00" * (number % 3) for number in range(count)]
        assert binary_array(tuple(values)).equals(pa.array(values, pa.binary()))


@given(st.lists(int64s))
def test_integer_array(values: list[int]) -> None:
    assert integer_array(values, pa.int64(), "q").equals(pa.array(values, pa.int64()))


@given(st.data(), st.lists(optional_bytes), st.integers(1, 4))
def test_matrix_round_trip(data: st.DataObject, values: list[bytes | None], width: int) -> None:
    array = data.draw(sliced(values, pa.binary()))
    matrix, fits = matrix_from_binary(array, width)
    assert fits.tolist() == [value is not None and len(value) == width for value in values]
    expected = [value if fit else None for value, fit in zip(values, fits, strict=True)]
    assert binary_from_matrix(matrix, fits).to_pylist() == expected
    assert not matrix[~fits].any()


@given(st.data(), st.lists(nasty_bytes))
def test_gather(data: st.DataObject, values: list[bytes]) -> None:
    array = data.draw(sliced(values, pa.binary()))
    starts = [data.draw(st.integers(0, len(value))) for value in values]
    lengths = [
        data.draw(st.integers(0, len(value) - start))
        for value, start in zip(values, starts, strict=True)
    ]
    parts = gather(array, np.array(starts, np.int64), np.array(lengths, np.int64))
    parts.validate(full=True)
    assert parts.to_pylist() == [
        value[start : start + length]
        for value, start, length in zip(values, starts, lengths, strict=True)
    ]


@given(st.data(), st.lists(optional_bytes))
def test_flatten_joins_chunks(data: st.DataObject, values: list[bytes | None]) -> None:
    flat = flatten(data.draw(chunked(values, pa.binary())))
    assert isinstance(flat, pa.Array)
    assert flat.to_pylist() == values


def test_flatten_resolves_dictionaries_and_extensions() -> None:
    words = pa.array(["a", "b", "a", None]).dictionary_encode()
    assert flatten(words).equals(pa.array(["a", "b", "a", None]))
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16)))
    assert flatten(ids).equals(pa.array([b"x" * 16], pa.binary(16)))
    chunks = pa.chunked_array([words, words])
    assert flatten(chunks).to_pylist() == ["a", "b", "a", None] * 2


def test_a_column_too_large_for_one_array_is_refused() -> None:
    # The same buffer many times: 2.5 GiB by count, 64 MiB in memory.
    part = pa.array([b"x" * (64 << 20)])
    with pytest.raises(LimitExceeded, match="does not fit"):
        flatten(pa.chunked_array([part] * 40))


def test_an_array_without_buffers_has_one_offset() -> None:
    bare = pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    assert offsets(bare).tolist() == [0]
    assert numbers(pa.array([], pa.int64()), np.int64).tolist() == []


def test_a_matrix_too_large_for_one_array_is_refused() -> None:
    # Rows that are all the same memory: 2 GiB by count, one row in memory.
    matrix = np.broadcast_to(np.zeros(1 << 20, np.uint8), (1 << 11, 1 << 20))
    with pytest.raises(LimitExceeded, match="2048 values of 1048576 bytes"):
        binary_from_matrix(matrix)
