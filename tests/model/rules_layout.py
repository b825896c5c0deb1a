"""Rules that move data between memory, files, tablets, groups and tables; no cell changes by them.

Those that do take cells away (truncation, a removed family, a purge policy) tell the model.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from hypothesis import strategies as st

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.errors import AlreadyExists, InvalidArgument, InvalidSchema, StaleRow, TableNotFound
from stele.model.cells import Cell
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ScanSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.model.schema import Schema
from stele.model.schema_changes import alter, forget_removed
from stele.tablet.config import TabletConfig
from stele.tablet.memory_merge import start_memory_merge
from stele.tablet.restrictions import group_references
from tests.model.machine_base import (
    FAMILIES,
    GROUPINGS,
    NOTHING,
    PURGES,
    TABLES_MAX,
    OpenScan,
    grouped,
    row_cells,
    step,
)
from tests.model.model_table import answer, key_of
from tests.model.rules_writing import ROWS, Wanted, WritingRules, operations, rows, tables
from tests.unit.tablet.import_support import HOUR_US, import_file

MERGED_COMMITS = 20
ERASED_ROWS = (b"r1", b"r3", b"r5", b"r6")
LONGER_THAN_HISTORY_US = 10_000_000


class LayoutRules(WritingRules):
    """What happens behind the readers' backs."""

    @step(number=tables)
    def flush(self, number: int) -> object:
        if self.state(number).memory.oldest_txn is None:
            return NOTHING
        self.pick(number)[1].flush()
        assert self.state(number).memory.oldest_txn is None
        return None

    @step(number=tables)
    def memory_merge(self, number: int) -> None:
        """Many small runs in memory become few."""
        name, _, _ = self.pick(number)
        state = self.state(number)
        for place in range(MERGED_COMMITS):
            batch = MutationBatch()
            batch.put(b"r%d" % (place % 7), self.family(number), b"m", self.value())
            self.commit(name, batch)
            with self.backend.store.user.lock:
                state.memory.seal()
        assert start_memory_merge(self.backend.store.user, state)

    @step(number=tables)
    def minor_compaction(self, number: int) -> object:
        """Whatever the policy thinks is due, tablet by tablet."""
        return None if self.compact_what_is_due(number) else NOTHING

    @step(number=tables)
    def major_compaction(self, number: int) -> None:
        """Everything, at once: what the policy gives up is gone for certain."""
        name, table, model = self.pick(number)
        horizon_before = self.horizon(table)
        table.compact()
        gone = model.surely_purged(self.horizon(table), self.clock.now_us())
        self.compacted(number)
        assert self.horizon(table) >= horizon_before
        seen = set(map(key_of, self.base(name, table.durable_txn())))
        assert not seen & gone, "the purge policy was not carried out"
        for config in self.state(number).layout.tablets:
            check_one_run_each(config, table.schema)

    @step(number=tables, start=rows, end=rows)
    def compaction_of_a_range(self, number: int, start: bytes, end: bytes) -> object:
        if start >= end:
            return NOTHING
        self.pick(number)[1].compact(RowRange(start, end))
        self.compacted(number)
        return None

    @step(number=tables, row=rows)
    def split(self, number: int, row: bytes) -> None:
        _, table, _ = self.pick(number)
        table.split(row)
        assert row in [tablet.rows.start for tablet in table.tablets()]

    @step(number=tables, place=st.integers(0, 8))
    def join(self, number: int, place: int) -> object:
        _, table, _ = self.pick(number)
        borders = [tablet.rows.start for tablet in table.tablets()][1:]
        if not borders:
            _expect_no_border(table, b"r5")
            return NOTHING
        row = borders[place % len(borders)]
        table.join(row)
        assert row not in [tablet.rows.start for tablet in table.tablets()]
        return None

    @step(number=tables)
    def automatic_split_or_join(self, number: int) -> object:
        """What maintenance would do by itself."""
        state, maintenance = self.state(number), self.backend.maintenance
        done = [maintenance.split_if_due(state, config) for config in state.layout.tablets]
        return None if any(done) or maintenance.join_if_due(state) else NOTHING

    @step(number=tables, grouping=st.integers(0, len(GROUPINGS) - 1))
    def regroup(self, number: int, grouping: int) -> None:
        name, table, model = self.pick(number)
        wanted = self.regrouped(table.schema, grouping)
        self.alter(name, wanted)
        assert model.schema.groups == wanted.groups

    def regrouped(self, schema: Schema, grouping: int) -> Schema:
        """The same families and the same purge policy in other groups."""
        purge = schema.groups[0].purge
        return schema.replace(groups=grouped(grouping, purge, schema.removed))

    def alter(self, name: str, wanted: Schema) -> None:
        """Change a schema as the API does; families that are in ``removed`` stay out."""
        self.finish_scans()
        table, model = self.backend.table(name), self.models[name]
        following = alter(table.schema, wanted)
        if following.version != table.schema.version:
            self.backend.alter_table(name, following)
        model.schema = self.backend.table(name).schema
        assert model.schema == following

    @step(number=tables, purge=st.sampled_from(PURGES))
    def change_purge_policy(self, number: int, purge: str | None) -> None:
        name, table, _ = self.pick(number)
        groups = [
            Group(group.name, group.families or "*", purge=purge, block_cells=group.block_cells)
            for group in table.schema.groups
        ]
        self.alter(name, table.schema.replace(groups=groups))

    @step(number=tables, family=st.sampled_from(FAMILIES))
    def remove_family(self, number: int, family: str) -> object:
        name, table, model = self.pick(number)
        if len(table.schema.removed) >= len(FAMILIES) - 1 or family in table.schema.removed:
            return NOTHING
        if any(family in (group.families or ()) for group in table.schema.groups):
            return NOTHING
        self.alter(name, table.schema.replace(removed=(*table.schema.removed, family)))
        model.remove_family(family)
        return None

    @step(number=tables)
    def add_family_again(self, number: int) -> object:
        """A removed family comes back empty, once compactions have passed; before, it cannot."""
        name, table, _ = self.pick(number)
        removed = table.schema.removed
        if not removed:
            return NOTHING
        try:
            named = Group("again", families=[removed[0]])
            alter(
                table.schema,
                table.schema.replace(groups=[named, *table.schema.groups], removed=removed[1:]),
            )
        except InvalidSchema:
            pass
        else:
            raise AssertionError("a family that may have cells was added")
        table.compact()
        self.compacted(number)
        self.finish_scans()
        self.backend.alter_table(name, forget_removed(table.schema))
        self.models[name].schema = self.backend.table(name).schema
        return None

    def erase_some(self, name: str) -> None:
        """What is there now becomes history that a compaction would like to drop."""
        batch = MutationBatch()
        for row in ERASED_ROWS:
            batch.erase_row(row)
        self.commit(name, batch)
        self.clock.advance(LONGER_THAN_HISTORY_US)
        self.commit(name, batch)

    @step(
        number=tables,
        reverse=st.booleans(),
        kind=st.sampled_from(("flush", "compact", "split", "join", "regroup", "collect")),
        choice=st.integers(0, 3),
    )
    def scan_across_a_change(self, number: int, reverse: bool, kind: str, choice: int) -> None:
        """A scan that has begun gives its snapshot, whatever becomes of tablets and files."""
        name, table, model = self.pick(number)
        spec = ScanSpec(versions=None, reverse=reverse)
        expected = answer(self.base(name, table.durable_txn()), spec)
        scan = OpenScan(table.scan(spec), model, expected)
        scan.advance()
        self.erase_some(name)
        borders = [tablet.rows.start for tablet in table.tablets()][1:]
        actions: dict[str, Callable[[], object]] = {
            "flush": table.flush,
            "compact": table.compact,
            "split": lambda: table.split(b"r%d" % choice),
            "join": lambda: table.join(borders[choice % len(borders)]) if borders else None,
            "regroup": lambda: self.alter(name, self.regrouped(table.schema, choice)),
            "collect": self.backend.store.collect_garbage,
        }
        actions[kind]()
        model.allow_purge(self.horizon(table), self.clock.now_us())
        scan.finish()

    @step(number=tables, start=rows, end=st.none() | rows, whole=st.booleans())
    def truncate(self, number: int, start: bytes, end: bytes | None, whole: bool) -> object:
        if end is not None and start >= end:
            return NOTHING
        name, table, model = self.pick(number)
        self.finish_scans()
        before = table.durable_txn()
        _, read_at = self.latest(table, start)
        wanted = EVERYTHING if whole else RowRange(start, end)
        apart = self.apart(number, wanted, before)
        table.truncate(wanted)
        _expect_stale(table, start, self.family(number), read_at)
        floor = max(config.history_floor for config in self.state(number).layout.tablets)
        model.truncate(wanted, floor)
        assert floor > before, "what was read before the truncation can be read again, differently"
        self.check_too_old(name, before, start)
        for row, cells in apart.items():
            found, _ = table.read_row(row, CellSpec(versions=None, at=before))
            assert row_cells(found) == cells, "a truncation was seen in another tablet"
        return None

    def apart(self, number: int, rows: RowRange, at: int) -> dict[bytes, list[Cell]]:
        """What rows hold that are in other tablets than some rows."""
        _, table, _ = self.pick(number)
        tablets = self.state(number).layout.tablets
        touched = tablets.overlapping(rows)
        others = [row for row in ROWS if tablets.find(row) not in touched]
        spec = CellSpec(versions=None, at=at)
        return {row: row_cells(table.read_row(row, spec)[0]) for row in others}

    @step(
        number=tables,
        wanted=st.lists(operations, min_size=1, max_size=6),
        again=st.booleans(),
        cut=st.booleans(),
    )
    def import_files(self, number: int, wanted: list[Wanted], again: bool, cut: bool) -> object:
        """A file of somebody else's is a commit like any other, whatever happens in between."""
        stamped = [(*one[:4], 5 if one[4] is None else one[4]) for one in wanted]
        batch = self.build(number, stamped)
        if not len(batch):
            return NOTHING
        name, table, model = self.pick(number)
        self.names += 1
        job = f"job{self.names}"
        ticket = table.begin_import(job, HOUR_US)
        info = import_file(self.backend, ticket, batch.cells())
        if cut:
            table.split(ROWS[self.names % len(ROWS)])
            self.backend.store.collect_garbage()
        txn = table.commit_import(job, ticket.token, [info])
        if again:
            assert table.commit_import(job, ticket.token, [info]) == txn
        model.commit(batch, txn)
        assert name in self.models
        return None

    @step(number=tables)
    def clone(self, number: int) -> object:
        if len(self.models) >= TABLES_MAX:
            return NOTHING
        name, table, model = self.pick(number)
        self.names += 1
        clone = self.backend.clone_table(name, f"c{self.names}")
        self.models[clone.name] = model.copy()
        assert self.horizon(clone) >= self.horizon(table), "history the files may not have"
        return None

    @step(number=tables)
    def snapshot(self, number: int) -> object:
        name, table, model = self.pick(number)
        if len(model.snapshots) >= 3:
            return NOTHING
        self.names += 1
        label = f"s{self.names}"
        model.snapshots[label] = table.snapshot(label)
        try:
            table.snapshot(label)
        except AlreadyExists:
            assert table.snapshots() == model.snapshots
        assert name in self.models
        return None

    @step(number=tables)
    def drop_snapshot(self, number: int) -> object:
        _, table, model = self.pick(number)
        if not model.snapshots:
            return NOTHING
        label = min(model.snapshots)
        table.drop_snapshot(label)
        del model.snapshots[label]
        assert table.snapshots() == model.snapshots
        return None

    @step(number=tables, back=st.booleans())
    def drop_table(self, number: int, back: bool) -> object:
        """A dropped table is not served; it can come back, later or at once."""
        if len(self.models) < 2 and not back:
            return NOTHING
        name, _, _ = self.pick(number)
        self.finish_scans()
        self.clock.advance(1)  # of two of one name, the one that was dropped last comes back
        self.backend.drop_table(name)
        self.dropped[name] = self.models.pop(name)
        _expect_no_table(self.backend, name)
        if back:
            self.backend.store.collect_garbage()
            self.backend.undrop_table(name)
            self.models[name] = self.dropped.pop(name)
        return None

    @step(number=tables)
    def undrop_table(self, number: int) -> object:
        names = sorted(self.dropped.keys() - self.models.keys())
        if not names or len(self.models) >= TABLES_MAX:
            return NOTHING
        name = names[number % len(names)]
        self.backend.undrop_table(name)
        self.models[name] = self.dropped.pop(name)
        return None

    @step(number=tables)
    def rename_table(self, number: int) -> None:
        name, table, _ = self.pick(number)
        self.names += 1
        renamed = self.backend.rename_table(name, f"n{self.names}")
        assert renamed.id == table.id
        self.models[renamed.name] = self.models.pop(name)

    @step(rounds=st.integers(1, 2))
    def collect_garbage(self, rounds: int) -> None:
        """The first round moves it to the trash, the second takes it away."""
        for _ in range(rounds):
            self.backend.store.collect_garbage()
        self.check_meta()


