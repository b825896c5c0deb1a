"""One table of an embedded store, as the public API sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from stele.client.backend import TabletInfo, Visibility
from stele.client.waiting import OPERATION_US_DEFAULT, TIMEOUT_US_DEFAULT
from stele.cluster.turns import Turn
from stele.coordination.records import LeaseRecord
from stele.env.interrupts import Uninterrupted, is_main_thread
from stele.errors import AlreadyExists, Conflict, InvalidArgument, LimitExceeded, NotFound
from stele.model.limits import SNAPSHOT_NAME_BYTES_MAX
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
from stele.storage.import_columns import ImportColumns
from stele.storage.import_files import ImportTicket
from stele.storage.read_plan import ReadPlan
from stele.tablet.changes import (
    ConfigChange,
    JoinTablets,
    RaiseFloor,
    SplitTablet,
    TruncateRows,
)
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.import_gate import WAIT_US_DEFAULT
from stele.tablet.key_samples import sample_keys
from stele.tablet.operations import RunningOperation
from stele.tablet.pending import KnownCommit, PendingCommit
from stele.tablet.point_reads import PointReads
from stele.tablet.restrictions import group_references
from stele.tablet.scan import TableScan
from stele.tablet.states import TabletState
from stele.tablet.table_state import TableState
from stele.tablet.tablet_sizes import tablet_bytes

if TYPE_CHECKING:
    from stele.cluster.embedded import EmbeddedBackend

T = TypeVar("T")

NO_CHANGE = "nothing was changed"
FILES_GO_ON = "what has begun goes on, and nothing more is begun"

LAYOUT_TRIES_MAX = 100
"""Layout changes that collide with others are planned again this often."""


class EmbeddedTable:
    """Implements ``TableBackend``. Threads share it.

    A table that is dropped and brought back has another state. Every call begins with the state
    that is served then, and uses it to its end, so none can work on what is out of date.
    """

    def __init__(
        self,
        backend: EmbeddedBackend,
        state: TableState,
        points: PointReads | None = None,
        timeout_us: int | None = None,
    ):
        """``timeout_us`` is how long a call may take, if that was said."""
        self._backend = backend
        self._engine = backend.store.user
        self._last_state = state
        self._points = points or PointReads(self._engine)
        self._timeout_us = timeout_us
        self._import_wait_us = WAIT_US_DEFAULT if timeout_us is None else timeout_us

    @property
    def id(self) -> str:
        return self._last_state.id

    @property
    def name(self) -> str:
        return self._known().name

    @property
    def schema(self) -> Schema:
        state = self._known()
        state.check_served()
        return state.layout.schema

    def within(self, timeout_us: int) -> EmbeddedTable:
        """The same table, whose calls wait for others so long.

        Reads wait for an import that is being decided, changes for work on the table's files.
        """
        return EmbeddedTable(self._backend, self._known(), self._points, timeout_us)

    def _known(self) -> TableState:
        """The state that is served now, or that was when the table was dropped."""
        if not self._last_state.is_served:
            self._last_state = self._engine.newest(self._last_state)
        return self._last_state

    @property
    def _state(self) -> TableState:
        """The state that a call works on; ``TableNotFound`` if the table was dropped."""
        self._backend.check_open()
        state = self._known()
        state.check_served()
        return state

    def _turn(self, default_us: int = TIMEOUT_US_DEFAULT, outcome: str = NO_CHANGE) -> Turn:
        """How long the call that begins now waits for others; then its ``outcome``."""
        timeout_us = default_us if self._timeout_us is None else self._timeout_us
        return Turn(self._engine.world.clock, timeout_us, outcome)

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
        state, apply = self._state, self._engine.apply_to
        if not is_main_thread():
            return apply(state, mutations, max_txn, identity, is_first, ticket)
        with Uninterrupted():  # a commit is in memory and in the log's queue, or in neither
            return apply(state, mutations, max_txn, identity, is_first, ticket)

    def admission_ticket(self, timeout_us: int) -> AdmissionTicket:
        return self._engine.admissions.ticket(timeout_us)

    def read_row(
        self, row: bytes, spec: CellSpec, visibility: Visibility = Visibility.DURABLE
    ) -> tuple[RowCells | None, int]:
        return self._backend.reading.read(
            self._state,
            spec.at,
            visibility,
            lambda: (RowRange.row(row),),
            self._import_wait_us,
            lambda view, txn: self._points.read(view, row, spec, txn),
        )

    def read_rows(self, spec: ReadSpec) -> tuple[pa.RecordBatch, int]:
        return self._backend.reading.read(
            self._state,
            spec.at,
            Visibility.DURABLE,
            lambda: map(RowRange.row, spec.rows),
            self._import_wait_us,
            lambda view, txn: self._points.read_many(view, spec, txn),
        )

    def scan(self, spec: ScanSpec) -> TableScan:
        return self._backend.reading.scan(self._state, spec, self._import_wait_us)

    def durable_txn(self) -> int:
        self._state.check_served()
        return self._engine.durable_txn

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
            TabletState.ACTIVE.name.lower(),
            len(config.references),
            tablet_bytes(self._engine.fragments, config),
            details,
        )

    def sample_keys(self, count: int) -> Sequence[bytes]:
        if count < 1:
            raise InvalidArgument(f"a number of samples is at least 1, not {count}")
        view = self._state.view(for_a_read=False)
        return sample_keys(self._engine.fragments, view, count)

    def split(self, row: bytes) -> None:
        check_row(row)

        def plan(state: TableState) -> ConfigChange | None:
            config = state.layout.tablets.find(row)
            assert config is not None
            if config.rows.start == row:
                return None
            new_id = self._backend.new_tablet_id
            return SplitTablet(config.id, row, new_id(state), new_id(state), protected=True)

        self._change_layout(OperationKind.SPLIT, row, plan)

    def join(self, row: bytes) -> None:
        check_row(row)

        def plan(state: TableState) -> ConfigChange:
            upper = state.layout.tablets.find(row)
            assert upper is not None
            lower, _ = state.layout.tablets.neighbours(upper)
            if upper.rows.start != row or lower is None:
                raise InvalidArgument(f"no tablet of table {state.name!r} begins at row {row!r}")
            return JoinTablets(lower.id, upper.id, self._backend.new_tablet_id(state))

        self._change_layout(OperationKind.JOIN, row, plan)

    def _change_layout(
        self, kind: OperationKind, row: bytes, plan: Callable[[TableState], ConfigChange | None]
    ) -> None:
        """Plan, save and show a change, again if it collided with another."""
        state, turn = self._state, self._turn()
        with self._during(kind, state, detail=f"at {row!r}") as operation:
            for _ in range(LAYOUT_TRIES_MAX):
                with self._backend.jobs.layout_changes(state, turn):
                    change = plan(state)
                    if change is None:
                        operation.dismiss()
                        return
                    answer = self._engine.change_and_wait(state, change)
                if isinstance(answer, ConfigEdit):
                    return
            raise Conflict(f"the tablets of {state.name!r} keep changing: {answer}")

    def _during(
        self, kind: OperationKind, state: TableState, detail: str
    ) -> AbstractContextManager[RunningOperation]:
        """An operation on this table, for operators to see."""
        return self._engine.operations.during(kind, state.name, detail=detail)

    # Files.

    def flush(self) -> None:
        turn = self._turn(OPERATION_US_DEFAULT, FILES_GO_ON)
        self._backend.jobs.flush_all(self._state, turn)

    def compact(self, rows: RowRange = EVERYTHING) -> None:
        state, jobs = self._state, self._backend.jobs
        turn = self._turn(OPERATION_US_DEFAULT, FILES_GO_ON)
        jobs.flush_all(state, turn)
        schema = state.layout.schema
        for config in state.layout.tablets.overlapping(rows):
            for group in schema.stored_groups:
                inputs = group_references(config, schema, group)
                if inputs:
                    jobs.compact(state, config, group.name, inputs, turn)

    def truncate(self, rows: RowRange = EVERYTHING) -> None:
        """What is in files goes, which is all there was before the call; later commits stay.

        No txn gives one answer before and another one after: reads as old as what was there when
        the cut was shown are refused from that moment on, and after a restart.
        """
        state, change = self._state, self._engine.change_and_wait
        turn = self._turn(OPERATION_US_DEFAULT)
        with self._during(OperationKind.TRUNCATE, state, detail=f"rows {rows}"):
            self._backend.jobs.flush_all(state, turn)
            with self._backend.jobs.layout_changes(state, turn):
                change(state, TruncateRows(rows, self._engine.advance_clock().wait()))
                change(state, RaiseFloor(rows, state.truncations.floor_of([rows])))
            # The next txn reaches the floor, however far our wall clock is behind: reads of now
            # are allowed again.
            self._engine.advance_clock().wait()

    # Snapshots.

    def pin(self, at: int | None, ttl_us: int, name: str | None = None) -> ReadPlan:
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
        return self._backend.numbered.apply(self._state, write, mutations, ticket)

    def last_numbered(self, writer: str) -> LastWrite | None:
        return self._backend.numbered.last(self._state, writer)

    def look_for_changes(self, since: int) -> tuple[int, bool]:
        return self._backend.changes.look(self._state, since)

    def pin_changes(self, since: int, until: int | None, ttl_us: int) -> ReadPlan:
        return self._backend.changes.pin(self._state, since, until, ttl_us)

    def plan_compaction(self, rows: RowRange, bytes_max: int, ttl_us: int) -> CompactionWork:
        return self._backend.compactions.plan(self._state, rows, bytes_max, ttl_us)

    def publish_compaction(
        self, job: str, token: str, units: Sequence[CompactedUnit]
    ) -> tuple[UnitOutcome, ...]:
        return self._backend.compactions.publish(self._state, job, token, units)

    def begin_import(self, job: str, ttl_us: int) -> ImportTicket:
        state = self._state
        new = self._backend.imports.begin_new(state, job, ttl_us)
        if new is not None:
            return new
        with self._backend.importing(state) as imports:
            return imports.begin(state, job, ttl_us)

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
        columns: ImportColumns | None = None,
    ) -> int:
        state = self._state
        if replaces:  # only what is in files can go; what comes from here on stays
            self._backend.jobs.flush_all(state)
        with self._backend.importing(state) as imports:
            if write is None:
                return imports.commit(state, job, token, files, replaces=replaces, columns=columns)
            numbered = self._backend.numbered
            return numbered.commit_import(
                state, job, token, files, write, replaces=replaces, columns=columns
            )

    def abort_import(self, job: str, token: str) -> None:
        state = self._state
        with self._backend.importing(state) as imports:
            imports.abort(state, job, token)

    def forget_import(self, job: str, token: str) -> None:
        self._backend.imports.forget(self._state, job, token)

    def snapshot(self, name: str) -> int:
        _check_snapshot_name(name)
        state, store = self._state, self._backend.store
        with self._during(OperationKind.SNAPSHOT, state, detail=name):
            self._engine.advance_clock().wait(self._turn().left_us)
            txn = self._engine.durable_txn
            now = store.world.clock.now_us()
            lease = LeaseRecord(self._lease(name), self.id, txn, store.meta.durable_txn, None, now)
            try:
                store.coordination.grant_lease(lease)
            except AlreadyExists as error:
                raise AlreadyExists(
                    f"table {self.name!r} has a snapshot {name!r} already: drop it first, or take "
                    f"another name"
                ) from error
        return txn

    def drop_snapshot(self, name: str) -> None:
        if name not in self.snapshots():
            raise NotFound(f"table {self.name!r} has no snapshot {name!r}")
        self._backend.store.coordination.release_lease(self._lease(name))

    def snapshots(self) -> dict[str, int]:
        state, prefix = self._state, self._lease("")
        return {
            lease.name.removeprefix(prefix): lease.txn
            for lease in self._backend.store.coordination.leases(state.id)
            if lease.name.startswith(prefix)
        }

    def _lease(self, name: str) -> str:
        return f"snapshot/{self.id}/{name}"


def _check_snapshot_name(name: str) -> None:
    size = len(name.encode())
    if size > SNAPSHOT_NAME_BYTES_MAX:
        raise LimitExceeded(
            f"the name of a snapshot, beginning {name[:32]!r}, has {size} bytes, over the limit of "
            f"{SNAPSHOT_NAME_BYTES_MAX}"
        )
