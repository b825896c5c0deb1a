"""The batch in the making is seen as if it were written."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.state.staging import Staged

small_keys = st.binary(min_size=1, max_size=2)
changes = st.dictionaries(small_keys, st.none() | st.binary(max_size=2), max_size=8)


@settings(max_examples=200, deadline=None)
@given(stored=changes, staged=changes, bounds=st.tuples(small_keys, small_keys))
def test_reads_see_the_store_below_the_batch(
    stored: dict[bytes, bytes | None],
    staged: dict[bytes, bytes | None],
    bounds: tuple[bytes, bytes],
) -> None:
    values = MemoryKeyValues()
    values.write(stored)
    staging = Staged(values, values)
    for key, value in staged.items():
        if value is None:
            staging.delete(key)
        else:
            staging.put(key, value)
    expected = {key: value for key, value in {**stored, **staged}.items() if value is not None}
    start, end = sorted(bounds)
    within = sorted(item for item in expected.items() if start <= item[0] < end)
    assert list(staging.scan(start, end)) == within
    assert list(staging.scan(start, end, reverse=True)) == within[::-1]
    assert {key: staging.get(key) for key in expected} == expected
    staging.flush()
    assert dict(values.scan(b"", b"\xff" * 3)) == expected
    assert staging.changes == {}


def test_an_iterator_does_not_see_what_is_staged_later() -> None:
    values = MemoryKeyValues()
    staging = Staged(values, values)
    staging.put(b"a", b"1")
    started = staging.scan(b"", b"z")
    staging.put(b"b", b"1")
    staging.delete(b"a")
    assert list(started) == [(b"a", b"1")]
