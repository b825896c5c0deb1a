"""The order of stored keys is the order of paths, and every table has its own part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stele.metastore.state import keys
from tests.unit.metastore.test_paths import paths


@given(paths, paths)
def test_stored_keys_sort_as_paths(first: str, second: str) -> None:
    assert (keys.value_key(first) < keys.value_key(second)) is (first < second)
    assert keys.path_of(keys.value_key(first)) == first
    assert keys.path_of(keys.lock_key(first)) == first


@given(paths, st.text(st.characters(max_codepoint=127)), st.text(st.characters(max_codepoint=127)))
def test_bounds_hold_exactly_the_keys_between(path: str, start: str, end: str) -> None:
    low, high = keys.user_bounds(start, end)
    for stored in (keys.value_key(path), keys.lock_key(path)):
        assert (low <= stored < high) is (start <= path < end)


@given(paths)
def test_the_bound_behind_a_key_is_behind_all_that_is_stored_for_it(path: str) -> None:
    low, high = keys.user_bounds(path, path + "\0")
    assert low <= keys.value_key(path) < keys.lock_key(path) < high
    assert keys.value_key(path + "/x") >= high


@given(paths, st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_old_versions_sort_by_index(path: str, first: int, second: int) -> None:
    low, high = keys.history_bounds(path, first)
    stored = keys.history_key(path, second)
    assert low <= stored
    assert (stored < high) is (second <= first)


def test_tables_do_not_overlap() -> None:
    samples = [
        keys.HEADER,
        keys.value_key("/a"),
        keys.history_key("/a", 1),
        keys.changelog_key(1),
        keys.session_key(1),
        keys.ephemeral_key(1, "/a"),
        keys.session_lock_key(1, "/a"),
        keys.retry_key(1, 1),
        keys.rules_key("/"),
        keys.alarm_key(1),
    ]
    assert [sample[0] for sample in samples] == list(range(10))
    for sample in samples:
        low, high = keys.table_bounds(sample[:1])
        assert low <= sample < high
        assert high <= keys.END_OF_STATE


def test_what_belongs_to_one_session_is_together() -> None:
    low, high = keys.ephemeral_bounds(7)
    assert low <= keys.ephemeral_key(7, "/a") < high <= keys.ephemeral_key(8, "/")
    assert keys.path_of_session_key(keys.ephemeral_key(7, "/a/b")) == "/a/b"
    low, high = keys.session_lock_bounds(7)
    assert low <= keys.session_lock_key(7, "/z") < high <= keys.session_lock_key(8, "/")
    assert keys.number_in(keys.changelog_key(12345), 1) == 12345
