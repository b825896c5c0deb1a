"""Whole stores in memory for the tests of the engine: real parts, one thread, time by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.cluster.store import Store
from stele.env.memory import MemoryClock, MemoryTasks, SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import SteleError
from stele.kernels.block import Block
from stele.model.cells import Cell, batch_to_cells, cells_to_batch
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import RowRange
from stele.model.row import Row
from stele.model.schema import Schema
from stele.storage.block_cache import BlockCache
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.config_store import Saved
from stele.tablet.engine import Engine, World
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.meta_rows import meta_key
from stele.tablet.options import EngineOptions
from stele.tablet.table_state import TableState

BY_HAND = EngineOptions(background=False)
"""Nothing is flushed, compacted, split or joined unless a test says so."""

TABLE = "t00000001"
TWO_GROUPS = Schema([Group("a", families=["f"], block_cells=256), Group("b", block_cells=256)])
ONE_GROUP = Schema([Group("all", block_cells=256)])


class InlineTasks(MemoryTasks):
    """Background work that is done before ``spawn`` returns: every run takes the same course."""

    def spawn(self, name: str, job: Callable[[], None]) -> None:
        job()


@dataclass(slots=True)
class SavedConfigs:
    """A parent of configs that saves at once, or when told to, or fails."""

    rows: dict[bytes, TabletConfig] = field(default_factory=dict)
    edits: list[ConfigEdit] = field(default_factory=list)
    failure: SteleError | None = None
    held: list[Callable[[], None]] | None = None
    """Saves that wait for :meth:`release`; none wait while this is ``None``."""

    def save(self, edit: ConfigEdit, done: Saved) -> None:
        if self.held is None:
            self._finish(edit, done)
        else:
            self.held.append(lambda: self._finish(edit, done))

    def release(self) -> None:
        """Let everything through that waits, and all that comes."""
        waiting, self.held = self.held or [], None
        for finish in waiting:
            finish()

    def _finish(self, edit: ConfigEdit, done: Saved) -> None:
        if self.failure is not None:
            done(self.failure)
            return
        self.edits.append(edit)
        for config in edit.removed:
            self.rows.pop(meta_key(config.table, config.rows.end), None)
        for config in edit.written:
            self.rows[meta_key(config.table, config.rows.end)] = config
        done(None)


def memory_world(
    files: MemoryFileSystem | None = None,
    *,
    clock: MemoryClock | None = None,
    seed: int = 1,
    inline: bool = True,
) -> World:
    clock = clock or MemoryClock()
    tasks = InlineTasks(clock) if inline else MemoryTasks(clock)
    return World(files or MemoryFileSystem(), clock, SeededRandom(seed), tasks)


def open_backend(world: World, options: EngineOptions = BY_HAND) -> EmbeddedBackend:
    return EmbeddedBackend(Store.open(world, options, "test"))


def reopened(backend: EmbeddedBackend, options: EngineOptions = BY_HAND) -> EmbeddedBackend:
    """The next process after a kill: nothing was closed."""
    old = backend.store.world
    assert isinstance(old.files, MemoryFileSystem)
    assert isinstance(old.clock, MemoryClock)
    return open_backend(memory_world(old.files.restarted(), clock=old.clock), options)


def new_engine(
    world: World,
    configs: SavedConfigs,
    *,
    options: EngineOptions = BY_HAND,
    session: str = "s1",
    start_txn: int = 0,
) -> Engine:
    return Engine(
        world,
        session=session,
        log_directory=f"log/{session}",
        start_txn=start_txn,
        configs=configs,
        options=options,
    )


def served(engine: Engine, *borders: bytes, schema: Schema = TWO_GROUPS) -> TableState:
    """A table of an engine, with tablets between the borders."""
    ends = [*borders, None]
    configs = [
        TabletConfig(f"{TABLE}.{number}", TABLE, RowRange(start, end), log=engine.log_directory)
        for number, (start, end) in enumerate(zip([b"", *borders], ends, strict=True))
    ]
    return engine.add_table(TABLE, "table", schema, configs)


def puts(*cells: tuple[bytes, str, bytes], qualifier: bytes = b"q") -> MutationBatch:
    """A batch of puts: row, family and value of each."""
    batch = MutationBatch()
    for row, family, value in cells:
        batch.put(row, family, qualifier, value)
    return batch


def put(table: EmbeddedTable, row: bytes, value: bytes = b"v", family: str = "f") -> int:
    return table.apply(puts((row, family, value))).wait()


def erase_row(table: EmbeddedTable, row: bytes) -> int:
    batch = MutationBatch()
    batch.erase_row(row)
    return table.apply(batch).wait()


def scan(table: EmbeddedTable, **spec: object) -> list[Cell]:
    """All cells a scan gives."""
    stream = table.scan(ScanSpec(**spec))  # type: ignore[arg-type]
    return [cell for batch in stream for cell in batch_to_cells(batch)]


def values(table: EmbeddedTable, **spec: object) -> dict[tuple[bytes, str], bytes]:
    """What a scan gives, newest versions only, by row and family."""
    return {(cell.row, cell.family): cell.value for cell in scan(table, **spec)}


def get(table: EmbeddedTable, row: bytes, **spec: object) -> list[Cell]:
    found, _ = table.read_row(row, CellSpec(**spec))  # type: ignore[arg-type]
    return [] if found is None else list(Row(row, found).cells)


def get_many(table: EmbeddedTable, rows: Sequence[bytes], **spec: object) -> list[Cell]:
    batch, _ = table.read_rows(ReadSpec(rows=tuple(rows), **spec))  # type: ignore[arg-type]
    return batch_to_cells(batch)


def config_of(table: EmbeddedTable, row: bytes) -> TabletConfig:
    config = table._state.layout.tablets.find(row)
    assert config is not None
    return config


def new_store(files: MemoryFileSystem | None = None, session: str = "s1") -> FragmentStore:
    return FragmentStore(files or MemoryFileSystem(), session, BlockCache(1 << 20))


def block(*cells: Cell) -> Block:
    return Block.from_batch(cells_to_batch(sorted(cells, key=Cell.key)))


def cell(row: bytes, family: str = "f", value: bytes = b"v", txn: int = 1) -> Cell:
    return Cell(row, family, b"q", txn, value, txn=txn)


def fragment(
    store: FragmentStore, cells: Iterable[Cell], *, block_cells: int = 256
) -> FragmentInfo:
    """One durable file with these cells."""
    with store.writing() as files:
        options = FragmentOptions(block_cells=block_cells)
        (info,) = files.write([block(*cells)], table=TABLE, options=options)
    return info
