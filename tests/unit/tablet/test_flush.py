"""Flushing (T35, T46, T47, T92–T97)."""

from __future__ import annotations

from stele.env.faults import Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import OutOfSpace, SteleError
from stele.kernels.block import Block
from stele.model.cells import Cell, batch_to_cells
from stele.model.column_set import ALL_COLUMNS
from stele.model.mutations import MutationBatch
from stele.storage.block_cache import BlockCache
from stele.storage.references import Reference
from stele.tablet.engine import Engine
from stele.tablet.flush import Flush
from stele.tablet.fragment_store import FragmentStore
from tests.unit.tablet.engine_support import (
    TABLE,
    SavedConfigs,
    memory_world,
    new_engine,
    puts,
    served,
)


def flush(engine: Engine) -> list[SteleError | None]:
    """How it ended; nothing when none was started."""
    ended: list[SteleError | None] = []
    started = Flush.start(engine, engine.table(TABLE), ended.append)
    assert started == bool(ended)
    return ended


def cells_in(store: FragmentStore, reference: Reference) -> list[Cell]:
    blocks = store.open(reference.file).reader.blocks(reference.rows)
    return [each for part in blocks for each in batch_to_cells(part.batch)]


def test_t92_t96_memory_goes_when_the_configs_are_saved_and_not_before() -> None:
    saved = SavedConfigs()
    engine = new_engine(memory_world(), saved)
    state = served(engine)
    txn = engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    saved.held = []
    ended: list[SteleError | None] = []
    assert Flush.start(engine, state, ended.append)
    held = state.memory.oldest_txn
    assert held == txn, "still in memory while the config is on its way"
    assert not Flush.start(engine, state, ended.append), "one flush of a table at a time"
    saved.release()
    assert ended == [None]
    assert state.memory.oldest_txn is None
    assert not state.flushing
    assert state.stable_txn == txn
    assert engine.memory_bytes == 0


def test_t35_a_file_is_synced_before_it_takes_the_place_of_memory() -> None:
    saved = SavedConfigs()
    files = MemoryFileSystem()
    engine = new_engine(memory_world(files), saved)
    state = served(engine)
    txn = engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    saved.held = []
    assert Flush.start(engine, state, lambda _error: None)
    after_a_crash = files.crash_image()
    assert engine.memory_bytes > 0
    saved.release()
    assert engine.memory_bytes == 0
    (config,) = state.layout.tablets
    (reference,) = config.references
    store = FragmentStore(after_a_crash, "s2", BlockCache(1 << 20))
    assert [(found.row, found.txn) for found in cells_in(store, reference)] == [(b"a", txn)]


def test_t94_t95_every_group_gets_a_file_and_every_tablet_what_is_its() -> None:
    saved = SavedConfigs()
    engine = new_engine(memory_world(), saved)
    state = served(engine, b"m")
    engine.apply(TABLE, puts((b"a", "f", b"1"), (b"a", "g", b"2"), (b"z", "g", b"3"))).wait()
    assert flush(engine) == [None]
    below, above = state.layout.tablets
    assert [sorted(ref.families) for ref in below.references] == [["f"], ["g"]]
    assert [sorted(ref.families) for ref in above.references] == [["g"]]
    assert [each.value for each in cells_in(engine.fragments, above.references[0])] == [b"3"]
    assert [mark.columns for mark in above.marks] == [ALL_COLUMNS]


def test_there_is_nothing_to_flush_in_an_empty_table_or_one_whose_layout_changes() -> None:
    engine = new_engine(memory_world(), SavedConfigs())
    state = served(engine)
    assert flush(engine) == []
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    state.changing_layout = True
    assert flush(engine) == []
    state.changing_layout = False
    assert flush(engine) == [None]


def test_t94_only_what_is_durable_is_flushed() -> None:
    """A commit that the log has not taken yet must not be in a fragment that it could outlive."""
    engine = new_engine(memory_world(inline=False), SavedConfigs())
    served(engine)
    engine.apply(TABLE, puts((b"a", "f", b"1")))
    assert engine.durable_txn < engine.committed_txn
    assert flush(engine) == []


def test_a_flush_that_cannot_write_leaves_everything_as_it_was() -> None:
    faults = Faults()
    files = MemoryFileSystem(faults=faults)
    engine = new_engine(memory_world(files), SavedConfigs())
    state = served(engine)
    txn = engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    files.capacity_bytes = files.disk.used_bytes
    (error,) = flush(engine)
    assert isinstance(error, OutOfSpace)
    kept = state.memory.oldest_txn
    assert kept == txn
    assert engine.fragments.low_water() > 0, "what it wrote is garbage"
    files.capacity_bytes = 1 << 30
    assert flush(engine) == [None]
    assert state.memory.oldest_txn is None


def test_a_flush_whose_config_cannot_be_saved_keeps_the_memory() -> None:
    saved = SavedConfigs()
    engine = new_engine(memory_world(), saved)
    state = served(engine)
    txn = engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    saved.failure = OutOfSpace("full")
    assert flush(engine) == [saved.failure]
    assert state.memory.oldest_txn == txn
    assert next(iter(state.layout.tablets)).references == ()


def test_t97_a_flush_of_a_table_that_was_removed_meanwhile_ends_in_an_error() -> None:
    engine = new_engine(memory_world(), SavedConfigs())
    state = served(engine)
    engine.apply(TABLE, puts((b"a", "f", b"1"))).wait()
    engine.remove_table(TABLE)
    ended: list[SteleError | None] = []
    assert Flush.start(engine, state, ended.append)
    assert len(ended) == 1
    assert ended[0] is not None
    assert engine.config_writer.is_idle


def test_a_batch_and_single_cells_are_merged_into_one_sorted_file() -> None:
    engine = new_engine(memory_world(), SavedConfigs())
    state = served(engine)
    many = MutationBatch()
    for number in range(0, 200, 2):
        many.put(b"%04d" % number, "f", b"q", b"even")
    engine.apply(TABLE, many).wait()
    for number in range(1, 20, 2):
        engine.apply(TABLE, puts((b"%04d" % number, "f", b"odd"))).wait()
    assert flush(engine) == [None]
    (config,) = state.layout.tablets
    (reference,) = config.references
    rows = [each.row for each in cells_in(engine.fragments, reference)]
    assert rows == sorted(rows)
    assert len(rows) == 110
    assert isinstance(engine.fragments.open(reference.file).reader.read_block(0), Block)
