"""One table of an embedded store, as the public API sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from stele.client.backend import TabletInfo, Visibility
from stele.coordination.records import LeaseRecord
from stele.env.interrupts import Uninterrupted, is_main_thread
from stele.errors import Conflict, InvalidArgument, NotFound
from stele.model.mutations import MutationBatch
from stele.model.numbered_writes import LastWrite, NumberedWrite
from stele.model.operations import OperationKind
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import EVERYTHING, RowRange, check_row
from stele.model.row import RowCells
from stele.model.schema import Schema
from stele.storage.admission_line import AdmissionTicket
from stele.storage.compaction_work import CompactedUnit, CompactionWork, UnitOutcome
from stele.storage.fragment_format import FragmentInfo
from stele.storage.import_files import ImportTicket
from stele.storage.read_plan import ReadPlan
from stele.tablet.active_reads import Hold
from stele.tablet.changes import (
    ConfigChange,
    JoinTablets,
    RaiseFloor,
    Refused,
    SplitTablet,
    TruncateRows,
)
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.horizon import check_readable
from stele.tablet.import_gate import WAIT_US_DEFAULT, await_import
from stele.tablet.operations import RunningOperation
from stele.tablet.pending import KnownCommit, PendingCommit
from stele.tablet.point_reads import PointReads
from stele.tablet.read_sources import missing_file
from stele.tablet.restrictions import group_references
from stele.tablet.scan import TableScan
from stele.tablet.table_state import TableState, TableView
from stele.tablet.tablet_sizes import row_samples, tablet_bytes

if TYPE_CHECKING:
    from stele.cluster.embedded import EmbeddedBackend

T = TypeVar("T")

LAYOUT_TRIES_MAX = 100
"""Layout changes that collide with others are planned again this often."""


class EmbeddedTable:
    """Implements ``TableBackend``. Threads share it."""

    def __init__(
        self,
        backend: EmbeddedBackend,
        state: TableState,
        points: PointReads | None = None,
        import_wait_us: int = WAIT_US_DEFAULT,
    ):
        self._backend = backend
        self._engine = backend.store.user
        self._state = state
        self._points = points or PointReads(self._engine)
        self._import_wait_us = import_wait_us

    @property
    def id(self) -> str:
        return self._state.id

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def schema(self) -> Schema:
        return self._state.layout.schema

    def within(self, timeout_us: int) -> EmbeddedTable:
        """The same table, whose reads wait so long for an import that is being decided."""
        return EmbeddedTable(self._backend, self._state, self._points, timeout_us)

    # Writing and reading.

    def apply(
        self,
        mutations: MutationBatch | pa.RecordBatch,
        *,
        max_txn: int | None = None,
        identity: tuple[bytes, int] | None = None,
        is_first: bool = False,
        ticket: AdmissionTicket | None = None,
    ) -> PendingCommit | KnownCommit:
        self._backend.check_open()
        apply = self._engine.apply
        if not is_main_thread():
            return apply(self._state.id, mutations, max_txn, identity, is_first, ticket)
        with Uninterrupted():  # a commit is in memory and in the log's queue, or in neither
            return apply(self._state.id, mutations, max_txn, identity, is_first, ticket)

    def admission_ticket(self, timeout_us: int) -> AdmissionTicket:
        return self._engine.admissions.ticket(timeout_us)

    def read_row(
        self, row: bytes, spec: CellSpec, visibility: Visibility = Visibility.DURABLE
    ) -> tuple[RowCells | None, int]:
        self._backend.check_open()
        return self._read(
            spec.at, visibility, lambda view, txn: self._points.read(view, row, spec, txn)
        )

    def read_rows(self, spec: ReadSpec) -> tuple[pa.RecordBatch, int]:
        self._backend.check_open()
        return self._read(
            spec.at, Visibility.DURABLE, lambda view, txn: self._points.read_many(view, spec, txn)
        )

    def _read(
        self, at: int | None, visibility: Visibility, read: Callable[[TableView, int], T]
    ) -> tuple[T, int]:
        """Read a view; a newer one, if the collector took a file of it before it was opened."""
        while True:
            view, txn = self._view(at, visibility)
            try:
                return read(view, txn), txn
            except NotFound as error:
                if self._state.layout is view.layout:
                    raise missing_file(self.name, error) from error

    def _view(self, at: int | None, visibility: Visibility) -> tuple[TableView, int]:
        """A view that is complete for reads at a txn.

        The txn comes first: what is durable by then is in any later view. The horizon comes last: a
        compaction that is in the view used one no higher. Such a read needs no registration,
        because what it reads is all in the view.
        """
        coordination = self._backend.store.coordination
        while True:
            txn = self._read_txn(at, visibility)
            view = self._state.view()
            if at is not None:
                self._check_readable(txn)
                return view, txn
            if max(coordination.horizon(self.id), self._state.history_floor) <= txn:
                return view, txn

    def scan(self, spec: ScanSpec) -> TableScan:
        self._backend.check_open()
        if spec.mode == "snapshot":
            return self._scan_snapshot(spec)
        visibility = Visibility.LATEST if spec.mode == "latest" else Visibility.DURABLE
        return TableScan(self._engine, self._state, spec, lambda: self._view(None, visibility))

    def _scan_snapshot(self, spec: ScanSpec) -> TableScan:
        """A scan at one txn, which is held while somebody reads on."""
        reads, state, name = self._backend.reads, self._state, self.name
        hold = self._hold(spec.at)

        def go_on() -> None:
            if not reads.use(hold):
                check_readable(name, hold.txn, reads.granted(hold.table))

        def view() -> tuple[TableView, int]:
            found = state.view()
            check_readable(name, hold.txn, state.history_floor)  # it may show less than there was
            return found, hold.txn

        try:
            if spec.at is not None:
                self._check_readable(hold.txn)
            return TableScan(
                self._engine,
                state,
                spec,
                view,
                before_batch=go_on,
                on_close=lambda: reads.end(hold),
            )
        except BaseException:
            reads.end(hold)
            raise

    def _hold(self, at: int | None) -> Hold:
        """A txn that the horizon will not pass while the read goes on."""
        reads, coordination = self._backend.reads, self._backend.store.coordination
        while True:
            txn = self._read_txn(at, Visibility.DURABLE)
            hold = reads.begin(self.id, txn)
            if hold is None:
                if at is not None:
                    check_readable(self.name, txn, reads.granted(self.id))
            elif at is not None or coordination.horizon(self.id) <= txn:
                return hold
            else:
                reads.end(hold)

    def durable_txn(self) -> int:
        return self._engine.durable_txn

    def _read_txn(self, at: int | None, visibility: Visibility) -> int:
        if visibility is Visibility.LATEST:
            txn = self._engine.committed_txn
        else:
            if at is not None and at > self._engine.durable_txn:
                self._engine.reach(at)
            txn = self._engine.durable_txn if at is None else at
        await_import(self._engine, self._state, txn, self._import_wait_us)
        return txn

    def _check_readable(self, txn: int) -> None:
        floors = (config.history_floor for config in self._state.layout.tablets)
        floor = max(self._state.history_floor, *floors)
        horizon = self._backend.store.coordination.horizon(self.id)
        check_readable(self.name, txn, max(horizon, floor))

    # Tablets.

    def tablets(self) -> tuple[TabletInfo, ...]:
        return tuple(self._info(config) for config in self._state.layout.tablets)

    def _info(self, config: TabletConfig) -> TabletInfo:
        details: dict[str, Any] = {
            "files": sorted(config.files()),
            "revision": config.revision,
            "protected": config.protected,
        }
        return TabletInfo(
            config.id,
            config.rows,
            "active",
            len(config.references),
            tablet_bytes(self._engine.fragments, config),
            details,
        )

    def sample_keys(self, count: int) -> Sequence[bytes]:
        if count < 1:
            raise InvalidArgument(f"a number of samples is at least 1, not {count}")
        samples = sorted(
            (
                sample
                for config in self._state.layout.tablets
                for reference in config.references
                for sample in row_samples(self._engine.fragments, reference)
            ),
            key=lambda sample: sample.row,
        )
        total = sum(sample.size_bytes for sample in samples)
        keys: list[bytes] = []
        passed = 0
        for sample in samples:
            if passed * (count + 1) >= total * (len(keys) + 1) and sample.row not in keys[-1:]:
                keys.append(sample.row)
            passed += sample.size_bytes
        return keys[:count]

    def split(self, row: bytes) -> None:
        check_row(row)

        def plan() -> ConfigChange | None:
            config = self._state.layout.tablets.find(row)
            assert config is not None
            if config.rows.start == row:
                return None
            new_id = self._backend.new_tablet_id
            lower, upper = new_id(self._state), new_id(self._state)
            return SplitTablet(config.id, row, lower, upper, protected=True)

        self._change_layout(OperationKind.SPLIT, row, plan)

    def join(self, row: bytes) -> None:
        check_row(row)

        def plan() -> ConfigChange:
            upper = self._state.layout.tablets.find(row)
            assert upper is not None
            lower, _ = self._state.layout.tablets.neighbours(upper)
            if upper.rows.start != row or lower is None:
                raise InvalidArgument(f"no tablet of table {self.name!r} begins at row {row!r}")
            return JoinTablets(lower.id, upper.id, self._backend.new_tablet_id(self._state))

        self._change_layout(OperationKind.JOIN, row, plan)

    def _change_layout(
        self, kind: OperationKind, row: bytes, plan: Callable[[], ConfigChange | None]
    ) -> None:
        """Plan, save and show a change, again if it collided with another."""
        self._backend.check_open()
        with self._during(kind, detail=f"at {row!r}") as operation:
            for _ in range(LAYOUT_TRIES_MAX):
                with self._backend.jobs.layout_changes(self._state):
                    change = plan()
                    if change is None:
                        operation.dismiss()
                        return
                    answer = self.change(change)
                if isinstance(answer, ConfigEdit):
                    return
            raise Conflict(f"the tablets of {self.name!r} keep changing: {answer}")

    def _during(self, kind: OperationKind, detail: str) -> AbstractContextManager[RunningOperation]:
        """An operation on this table, for operators to see."""
        return self._engine.operations.during(kind, self.name, detail=detail)

    def change(self, change: ConfigChange, schema: Schema | None = None) -> ConfigEdit | Refused:
        """Make a change of configs and wait until it is durable and shown."""
        return self._engine.change_and_wait(self._state, change, schema=schema)

    # Files.

    def flush(self) -> None:
        self._backend.check_open()
        target = self._engine.committed_txn
        if target > self._engine.durable_txn:
            self._engine.advance_clock().wait()
        while (oldest := self._state.memory.oldest_txn) is not None and oldest <= target:
            self._backend.jobs.flush(self._state)

    def compact(self, rows: RowRange = EVERYTHING) -> None:
        self.flush()
        for config in self._state.layout.tablets.overlapping(rows):
            for group in self.schema.stored_groups:
                inputs = group_references(config, self.schema, group)
                if inputs:
                    self._backend.jobs.compact(self._state, config, group.name, inputs)

    def truncate(self, rows: RowRange = EVERYTHING) -> None:
        """What is in files goes, which is all there was before the call; later commits stay.

        No txn gives one answer before and another one after: reads as old as what was there when
        the cut was shown are refused from that moment on, and after a restart.
        """
        state = self._state
        with self._during(OperationKind.TRUNCATE, detail=f"rows {rows}"):
            self.flush()
            with self._backend.jobs.layout_changes(state):
                self.change(TruncateRows(rows, self._engine.advance_clock().wait()))
                self.change(RaiseFloor(rows, state.history_floor))
            # The next txn reaches the floor, however far our wall clock is behind: reads of now
            # are allowed again.
            self._engine.advance_clock().wait()

    # Snapshots.

    def pin(self, at: int | None, ttl_us: int, name: str | None = None) -> ReadPlan:
        self._backend.check_open()
        return self._backend.pins.pin(self._state, at, ttl_us, name)

    def renew_pin(self, lease: str, ttl_us: int) -> int:
        self._backend.check_open()
        return self._backend.pins.renew(self.id, lease, ttl_us)

    def release_pin(self, lease: str) -> None:
        self._backend.check_open()
        self._backend.pins.release(self.id, lease)

    def apply_numbered(
        self,
        write: NumberedWrite,
        mutations: pa.RecordBatch,
        *,
        ticket: AdmissionTicket | None = None,
    ) -> int:
        self._backend.check_open()
        return self._backend.numbered.apply(self._state, write, mutations, ticket)

    def last_numbered(self, writer: str) -> LastWrite | None:
        self._backend.check_open()
        return self._backend.numbered.last(self._state, writer)

    def look_for_changes(self, since: int) -> tuple[int, bool]:
        self._backend.check_open()
        return self._backend.changes.look(self._state, since)

    def pin_changes(self, since: int, until: int | None, ttl_us: int) -> ReadPlan:
        self._backend.check_open()
        return self._backend.changes.pin(self._state, since, until, ttl_us)

    def plan_compaction(self, rows: RowRange, bytes_max: int, ttl_us: int) -> CompactionWork:
        self._backend.check_open()
        return self._backend.compactions.plan(self._state, rows, bytes_max, ttl_us)

    def publish_compaction(
        self, job: str, token: str, units: Sequence[CompactedUnit]
    ) -> tuple[UnitOutcome, ...]:
        self._backend.check_open()
        return self._backend.compactions.publish(self._state, job, token, units)

    def begin_import(self, job: str, ttl_us: int) -> ImportTicket:
        self._backend.check_open()
        new = self._backend.imports.begin_new(self._state, job, ttl_us)
        if new is not None:
            return new
        with self._backend.importing(self._state) as imports:
            return imports.begin(self._state, job, ttl_us)

    def renew_import(self, job: str, token: str, ttl_us: int) -> int:
        return self._backend.imports.renew(self._state, job, token, ttl_us)

    def commit_import(
        self,
        job: str,
        token: str,
        files: Sequence[FragmentInfo],
        write: NumberedWrite | None = None,
        *,
        replaces: bool = False,
    ) -> int:
        if replaces:
            self.flush()  # only what is in files can go; what comes from here on stays
        state = self._state
        with self._backend.importing(state) as imports:
            if write is None:
                return imports.commit(state, job, token, files, replaces=replaces)
            numbered = self._backend.numbered
            return numbered.commit_import(state, job, token, files, write, replaces=replaces)

    def abort_import(self, job: str, token: str) -> None:
        with self._backend.importing(self._state) as imports:
            imports.abort(self._state, job, token)

    def forget_import(self, job: str, token: str) -> None:
        self._backend.check_open()
        self._backend.imports.forget(self._state, job, token)

    def snapshot(self, name: str) -> int:
        self._backend.check_open()
        store = self._backend.store
        with self._during(OperationKind.SNAPSHOT, detail=name):
            self._engine.advance_clock().wait()
            txn = self._engine.durable_txn
            now = store.world.clock.now_us()
            lease = LeaseRecord(self._lease(name), self.id, txn, store.meta.durable_txn, None, now)
            store.coordination.grant_lease(lease)
        return txn

    def drop_snapshot(self, name: str) -> None:
        if name not in self.snapshots():
            raise NotFound(f"table {self.name!r} has no snapshot {name!r}")
        self._backend.store.coordination.release_lease(self._lease(name))

    def snapshots(self) -> dict[str, int]:
        prefix = self._lease("")
        return {
            lease.name.removeprefix(prefix): lease.txn
            for lease in self._backend.store.coordination.leases(self.id)
            if lease.name.startswith(prefix)
        }

    def _lease(self, name: str) -> str:
        return f"snapshot/{self.id}/{name}"
