"""The order of keys against Python's own."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.spark.row_order import row_order

letters = st.sampled_from([b"\0", b"a", b"\xff"])
endings = st.lists(letters, max_size=12).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(
    prefix=st.sampled_from([b"", b"row-0000"]),
    keys=st.lists(endings, max_size=30),
    skipped=st.integers(0, 3),
)
def test_ascending_and_stable(prefix: bytes, keys: list[bytes], skipped: int) -> None:
    rows = [prefix + key for key in keys]
    array = pa.array([b"elsewhere"] * skipped + rows, pa.binary())[skipped:]
    assert row_order(array).tolist() == sorted(range(len(rows)), key=rows.__getitem__)
