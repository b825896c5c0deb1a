"""Keys in order against Python's own sorting."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.key_order import in_order

COMMON = st.sampled_from([b"", b"user", b"a long beginning that all of them share"])
ENDS = st.lists(st.binary(max_size=12) | st.text("01", max_size=10).map(str.encode), max_size=40)


@settings(max_examples=200)
@given(COMMON, ENDS)
def test_any_keys_come_in_order_and_once(common: bytes, ends: list[bytes]) -> None:
    keys = [common + end for end in ends]
    assert in_order(keys).to_pylist() == sorted(set(keys))


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [b""],
        [b"b", b"a", b"b", b"a"],
        [b"12345678b", b"12345678a", b"12345678b", b"x"],
        [b"a\x00", b"a", b"a\x00\x00", b"b", b"a"],
    ],
    ids=["none", "empty", "repeated", "numbers do not tell", "only zeros apart"],
)
def test_keys_that_are_alike(keys: list[bytes]) -> None:
    assert in_order(keys).to_pylist() == sorted(set(keys))
