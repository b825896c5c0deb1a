"""Watchers get every transaction once, whatever happens between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import LimitExceeded, SnapshotTooOld
from stele.metastore import watch_hub
from stele.metastore.commands import Execute
from stele.metastore.paths import bounds, selection
from stele.metastore.watch_hub import (
    HISTORY_ENTRIES_PER_TAKE,
    QUEUED_CHANGES_MAX,
    Watcher,
    WatchHub,
)
from stele.protocol.metastore_values import Change, Changes, Delete, KeyRange, Put
from tests.unit.metastore.state.replica import Replica


class Node:
    """A replica that publishes what it applies, as a node does."""

    def __init__(self) -> None:
        self.replica = Replica()
        self.hub = WatchHub()
        self.wakes = 0

    def execute(self, *operations: Put | Delete) -> int:
        effects = self.replica.apply(Execute(self.replica.identity(1), operations))
        if effects.changes:
            self.hub.publish(Changes(effects.index, effects.changes))
        return effects.index

    def put(self, key: str, value: bytes = b"") -> int:
        return self.execute(Put(key, value))

    def watch(self, path: str, since: int) -> Watcher:
        return self.hub.add(selection(path), since, self._woken)

    def _woken(self) -> None:
        self.wakes += 1

    def take(self, watcher: Watcher) -> list[tuple[int, list[str]]]:
        found = []
        more = True
        while more:
            delivery = watcher.take(self.replica.machine)
            found += [(each.index, [c.key for c in each.changes]) for each in delivery.transactions]
            more = delivery.more
        return found


def test_a_key_and_a_directory_are_watched() -> None:
    node = Node()
    key, directory, root = node.watch("/a/b", 0), node.watch("/a/", 0), node.watch("/", 0)
    first = node.put("/a/b")
    second = node.put("/a/bc")
    third = node.put("/ab")
    assert node.take(key) == [(first, ["/a/b"])]
    assert node.take(directory) == [(first, ["/a/b"]), (second, ["/a/bc"])]
    assert [index for index, _ in node.take(root)] == [first, second, third]


def test_a_transaction_comes_whole_and_filtered() -> None:
    node = Node()
    watcher = node.watch("/a/", 0)
    node.take(watcher)
    index = node.execute(Put("/a/1", b""), Put("/b/1", b""), Put("/a/2", b""))
    node.execute(Put("/b/2", b""))
    assert node.take(watcher) == [(index, ["/a/1", "/a/2"])]
    assert watcher.position == index + 1


def test_a_deletion_is_a_change_without_value() -> None:
    node = Node()
    node.put("/a", b"1")
    watcher = node.watch("/a", 1)
    node.execute(Delete("/a"))
    node.put("/a", b"2")
    deleted, again = watcher.take(node.replica.machine).transactions
    assert deleted.changes == (Change("/a", None),)
    assert again.changes == (Change("/a", b"2", 3, 1),)


def test_history_and_what_follows_join_without_gap_or_duplicate() -> None:
    node = Node()
    indices = [node.put("/a", b"%d" % x) for x in range(HISTORY_ENTRIES_PER_TAKE + 10)]
    watcher = node.watch("/a", indices[2])
    first = watcher.take(node.replica.machine)
    assert first.more
    indices.append(node.put("/a"))
    seen = [each.index for each in first.transactions] + [i for i, _ in node.take(watcher)]
    indices.append(node.put("/a"))
    seen += [index for index, _ in node.take(watcher)]
    assert seen == indices[3:]


def test_one_that_does_not_take_is_bounded_and_misses_nothing() -> None:
    node = Node()
    watcher = node.watch("/a", 0)
    node.take(watcher)
    indices = [node.put("/a") for _ in range(QUEUED_CHANGES_MAX + 5)]
    assert len(watcher._queue) <= QUEUED_CHANGES_MAX
    assert [index for index, _ in node.take(watcher)] == indices


def test_one_that_overflowed_below_the_waterline_is_told_so() -> None:
    node = Node()
    watcher = node.watch("/a", 0)
    node.take(watcher)
    last = [node.put("/a") for _ in range(QUEUED_CHANGES_MAX + 5)][-1]
    node.replica.advance(last)
    with pytest.raises(SnapshotTooOld, match=f"history begins at {last}"):
        node.take(watcher)


def test_a_watch_from_the_future_waits_for_it() -> None:
    node = Node()
    index = node.put("/a")
    watcher = node.watch("/a", index + 2)
    assert node.take(watcher) == []
    for _ in range(3):
        index = node.put("/a")
    assert node.take(watcher) == [(index, ["/a"])]


def test_the_owner_is_woken_once_for_all_that_waits() -> None:
    node = Node()
    watcher = node.watch("/a", 0)
    node.take(watcher)
    node.put("/a")
    node.put("/a")
    assert node.wakes == 1
    node.take(watcher)
    node.put("/a")
    assert node.wakes == 2


def test_the_owner_is_woken_for_a_transaction_larger_than_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch_hub, "QUEUED_CHANGES_MAX", 1)
    node = Node()
    watcher = node.watch("/a/", 0)
    node.take(watcher)
    index = node.execute(Put("/a/1", b""), Put("/a/2", b""))
    assert node.wakes == 1
    assert node.take(watcher) == [(index, ["/a/1", "/a/2"])]


def test_a_watch_that_ended_gets_nothing() -> None:
    node = Node()
    for path in ("/a", "/a/"):
        watcher = node.watch(path, 0)
        node.take(watcher)
        node.hub.remove(watcher)
        node.hub.remove(watcher)
    other = node.hub.add(KeyRange("/a", "/b"), 0, node._woken)
    node.take(other)
    node.hub.remove(other)
    assert len(node.hub) == 0
    node.put("/a")
    assert node.wakes == 0


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_hub, "WATCHERS_MAX", 2)
    node = Node()
    first = node.watch("/a", 0)
    node.watch("/a", 0)
    with pytest.raises(LimitExceeded):
        node.watch("/a", 0)
    node.hub.remove(first)
    assert node.watch("/a", 0) is not None


def test_unrelated_watchers_are_not_looked_at() -> None:
    hub = WatchHub()
    for number in range(1000):
        hub.add(selection(f"/other/{number}"), 0, lambda: None)
        hub.add(selection(f"/dir{number}/"), 0, lambda: None)
    mine = hub.add(selection("/mine/"), 0, lambda: None)
    assert list(hub._watchers_of("/mine/a")) == [mine]


SELECTIONS = [KeyRange("/a"), KeyRange("/d/", "/d0"), KeyRange("/", "0"), KeyRange("/a", "/d/b")]
KEYS = ["/a", "/d/a", "/d/b", "/d/b/c", "/e"]


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(
        st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)
        | st.integers(0, len(SELECTIONS) - 1),
        max_size=40,
    ),
    since=st.integers(0, 5),
    queued_max=st.integers(1, 4),
    per_take=st.integers(1, 4),
)
def test_any_course_of_changes_and_takes(
    steps: list[list[str] | int], since: int, queued_max: int, per_take: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch_hub, "QUEUED_CHANGES_MAX", queued_max)
        patch.setattr(watch_hub, "HISTORY_ENTRIES_PER_TAKE", per_take)
        node = Node()
        watchers = [node.hub.add(selected, since, lambda: None) for selected in SELECTIONS]
        expected: list[list[tuple[int, list[str]]]] = [[] for _ in SELECTIONS]
        seen: list[list[tuple[int, list[str]]]] = [[] for _ in SELECTIONS]
        for step in [*steps, *range(len(SELECTIONS))]:
            if isinstance(step, int):
                seen[step] += node.take(watchers[step])
                continue
            index = node.execute(*(Put(key, b"") for key in step))
            for number, selected in enumerate(SELECTIONS):
                start, end = bounds(selected)
                hit = [key for key in step if start <= key < end]
                if hit and index > since:
                    expected[number].append((index, hit))
        assert seen == expected


def test_what_its_owner_has_read_by_itself_is_passed_over() -> None:
    node = Node()
    watcher = node.watch("/a", 0)
    for _ in range(QUEUED_CHANGES_MAX + HISTORY_ENTRIES_PER_TAKE):
        node.put("/a")
    watcher.pass_over(node.replica.machine.applied_index)
    wakes = node.wakes
    index = node.put("/a")
    assert node.wakes == wakes + 1
    assert node.take(watcher) == [(index, ["/a"])]
