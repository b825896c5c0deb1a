"""One suite over both versions of the ordered map, and each against a plain dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.posix import PosixFileSystem
from stele.metastore.kv import KeyValues
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.kv_rocks import RocksKeyValues

END = b"\xff"


@pytest.fixture(params=["memory", "rocks"])
def values(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValues]:
    made: KeyValues
    if request.param == "memory":
        made = MemoryKeyValues()
    else:
        made = RocksKeyValues(str(tmp_path), PosixFileSystem(str(tmp_path)))
    yield made
    made.close()


def test_a_batch_sets_and_deletes(values: KeyValues) -> None:
    values.write({b"a": b"1", b"b": b"2", b"c": b""})
    values.write({b"a": b"3", b"b": None, b"nothing": None})
    assert values.get(b"a") == b"3"
    assert values.get(b"b") is None
    assert values.get(b"c") == b""
    assert list(values.scan(b"", END)) == [(b"a", b"3"), (b"c", b"")]


def test_a_scan_is_half_open_and_goes_both_ways(values: KeyValues) -> None:
    values.write({bytes([x]): b"v" for x in range(1, 9)})
    keys = [key for key, _ in values.scan(b"\x02", b"\x05")]
    assert keys == [b"\x02", b"\x03", b"\x04"]
    assert [key for key, _ in values.scan(b"\x02", b"\x05", reverse=True)] == keys[::-1]
    assert list(values.scan(b"\x20", b"\x30")) == []


def test_an_iterator_sees_the_map_as_it_was(values: KeyValues) -> None:
    values.write({b"a": b"1", b"b": b"1"})
    started = values.scan(b"", END)
    values.write({b"a": b"2", b"b": None, b"c": b"2"})
    assert list(started) == [(b"a", b"1"), (b"b", b"1")]


def test_a_view_stays(values: KeyValues) -> None:
    values.write({b"a": b"1"})
    view = values.view()
    values.write({b"a": b"2", b"b": b"2"})
    assert list(view.scan(b"", END)) == [(b"a", b"1")]
    assert list(view.scan(b"b", END)) == []
    assert list(view.scan(b"", END)) == [(b"a", b"1")], "a second time"
    view.close()
    assert values.get(b"b") == b"2"


def test_replace_leaves_nothing_of_before(values: KeyValues) -> None:
    values.write({b"old": b"1", b"both": b"1"})
    staged = values.stage((b"%06d" % x, b"new") for x in range(2500))
    assert staged.get(b"000007") == b"new"
    assert len(list(staged.scan(b"", END))) == 2500
    assert values.get(b"old") == b"1", "the map goes on with what it has"
    values.write({b"late": b"1"})
    values.sync()
    staged.adopt()
    staged.retire()
    assert values.get(b"old") is None
    assert values.get(b"late") is None
    assert len(list(values.scan(b"", END))) == 2500
    values.sync()
    values.write({b"after": b"1"})
    assert values.get(b"after") == b"1"


changes = st.dictionaries(
    st.binary(min_size=1, max_size=3).filter(lambda key: key < END),
    st.none() | st.binary(max_size=3),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(changes, max_size=8), bounds=st.tuples(st.binary(), st.binary()))
def test_any_course_of_batches_gives_what_a_dictionary_gives(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[dict[bytes, bytes | None]],
    bounds: tuple[bytes, bytes],
) -> None:
    folder = str(tmp_path_factory.mktemp("rocks"))
    rocks = RocksKeyValues(folder, PosixFileSystem(folder))
    memory = MemoryKeyValues()
    expected: dict[bytes, bytes] = {}
    start, end = sorted(bounds)
    for batch in batches:
        rocks.write(batch)
        memory.write(batch)
        for key, value in batch.items():
            expected.pop(key, None)
            if value is not None:
                expected[key] = value
        within = sorted(item for item in expected.items() if start <= item[0] < end)
        assert list(memory.scan(start, end)) == within
        assert list(rocks.scan(start, end)) == within
        assert list(rocks.scan(start, end, reverse=True)) == within[::-1]
    rocks.close()
