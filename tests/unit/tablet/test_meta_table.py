"""META as tables (T57, T59–T61, T104, M17–M22)."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from stele.cluster.store import Store
from stele.env.failpoints import counting
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import SteleError, StorageFailed, TabletNotServing
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.log_writer import AFTER_SYNC
from stele.storage.references import Reference
from stele.tablet.changes import JoinTablets, SplitTablet
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from stele.tablet.config_store import RootFile
from stele.tablet.flush import Flush
from stele.tablet.meta_rows import meta_key
from stele.tablet.meta_table import META0, META1, MetaConfigs
from tests.unit.tablet.engine_support import (
    BY_HAND,
    TABLE,
    SavedConfigs,
    cell,
    fragment,
    memory_world,
    new_store,
)


def new_meta(files: MemoryFileSystem | None = None) -> Store:
    return Store.open(memory_world(files), BY_HAND, "test")


CONFIG = TabletConfig(f"{TABLE}.1", TABLE, EVERYTHING, log="log/s1", clock=3)


def test_a_config_is_found_as_it_was_saved_and_survives() -> None:
    store = new_meta()
    store.meta1.save_now(ConfigEdit(written=(CONFIG,)))
    assert store.meta1.configs(TABLE) == (CONFIG,)
    files = store.world.files
    assert isinstance(files, MemoryFileSystem)
    assert new_meta(files.crash_image()).meta1.configs(TABLE) == (CONFIG,)


def test_t61_tablets_of_one_table_are_found_in_order_and_without_those_of_others() -> None:
    store = new_meta()
    pieces = [
        TabletConfig(f"{TABLE}.{number}", TABLE, RowRange(start, end))
        for number, (start, end) in enumerate([(b"", b"b"), (b"b", b"b\xff"), (b"b\xff", None)])
    ]
    neighbour = TabletConfig("other", f"{TABLE}0", EVERYTHING)
    store.meta1.save_now(ConfigEdit(written=(pieces[2], neighbour, pieces[0], pieces[1])))
    assert store.meta1.configs(TABLE) == tuple(pieces)
    assert store.meta1.configs("nobody") == ()
    assert len(store.meta1.all_configs()) == 4


def test_a_config_is_replaced_whole() -> None:
    store = new_meta()
    info = fragment(new_store(), [cell(b"a")])
    full = replace(CONFIG, references=(Reference(info),), location="here")
    store.meta1.save_now(ConfigEdit(written=(full,)))
    bare = replace(CONFIG, log=None, revision=1)
    store.meta1.save_now(ConfigEdit(written=(bare,), replaced=(full,)))
    assert store.meta1.configs(TABLE) == (bare,)


def test_m18_m21_a_split_and_a_join_in_meta() -> None:
    store = new_meta()
    store.meta1.save_now(ConfigEdit(written=(CONFIG,)))
    split = SplitTablet(CONFIG.id, b"m", "l", "u").apply(by_id([CONFIG]))
    assert isinstance(split, ConfigEdit)
    store.meta1.save_now(split)
    assert store.meta1.configs(TABLE) == split.written
    join = JoinTablets("l", "u", "j").apply(by_id(split.written))
    assert isinstance(join, ConfigEdit)
    store.meta1.save_now(join)
    assert store.meta1.configs(TABLE) == join.written


def test_m25_both_rows_of_a_split_are_one_commit_also_across_tablets_of_meta() -> None:
    """A border of META may lie at the key of the tablet that is split; one log holds both sides."""
    store = new_meta()
    store.meta1.save_now(ConfigEdit(written=(CONFIG,)))
    state = store.meta.table(META1)
    (whole,) = state.layout.tablets
    border = meta_key(TABLE, CONFIG.rows.end)
    store.meta.change_and_wait(state, SplitTablet(whole.id, border, "meta.l", "meta.u"))
    assert len(state.layout.tablets) == 2
    split = SplitTablet(CONFIG.id, b"m", "l", "u").apply(by_id([CONFIG]))
    assert isinstance(split, ConfigEdit)
    with counting() as passes:
        store.meta1.save_now(split)
    assert passes[AFTER_SYNC] == 1
    assert store.meta1.configs(TABLE, store.meta.durable_txn - 1) == (CONFIG,)
    assert store.meta1.configs(TABLE) == split.written


def test_meta_is_read_as_it_was_at_a_txn_also_from_fragments() -> None:
    store = new_meta()
    store.meta1.save_now(ConfigEdit(written=(CONFIG,)))
    before = store.meta.durable_txn
    later = replace(CONFIG, revision=7)
    store.meta1.save_now(ConfigEdit(written=(later,), replaced=(CONFIG,)))
    for _ in range(2):
        assert store.meta1.configs(TABLE, before) == (CONFIG,)
        assert store.meta1.configs(TABLE)[0].revision == 7
        ended: list[SteleError | None] = []
        Flush.start(store.meta, store.meta.table(META1), ended.append)
        assert ended in ([None], [])


def test_t59_t60_metas_own_configs_are_in_the_root_file_and_in_meta0() -> None:
    store = new_meta()
    store.meta1.save_now(ConfigEdit(written=(CONFIG,)))
    for table in (META0, META1):
        ended: list[SteleError | None] = []
        assert Flush.start(store.meta, store.meta.table(table), ended.append)
        assert ended == [None]
    assert RootFile(store.world.files).load().files(), "META0's fragments are in the root file"
    (meta1,) = store.meta0.configs(META1)
    assert meta1.files()
    files = store.world.files
    assert isinstance(files, MemoryFileSystem)
    assert new_meta(files.crash_image()).meta1.configs(TABLE) == (CONFIG,)


def test_an_edit_that_cannot_be_saved_is_answered() -> None:
    store = new_meta()
    store.meta._on_dead(StorageFailed("the disk is gone"))
    answers: list[SteleError | None] = []
    store.meta1.save(ConfigEdit(written=(CONFIG,)), answers.append)
    assert [str(answer) for answer in answers] == ["the disk is gone"]
    assert isinstance(answers[0], StorageFailed)


def refused(store: Store, edit: ConfigEdit) -> str:
    before = store.meta1.all_configs()
    with pytest.raises(TabletNotServing, match="written by another owner") as error:
        store.meta1.save_now(edit)
    assert store.meta1.all_configs() == before, "nothing was saved"
    return str(error.value)


def test_a_save_names_the_writing_that_it_overwrites() -> None:
    """Conditional on epoch and revision: whoever knows another one is refused."""
    store = new_meta()
    first = replace(CONFIG, epoch=4, revision=2)
    refused(store, ConfigEdit(written=(replace(first, revision=3),), replaced=(first,)))
    store.meta1.save_now(ConfigEdit(written=(first,)))
    told = refused(store, ConfigEdit(written=(first,)))
    assert "4 and 2, not none" in told
    for known in (
        replace(first, revision=1),
        replace(first, epoch=3, revision=2),
        replace(first, epoch=3, revision=99),
    ):
        new = replace(known, revision=known.revision + 1)
        refused(store, ConfigEdit(written=(new,), replaced=(known,)))
        refused(store, ConfigEdit(removed=(known,)))
    store.meta1.save_now(ConfigEdit(written=(replace(first, epoch=5),), replaced=(first,)))
    refused(store, ConfigEdit(written=(replace(first, revision=3),), replaced=(first,)))


def test_of_one_edit_all_rows_are_as_it_knows_them_or_nothing_is_saved() -> None:
    store = new_meta()
    lower = TabletConfig("l", TABLE, RowRange(b"", b"m"))
    upper = TabletConfig("u", TABLE, RowRange(b"m"))
    store.meta1.save_now(ConfigEdit(written=(lower, upper)))
    stale = replace(upper, epoch=1)
    join = JoinTablets("l", "u", "j").apply(by_id([lower, stale]))
    assert isinstance(join, ConfigEdit)
    refused(store, join)


def test_saves_of_two_threads_are_each_made_from_the_one_before() -> None:
    """Read, compared and written in one step: of two edits of one writing only one is taken."""
    store = new_meta()
    store.meta1.save_now(ConfigEdit(written=(CONFIG,)))
    wins: list[int] = []

    def change() -> None:
        for _ in range(20):
            (known,) = store.meta1.configs(TABLE)
            new = replace(known, revision=known.revision + 1)
            with suppress(TabletNotServing):
                store.meta1.save_now(ConfigEdit(written=(new,), replaced=(known,)))
                wins.append(new.revision)

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == list(range(1, len(wins) + 1)), "no writing was made twice"
    assert store.meta1.configs(TABLE)[0].revision == len(wins)


def test_an_empty_edit_writes_nothing() -> None:
    store = new_meta()
    before = store.meta.committed_txn
    store.meta1.save_now(ConfigEdit())
    assert store.meta.committed_txn == before


def test_t60_configs_of_meta0_go_to_the_root_and_all_others_to_meta0() -> None:
    root, parent = SavedConfigs(), SavedConfigs()
    configs = MetaConfigs(root)
    configs.attach(parent)  # type: ignore[arg-type]
    answers: list[SteleError | None] = []
    configs.save(ConfigEdit(written=(TabletConfig("0", META0, EVERYTHING),)), answers.append)
    configs.save(ConfigEdit(written=(TabletConfig("1", META1, EVERYTHING),)), answers.append)
    assert answers == [None, None]
    assert list(root.rows) == [b"META0!"]
    assert list(parent.rows) == [b"META1!"]
