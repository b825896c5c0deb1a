"""What the public API stands on: one interface, served by an embedded engine or by a cluster.

Writes never block: they return a :class:`Pending` that is resolved when the commit is durable, so
threads wait on it and asyncio awaits it. Reads return when they have their answer and may touch the
disk; an asyncio caller runs them in a thread. Every method raises only ``SteleError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

import pyarrow as pa

from stele.client.waiting import TIMEOUT_US_DEFAULT
from stele.errors import SteleError
from stele.model.durations import parse_duration
from stele.model.mutations import MutationBatch
from stele.model.numbered_writes import LastWrite, NumberedWrite
from stele.model.operations import Operation
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.model.row import RowCells
from stele.model.schema import Schema
from stele.storage.admission_line import AdmissionTicket
from stele.storage.compaction_work import CompactedUnit, CompactionWork, UnitOutcome
from stele.storage.fragment_format import FragmentInfo
from stele.storage.import_columns import ImportColumns
from stele.storage.import_files import ImportTicket
from stele.storage.read_plan import ReadPlan

KEPT_DEFAULT: Final = "7d"
KEPT_US_DEFAULT: Final = parse_duration(KEPT_DEFAULT)
"""How long a dropped table can come back."""


class Visibility(Enum):
    """How new the data of a read may be."""

    DURABLE = "durable"
    """Only what no crash can take back: the default."""
    LATEST = "latest"
    """Also commits that are on their way to the log; for reading before a conditional write."""


class Pending(Protocol):
    """A commit on its way."""

    @property
    def txn(self) -> int:
        """The txn it has; a store in another process says it once it is durable, until then 0."""

    def wait(self, timeout_us: int | None = None) -> int:
        """Return the txn when it is durable, or raise why it is not; see ``DeadlineExceeded``."""

    def then(self, callback: Callable[[SteleError | None], None]) -> None:
        """Call back once when it is decided, from any thread; at once if it is already."""


class CellStream(Protocol):
    """A scan under way: resolved ``CELLS`` batches in order, whole rows each. Close it."""

    @property
    def txn(self) -> int:
        """The txn of the last batch, known before the first one, also for an empty scan.

        In mode ``snapshot`` it is the same from beginning to end.
        """

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def __next__(self) -> pa.RecordBatch: ...

    def close(self) -> None:
        """Let go of everything the scan holds. Idempotent."""

    def explain(self) -> dict[str, Any]:
        """What was read so far: tablets, fragments, blocks from cache and from disk, cells."""


@dataclass(frozen=True, slots=True)
class TabletInfo:
    """One tablet as an operator sees it."""

    id: str
    rows: RowRange
    state: str
    fragments: int
    size_bytes: int
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table of the catalog."""

    id: str
    name: str
    schema: Schema
    dropped: bool = False


