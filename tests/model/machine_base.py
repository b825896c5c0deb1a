"""The store under test, the models beside it, and how the two are compared.

The real store runs on a disk in memory, a clock that moves by hand, and background work that is
done before ``spawn`` returns. So a run is quick, and the same every time.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis.stateful import RuleBasedStateMachine, rule

from stele.client.backend import Visibility
from stele.client.database import Database
from stele.client.table import Table
from stele.client.waiting import ClientWorld
from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.cluster.store import Store
from stele.env.disk import Choice, KeepUnsynced, LoseUnsynced
from stele.env.memory import MemoryClock, MemoryTasks, SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import SnapshotTooOld
from stele.model.cells import Cell, batch_to_cells
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.purge import PurgePolicy
from stele.model.ranges import RowRange
from stele.model.row import RowCells
from stele.model.schema import Schema
from stele.storage.references import Reference
from stele.tablet.compaction_policy import CompactionLimits
from stele.tablet.config import TabletConfig
from stele.tablet.engine import World
from stele.tablet.meta_rows import check_tiling
from stele.tablet.options import EngineOptions
from stele.tablet.scan import TableScan
from stele.tablet.split_policy import SizeLimits
from stele.tablet.table_state import TableState
from tests.model.model_table import ModelTable, answer, key_of

OPTIONS = EngineOptions(
    background=False,
    compaction=CompactionLimits(sources_min=2, sources_max=3),
    sizes=SizeLimits(split_bytes=4_000, join_ratio=0.9),
    cache_bytes=1 << 20,
    log_file_bytes=4_096,
)
"""Everything is due early: a few small commits make a flush, a compaction, a split."""

FAMILIES = ("f", "g", "h")
GROUPINGS: tuple[tuple[tuple[str, tuple[str, ...] | None], ...], ...] = (
    (("a", ("f",)), ("b", None)),
    (("a", ("f", "g")), ("b", None)),
    (("z", None),),
    (("a", ("h",)), ("c", ("f",)), ("b", None)),
)
PURGES = (None, "max-history=1", "max-history=2", "max-age=5s", "max-history=1 and max-age=2s")
HISTORY = "3s"
TABLES_MAX = 3

COUNTS: Counter[str] = Counter()
"""How often each rule did something, over all runs of this process."""

NOTHING = object()
"""What a rule returns that found nothing to do."""


class InlineTasks(MemoryTasks):
    """Background work that is done before ``spawn`` returns."""

    def spawn(self, name: str, job: Callable[[], None]) -> None:
        job()


def step(**strategies: Any) -> Callable[[Callable[..., object]], Any]:
    """A rule that is counted when it did something."""

    def wrap(function: Callable[..., object]) -> Any:
        @functools.wraps(function)
        def counted(self: MachineBase, **drawn: Any) -> None:
            if function(self, **drawn) is not NOTHING:
                COUNTS[function.__name__] += 1

        made: Any = rule(**strategies)
        return made(counted)

    return wrap


def grouped(
    grouping: int, purge: PurgePolicy | str | None, removed: Collection[str] = ()
) -> tuple[Group, ...]:
    """One of the ways to divide families into groups, without those that were removed."""
    named = [
        (name, "*" if families is None else [f for f in families if f not in removed])
        for name, families in GROUPINGS[grouping]
    ]
    return tuple(
        Group(name, families, purge=purge, block_cells=256) for name, families in named if families
    )


def row_cells(found: RowCells | None) -> list[Cell]:
    """The cells of a row, in whichever form a point read gave them."""
    if found is None:
        return []
    return batch_to_cells(found) if isinstance(found, pa.RecordBatch) else list(found.cells())


def cells_of(stream: TableScan) -> list[Cell]:
    return [cell for batch in stream for cell in batch_to_cells(batch)]


@dataclass
class OpenScan:
    """A scan that is under way, what it has to give, and what it has given so far."""

    stream: TableScan
    model: ModelTable
    expected: list[Cell]
    given: list[Cell] = field(default_factory=list)

    def advance(self) -> bool:
        """Take one batch; False at the end."""
        batch = next(self.stream, None)
        if batch is not None:
            self.given += batch_to_cells(batch)
        return batch is not None

    def finish(self) -> None:
        """Take the rest: in all it is the snapshot, but for what a purge took meanwhile."""
        while self.advance():
            pass
        given = set(self.given)
        purged = self.model.purged
        assert self.given == [c for c in self.expected if c in given or key_of(c) not in purged]


class MachineBase(RuleBasedStateMachine):
    """One store, and a model for each of its tables by name."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFileSystem()
        self.clock = MemoryClock()
        self.models: dict[str, ModelTable] = {}
        self.dropped: dict[str, ModelTable] = {}
        self.scans: list[OpenScan] = []
        self.handles: list[tuple[Table, ModelTable]] = []
        """Tables that somebody keeps, whatever becomes of them in the catalog."""
        self.values = 0
        self.names = 0
        self.dice = random.Random(1)
        self.database: Database
        """The public API over the same store."""
        self.backend = self.opened()
        self.create("t0")

    def teardown(self) -> None:
        self.scans.clear()
        self.backend.close()

    # The store.

    def opened(self) -> EmbeddedBackend:
        """Open the directory, as the next process does. What the last one had is void."""
        seed = self.files.disk.used_bytes
        world = World(self.files, self.clock, SeededRandom(seed), InlineTasks(self.clock))
        backend = EmbeddedBackend(Store.open(world, OPTIONS, "model"))
        patient = ClientWorld(self.clock, SeededRandom(seed), self.clock.advance)
        self.database = Database(backend, patient)
        self.handles.clear()
        return backend

    def kill(self, power: Choice | None = None) -> None:
        """End the process without a word, and with ``power`` the machine too."""
        self.scans.clear()
        self.files = self.files.restarted() if power is None else self.files.crash_image(power)

    def create(self, name: str) -> None:
        schema = Schema(grouped(0, None), history=HISTORY)
        self.backend.create_table(name, schema, [b"r3"])
        self.models[name] = ModelTable(schema)

    def pick(self, number: int) -> tuple[str, EmbeddedTable, ModelTable]:
        """One of the tables."""
        name = sorted(self.models)[number % len(self.models)]
        return name, self.backend.table(name), self.models[name]

    def horizon(self, table: EmbeddedTable) -> int:
        return self.backend.store.coordination.horizon(table.id)

    def state(self, number: int) -> TableState:
        return self.backend.store.user.table(self.pick(number)[1].id)

    def compacted(self, number: int) -> None:
        """Some compaction ran: whatever the purge policy allowed may be gone."""
        _, table, model = self.pick(number)
        model.allow_purge(self.horizon(table), self.clock.now_us())

    def compact_what_is_due(self, number: int) -> bool:
        """What the policy chooses, tablet by tablet; whether it chose anything."""
        state, maintenance = self.state(number), self.backend.maintenance
        started = [maintenance.compact_if_due(state, config) for config in state.layout.tablets]
        self.compacted(number)
        return any(started)

    def finish_scans(self) -> None:
        """What a scan does not survive comes: let them have the rest now."""
        for scan in self.scans:
            scan.finish()
        self.scans.clear()

    # Writing.

    def value(self) -> bytes:
        """A value that was never written before."""
        self.values += 1
        return b"v%d" % self.values

    def commit(self, name: str, batch: MutationBatch, max_txn: int | None = None) -> int:
        """Write, and tell the model."""
        txn = self.backend.table(name).apply(batch, max_txn=max_txn).wait()
        self.models[name].commit(batch, txn)
        return txn

    # Comparing.

    def everything(self, table: EmbeddedTable, at: int) -> list[Cell]:
        return cells_of(table.scan(ScanSpec(at=at, versions=None)))

    def base(self, name: str, at: int) -> list[Cell]:
        """What a table holds at a txn, all versions; checked."""
        seen = self.everything(self.backend.table(name), at)
        self.models[name].check(seen, at)
        return seen

    def readable(self, name: str) -> int:
        """A txn that was read at before and can still be, or now."""
        table, model = self.backend.table(name), self.models[name]
        lowest = max(self.horizon(table), model.floor)
        model.moments = [at for at in model.moments if at >= lowest][-40:]
        now = table.durable_txn()
        assert not model.moments or now >= model.moments[-1], "the durable clock went back"
        model.moments.append(now)
        return self.dice.choice(model.moments)

    def check_reads(self, name: str, spec: ScanSpec, rows: tuple[bytes, ...]) -> None:
        """All ways to read one snapshot agree."""
        assert spec.at is not None
        table = self.backend.table(name)
        base = self.base(name, spec.at)
        assert cells_of(table.scan(spec)) == answer(base, spec)
        same = {key: getattr(spec, key) for key in CellSpec.__struct_fields__}
        read = ReadSpec(rows=rows, **same)
        batch, txn = table.read_rows(read)
        assert (batch_to_cells(batch), txn) == (answer(base, read), spec.at)
        for row in rows:
            found, _ = table.read_row(row, CellSpec(**same))
            assert row_cells(found) == answer(base, ReadSpec(rows=(row,), **same))

    def check_too_old(self, name: str, at: int, row: bytes | None = None) -> None:
        """A read below the history is refused, whichever way it is asked.

        Truncation ends the history of tablets: then it is known by a row of one that was touched.
        """
        table = self.backend.table(name)
        reads: list[Callable[[], object]] = [lambda: table.scan(ScanSpec(at=at))]
        if row is not None:
            reads += [
                lambda: table.read_row(row, CellSpec(at=at)),
                lambda: table.read_rows(ReadSpec(rows=(b"r1", row), at=at)),
                lambda: table.scan(ScanSpec(ranges=(RowRange.row(row),), at=at)),
            ]
        for read in reads:
            try:
                read()
            except SnapshotTooOld:
                continue
            raise AssertionError(f"{name} was read at {at}, below its history")

    def latest(self, table: EmbeddedTable, row: bytes) -> tuple[list[Cell], int]:
        """The committed state of a row, as a read before a conditional write sees it."""
        found, txn = table.read_row(row, CellSpec(), Visibility.LATEST)
        return row_cells(found), txn

    def check_meta(self) -> None:
        """META has every tablet of every table, each row in one of them."""
        for record in self.backend.store.running_tables():
            configs = self.backend.store.meta1.configs(record.id)
            check_tiling(record.id, configs)
            served = self.backend.store.user.table(record.id).layout.tablets
            assert list(map(_unordered, configs)) == list(map(_unordered, served))


def _unordered(config: TabletConfig) -> tuple[TabletConfig, frozenset[Reference]]:
    """A config in which the order of references does not matter: META keeps them by group."""
    return replace(config, references=()), frozenset(config.references)


def power_failure(number: int) -> Choice | None:
    """How a process ends: killed, or with the machine, which had written back all or nothing."""
    return (None, LoseUnsynced(), KeepUnsynced())[number % 3]