def check_one_run_each(config: TabletConfig, schema: Schema) -> None:
    """Each reference belongs to one group, and each group has one run of files that are apart."""
    grouped_references = [
        sorted(group_references(config, schema, group), key=lambda one: one.file.summary.first_row)
        for group in schema.stored_groups
    ]
    assert sum(map(len, grouped_references)) == len(config.references), "in no group or in two"
    for references in grouped_references:
        for lower, upper in pairwise(references):
            assert lower.file.summary.last_row < upper.file.summary.first_row


def _expect_stale(table: EmbeddedTable, row: bytes, family: str, read_at: int) -> None:
    """A row transaction that read before the truncation must not build on what it read."""
    batch = MutationBatch()
    batch.put(row, family, b"q", b"stale")
    try:
        table.apply(batch, max_txn=read_at)
    except StaleRow:
        return
    raise AssertionError("a transaction did not notice that its row was truncated")


def _expect_no_table(backend: EmbeddedBackend, name: str) -> None:
    try:
        backend.table(name)
    except TableNotFound:
        return
    raise AssertionError("a dropped table is served")


def _expect_no_border(table: EmbeddedTable, row: bytes) -> None:
    try:
        table.join(row)
    except InvalidArgument:
        return
    raise AssertionError("a border that is not there was removed")