class TableBackend(Protocol):
    """One table. ``schema`` is the current one; it changes when the table is altered."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Schema: ...

    def within(self, timeout_us: int) -> TableBackend:
        """The same table for calls that may take so long, here or in another process.

        What is late for changes of tablets and files ends with ``DeadlineExceeded``: of a split, a
        join, a truncation or a snapshot nothing was done, a flush or compaction goes on by itself.
        """

    def apply(
        self,
        mutations: MutationBatch | pa.RecordBatch,
        *,
        max_txn: int | None = None,
        identity: tuple[bytes, int] | None = None,
        is_first: bool = False,
        ticket: AdmissionTicket | None = None,
    ) -> Pending:
        """Commit a batch, atomically if its rows are in one tablet; else tablet by tablet.

        ``max_txn``: raise ``StaleRow`` if a row of the batch has changed, or may have, after it.
        ``identity``: the client's name and the number of this request. Sent again after an unknown
        outcome, with the same first row, it takes effect once and is answered with the same txn.
        A store in another process names its requests itself and takes none. ``is_first``: this one
        was never sent before, so nobody need look for it. It must have ended before it is sent
        again.
        ``Throttled``, at once, when a budget is full: wait and try again. A ``ticket`` of this
        table, see :meth:`admission_ticket`, is then in the line for it.
        """

    def admission_ticket(self, timeout_us: int) -> AdmissionTicket | None:
        """A ticket for one request that was refused, if there is a line: apply it with the ticket,
        and again when that is decided. Leave the line in the end, whatever happened."""

    def read_row(
        self, row: bytes, spec: CellSpec, visibility: Visibility = Visibility.DURABLE
    ) -> tuple[RowCells | None, int]:
        """The cells of one row and the txn they were read at; ``None`` if the row has none."""

    def read_rows(self, spec: ReadSpec) -> tuple[pa.RecordBatch, int]:
        """The cells of many rows, rows in key order each once, and the txn of the read."""

    def scan(self, spec: ScanSpec) -> CellStream: ...

    def durable_txn(self) -> int:
        """What a read without ``at`` is read at."""

    def tablets(self) -> tuple[TabletInfo, ...]: ...

    def sample_keys(self, count: int) -> Sequence[bytes]:
        """Row keys that cut the table into parts of about equal size."""

    def split(self, row: bytes) -> None:
        """Make ``row`` the first row of a tablet; nothing to do if it is already."""

    def join(self, row: bytes) -> None:
        """Remove the border at ``row``; ``InvalidArgument`` if there is none."""

    def flush(self) -> None:
        """Write everything in memory to fragments."""

    def compact(self, rows: RowRange = EVERYTHING) -> None:
        """Rewrite all fragments of the tablets that overlap ``rows``, one for each group."""

    def truncate(self, rows: RowRange = EVERYTHING) -> None:
        """Remove all cells of ``rows``, and the history of the tablets that they are in."""

    def pin(self, at: int | None, ttl_us: int, name: str | None = None) -> ReadPlan:
        """Hold the table at a txn (now: ``None``) and say which files it consists of then.

        The plan is complete without this process: what is only in memory is written to files that
        live as long as the pin. It ends ``ttl_us`` after it was made or last renewed.
        ``SnapshotTooOld`` when history does not reach back so far.
        """

    def renew_pin(self, lease: str, ttl_us: int) -> int:
        """Let a pin live on for ``ttl_us`` from now; when it ends. ``NotFound`` if it has ended."""

    def release_pin(self, lease: str) -> None:
        """End a pin: its files may go. Idempotent."""

    def look_for_changes(self, since: int) -> tuple[int, bool]:
        """Up to which txn changes can be told now, and whether there may be any after ``since``."""

    def pin_changes(self, since: int, until: int | None, ttl_us: int) -> ReadPlan:
        """Hold the changes after ``since`` up to ``until`` (now: ``None``), as :meth:`pin` does.

        The plan answers reads at every txn from ``since`` on; from 0 on, as far back as history
        reaches; that of an empty range holds history alone. ``SnapshotTooOld`` when some of the
        changes may be forgotten.
        """

    def begin_import(self, job: str, ttl_us: int) -> ImportTicket:
        """Begin a job, or a new attempt at it: where its files go and how they are called.

        An earlier attempt can publish nothing any more. If the job was committed already, the
        ticket says with which txn. It is given up ``ttl_us`` after it was begun or last renewed.
        """

    def renew_import(self, job: str, token: str, ttl_us: int) -> int:
        """Let a job live on for ``ttl_us`` from now; when it ends."""

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
        """Make files part of the table, all at one txn, which is returned. Idempotent.

        ``columns`` are those that the files were made for: ``Conflict``, and nothing happens, if
        the table was altered so that it would read them as something else.

        If it ``replaces``, all that was there when it was asked goes in the same moment, and its
        history; there is no moment at which anybody sees neither, or both.

        With a ``write`` the job happens unless its writer has done that write or a later one in
        whatever form, and is answered with the txn of that; nobody remembers the job itself.
        """

    def abort_import(self, job: str, token: str) -> None:
        """Give up an attempt; nothing of it is ever seen. ``Conflict`` if it was committed."""

    def forget_import(self, job: str, token: str) -> None:
        """Give up an attempt that nobody will ask for again, and forget the job. Idempotent."""

    def apply_numbered(
        self,
        write: NumberedWrite,
        mutations: pa.RecordBatch,
        *,
        ticket: AdmissionTicket | None = None,
    ) -> int:
        """Commit a sorted batch at one txn, which is returned, with the number of its writer.

        It happens unless the writer has done that write or a later one: then it is answered with
        the txn of that. ``Throttled`` when a budget is full; see :meth:`apply`.
        """

    def last_numbered(self, writer: str) -> LastWrite | None:
        """The last numbered write of a writer, if it is remembered."""

    def plan_compaction(self, rows: RowRange, bytes_max: int, ttl_us: int) -> CompactionWork:
        """What somebody else could compact of the tablets that overlap ``rows``, up to so much.

        The files of it stay while its lease lives, which is renewed and released like a pin.
        """

    def publish_compaction(
        self, job: str, token: str, units: Sequence[CompactedUnit]
    ) -> tuple[UnitOutcome, ...]:
        """Show what units have become, in each tablet that still shows all that was merged.

        Their files are of an attempt at a job, begun like an import and still under way.
        Idempotent.
        """

    def snapshot(self, name: str) -> int:
        """Keep the table as it is now readable under ``name``; returns its txn."""

    def drop_snapshot(self, name: str) -> None: ...

    def snapshots(self) -> dict[str, int]:
        """Names and txns."""


class Backend(Protocol):
    """A whole database."""

    def tables(self, *, dropped: bool = False) -> tuple[TableInfo, ...]: ...

    def table(self, name: str) -> TableBackend:
        """``TableNotFound`` with the nearest names if there is none."""

    # Changes of the catalog wait for each other and for work on a table's files, ``timeout_us`` at
    # most: then ``DeadlineExceeded``, and nothing was changed. What has begun is finished.

    def create_table(
        self,
        name: str,
        schema: Schema,
        splits: Sequence[bytes] = (),
        *,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> TableBackend: ...

    def alter_table(
        self, name: str, schema: Schema, *, timeout_us: int = TIMEOUT_US_DEFAULT
    ) -> TableBackend:
        """Replace the schema; ``Conflict`` if ``schema`` was made from an older version."""

    def drop_table(
        self,
        name: str,
        *,
        keep_us: int = KEPT_US_DEFAULT,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> None:
        """Serve a table no longer; for ``keep_us`` it can come back, then it is deleted."""

    def undrop_table(self, name: str, *, timeout_us: int = TIMEOUT_US_DEFAULT) -> TableBackend: ...

    def rename_table(
        self, name: str, new_name: str, *, timeout_us: int = TIMEOUT_US_DEFAULT
    ) -> TableBackend: ...

    def clone_table(
        self,
        name: str,
        new_name: str,
        *,
        table_id: str | None = None,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> TableBackend:
        """A writable copy that shares all files with the original.

        With its ``table_id`` the original is meant whatever it is called by now, and no other
        table that has its name.
        """

    def status(self) -> dict[str, Any]:
        """Memory, log, cache, sessions and workers in numbers."""

    def operations(self) -> tuple[Operation, ...]:
        """What the owner of the tables does now, and has done lately, in the order of beginning."""

    def close(self) -> None:
        """Finish what is under way, make everything durable, let go of the directory."""
