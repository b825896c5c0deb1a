"""The fragment files of an engine (T3, T106–T110)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, NotFound
from stele.model.cells import batch_to_cells
from stele.model.ranges import RowRange
from stele.storage.fragment_options import FragmentOptions
from stele.tablet import fragment_store
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY
from tests.unit.tablet.engine_support import TABLE, block, cell, fragment, new_store

OPTIONS = FragmentOptions(block_cells=256)


def test_a_file_is_durable_when_it_is_written_and_read_back_as_it_was() -> None:
    files = MemoryFileSystem()
    info = fragment(new_store(files), [cell(b"a"), cell(b"b", "g")])
    crashed = new_store(files.crash_image(), "s2")
    opened = crashed.open(info)
    found = [each for part in opened.reader.blocks() for each in batch_to_cells(part.batch)]
    assert found == [cell(b"a"), cell(b"b", "g")]


def test_t3_a_file_is_loaded_by_its_description_once_and_its_blocks_are_cached_above() -> None:
    store = new_store()
    info = fragment(store, [cell(b"a")])
    opened = store.open(info)
    assert store.open(info) is opened
    assert opened.blocks.get(0) is opened.blocks.get(0)
    assert opened.reader.read_block(0) is not opened.reader.read_block(0), "the loader keeps none"


def test_row_groups_are_chosen_by_range() -> None:
    store = new_store()
    info = fragment(store, [cell(b"%04d" % number) for number in range(600)])
    opened = store.open(info)
    assert opened.groups(RowRange()) == range(3)
    assert opened.groups(RowRange(b"0300", b"0310")) == range(1, 2)


def test_a_reader_goes_on_with_a_file_that_was_forgotten_and_deleted() -> None:
    files = MemoryFileSystem()
    store = new_store(files)
    info = fragment(store, [cell(b"a")])
    held = store.open(info)
    store.forget([info.name, "never heard of"])
    files.delete(store.path(info.name))
    assert held.reader.read_block(0).count == 1
    with pytest.raises(NotFound):
        store.open(info)


def test_a_file_that_is_not_the_one_meant_is_refused() -> None:
    files = MemoryFileSystem()
    store = new_store(files)
    meant, other = fragment(store, [cell(b"a")]), fragment(store, [cell(b"b")])
    files.rename(store.path(other.name), store.path(meant.name))
    with pytest.raises(Corruption, match=meant.name):
        store.open(meant)


def test_open_files_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragment_store, "OPEN_FRAGMENTS_MAX", 2)
    store = new_store()
    infos = [fragment(store, [cell(b"%d" % number)]) for number in range(3)]
    first = store.open(infos[0])
    store.open(infos[1])
    store.open(infos[0])
    store.open(infos[2])
    assert store.open(infos[0]) is first, "the one used last stays"
    assert len(store._open) == 2


def test_t107_t110_the_low_water_stays_below_every_file_that_may_still_be_referred_to() -> None:
    store = new_store()
    assert store.low_water() == 0
    slow = store.begin()
    slow.write([block(cell(b"a"))], table=TABLE, options=OPTIONS)
    fragment(store, [cell(b"b")])
    assert store.low_water() == 0
    slow.settle()
    slow.settle()
    assert store.low_water() == 2
    later = store.begin()
    assert store.low_water() == 2, "nothing is written yet, and what will be is above"
    later.write([block(cell(b"c"))], table=TABLE, options=OPTIONS)
    assert store.low_water() == 2
    later.settle()
    assert store.low_water() == 3


def test_t110_files_stop_pending_when_their_work_fails() -> None:
    store = new_store()
    with suppress(ZeroDivisionError), store.writing() as files:
        files.write([block(cell(b"a"))], table=TABLE, options=OPTIONS)
        assert store.low_water() == 0
        raise ZeroDivisionError
    assert store.low_water() == 1


def test_no_cells_make_no_file() -> None:
    files = MemoryFileSystem()
    with new_store(files).writing() as pending:
        assert pending.write([], table=TABLE, options=OPTIONS) == ()
    assert files.list(FRAGMENT_DIRECTORY) == []


def test_closing_lets_go_of_all_files() -> None:
    store = new_store()
    info = fragment(store, [cell(b"a")])
    held = store.open(info)
    store.close()
    assert store.open(info) is not held
