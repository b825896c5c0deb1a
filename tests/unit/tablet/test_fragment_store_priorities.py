"""Which files a store keeps open and its cache in memory: those that tables prefer."""

from __future__ import annotations

import pytest

from stele.storage.cache_priority import Priority
from stele.tablet import fragment_store
from tests.unit.tablet.engine_support import cell, fragment, new_store


def test_a_preference_holds_for_open_files_and_for_those_opened_later() -> None:
    store = new_store()
    first, second = (fragment(store, [cell(b"a")]) for _ in range(2))
    blocks = store.open(first).blocks
    store.prefer("t", {first.name: Priority.ONE_GROUP, second.name: Priority.SOME_COLUMNS})
    assert store.open(first).blocks is blocks
    assert store.open(first).blocks.priority is Priority.ONE_GROUP
    assert store.open(second).blocks.priority is Priority.SOME_COLUMNS
    store.prefer("t", {first.name: Priority.SEVERAL_GROUPS})
    assert store.open(first).blocks.priority is Priority.SEVERAL_GROUPS
    assert store.open(second).blocks.priority is Priority.ON_DEMAND


def test_a_file_of_two_tables_has_the_higher_of_their_priorities() -> None:
    store = new_store()
    info = fragment(store, [cell(b"a")])
    store.prefer("t", {info.name: Priority.SOME_COLUMNS})
    store.prefer("clone", {info.name: Priority.ONE_GROUP})
    assert store.open(info).blocks.priority is Priority.ONE_GROUP
    store.prefer("clone", {})
    assert store.open(info).blocks.priority is Priority.SOME_COLUMNS
    store.prefer("t", {})
    assert store.open(info).blocks.priority is Priority.ON_DEMAND


def test_preferred_files_stay_open_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragment_store, "OPEN_FRAGMENTS_MAX", 2)
    store = new_store()
    infos = [fragment(store, [cell(b"a")]) for _ in range(4)]
    store.prefer("t", {infos[0].name: Priority.ONE_GROUP})
    kept, dropped = store.open(infos[0]), store.open(infos[1])
    store.open(infos[2])
    store.open(infos[3])
    assert store.open(infos[0]) is kept
    assert store.open(infos[1]) is not dropped


def test_when_all_are_preferred_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragment_store, "OPEN_FRAGMENTS_MAX", 2)
    store = new_store()
    infos = [fragment(store, [cell(b"a")]) for _ in range(3)]
    store.prefer("t", {info.name: Priority.ONE_GROUP for info in infos})
    first = store.open(infos[0])
    second = store.open(infos[1])
    store.open(infos[2])
    assert store.open(infos[1]) is second
    assert store.open(infos[0]) is not first
