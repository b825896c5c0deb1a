"""One table of a store in another process: implements ``TableBackend``.

What was learnt of the table, its name and schema, is renewed in the background as soon as an answer
shows that the schema has moved on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from stele.client.backend import TabletInfo, Visibility
from stele.client.remote_link import RemoteLink
from stele.client.remote_reads import PointReader
from stele.client.remote_scan import RemoteScan
from stele.client.remote_writes import OutgoingWrite, WriteQueue
from stele.client.waiting import ANSWER_US, OPERATION_US_DEFAULT, TIMEOUT_US_DEFAULT
from stele.errors import InvalidCells, SteleError, UnsupportedFormat
from stele.model.arrow_ipc import decode_ipc, encode_ipc
from stele.model.cells import CELLS, Cell
from stele.model.mutations import MutationBatch
from stele.model.numbered_writes import LastWrite, NumberedWrite
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.model.row import PackedCell
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json
from stele.protocol import table_jobs as jobs
from stele.protocol import tables as protocol
from stele.protocol.table_compactions import (
    PLAN_COMPACTION,
    PUBLISH_COMPACTION,
    CompactedUnits,
    PlanCompaction,
)
from stele.protocol.table_mutations import encode_mutations
from stele.rpc.service import Req, Resp, Unary
from stele.storage.admission_line import AdmissionTicket
from stele.storage.compaction_work import (
    CompactedUnit,
    CompactionWork,
    UnitOutcome,
    decode_work,
    encode_compacted,
)
from stele.storage.fragment_format import FragmentInfo
from stele.storage.import_columns import ImportColumns, encode_columns
from stele.storage.import_files import ImportTicket, encode_files
from stele.storage.read_plan import ReadPlan, decode_plan

NEWEST = CellSpec()


@dataclass(frozen=True, slots=True)
class ReceivedCells:
    """``PackedCells`` of one row, as they came."""

    row: bytes
    packed: tuple[PackedCell, ...]

    def __iter__(self) -> Iterator[PackedCell]:
        return iter(self.packed)

    def cells(self) -> list[Cell]:
        """The cells as plain values."""
        return [
            Cell(self.row, family, qualifier, timestamp, value, txn=txn)
            for family, qualifier, timestamp, txn, value in self.packed
        ]


class Described:
    """What is known of a table, shared by all that use it."""

    def __init__(self, description: protocol.TableDescription) -> None:
        self.id = description.id
        self.learn(description)

    def learn(self, description: protocol.TableDescription) -> None:
        """A description has come. The schema object stays the same while it says the same."""
        self.name = description.name
        schema = schema_from_json(description.schema)
        if getattr(self, "schema", None) != schema:
            self.schema: Schema = schema


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """Threads share it."""

    link: RemoteLink
    reader: PointReader
    writes: WriteQueue
    described: Described
    timeout_us: int | None = None

    @property
    def id(self) -> str:
        """What tells the table apart for ever."""
        return self.described.id

    @property
    def name(self) -> str:
        """The name it had when it was last described."""
        return self.described.name

    @property
    def schema(self) -> Schema:
        """The schema of the last answer."""
        return self.described.schema

    def within(self, timeout_us: int) -> Self:
        """The same table, for calls that may take so long."""
        return replace(self, timeout_us=timeout_us)

    # ---- cells -----------------------------------------------------------------------------

    def apply(
        self,
        mutations: MutationBatch | pa.RecordBatch,
        *,
        max_txn: int | None = None,
        identity: tuple[bytes, int] | None = None,
        is_first: bool = False,
        ticket: AdmissionTicket | None = None,
    ) -> OutgoingWrite:
        """Send a commit. It has an identity of its own: nobody needs to give one.

        With ``max_txn`` the answer is waited for, so that a conflict is raised here.
        """
        assert identity is None, "writes are recognised by the names this client gives them"
        assert not is_first, "whether it was sent before is known here alone"
        assert ticket is None, "the store's line is in the other process"
        if not (mutations if isinstance(mutations, MutationBatch) else mutations.num_rows):
            raise InvalidCells("a batch has at least one mutation")
        records, attachment = encode_mutations(mutations)
        timeout_us = self._point_us()
        write = OutgoingWrite(
            self.id,
            records,
            attachment,
            max_txn,
            self.link.world.clock.monotonic_us() + timeout_us,
            lambda answer: self._notice(answer.schema_version),
        )
        self.writes.submit(write)
        if max_txn is not None:
            write.wait(timeout_us)
        return write

    def admission_ticket(self, timeout_us: int) -> None:
        """None: the server stands in the line for its clients."""

    def read_row(
        self, row: bytes, spec: CellSpec, visibility: Visibility = Visibility.DURABLE
    ) -> tuple[ReceivedCells | None, int]:
        """The cells of one row, which may travel with the reads of other threads."""
        latest = visibility is Visibility.LATEST
        read = protocol.PointRead(self.id, row, latest, None if spec == NEWEST else spec)
        answer = self.reader.read(read, self._point_us())
        self._notice(answer.schema_version)
        cells = None if answer.cells is None else ReceivedCells(row, answer.cells)
        return cells, answer.txn

    def read_rows(self, spec: ReadSpec) -> tuple[pa.RecordBatch, int]:
        """The cells of many rows."""
        request = protocol.ReadRows(self.id, spec)
        reply = self.link.call(protocol.READ_ROWS, request, self._point_us(), repeat=True)
        self._notice(reply.message.schema_version)
        if len(reply.attachments) != 1:
            raise UnsupportedFormat("the answer to a read of rows has no cells")
        cells = decode_ipc(memoryview(reply.attachments[0]), schemas=(CELLS,))
        return cells, reply.message.txn

    def scan(self, spec: ScanSpec) -> RemoteScan:
        """Begin a scan; without a timeout it lasts as long as it is read."""
        scan = RemoteScan(self.link, protocol.ScanRows(self.id, spec), self.timeout_us)
        self._notice(scan.schema_version)
        return scan

    def durable_txn(self) -> int:
        """What a read without ``at`` is read at."""
        return self._ask(protocol.DURABLE_TXN, protocol.TableId(self.id)).txn

    # ---- tablets, files, snapshots ---------------------------------------------------------

    def tablets(self) -> tuple[TabletInfo, ...]:
        """The tablets, in row order."""
        found = self._ask(protocol.TABLETS, protocol.TableId(self.id)).tablets
        return tuple(
            TabletInfo(one.id, one.rows, one.state, one.fragments, one.size_bytes, one.details)
            for one in found
        )

    def sample_keys(self, count: int) -> Sequence[bytes]:
        """Row keys that cut the table into parts of about equal size."""
        return self._ask(protocol.SAMPLE_KEYS, protocol.SampleKeys(self.id, count)).keys

    def split(self, row: bytes) -> None:
        """Make ``row`` the first row of a tablet."""
        self._change(protocol.SPLIT, protocol.TableRow(self.id, row), repeat=True)

    def join(self, row: bytes) -> None:
        """Remove the border at ``row``."""
        self._change(protocol.JOIN, protocol.TableRow(self.id, row))

    def flush(self) -> None:
        """Write everything in memory to fragments."""
        self._operate(protocol.FLUSH, protocol.TableId(self.id), repeat=True)

    def compact(self, rows: RowRange = EVERYTHING) -> None:
        """Rewrite the fragments of tablets."""
        self._operate(protocol.COMPACT, protocol.TableRange(self.id, rows), repeat=True)

    def truncate(self, rows: RowRange = EVERYTHING) -> None:
        """Remove all cells of ``rows``."""
        self._operate(protocol.TRUNCATE, protocol.TableRange(self.id, rows))

    def snapshot(self, name: str) -> int:
        """Keep the table as it is now under ``name``."""
        return self._change(protocol.SNAPSHOT, protocol.SnapshotName(self.id, name)).txn

    def drop_snapshot(self, name: str) -> None:
        """Let go of a snapshot."""
        self._change(protocol.DROP_SNAPSHOT, protocol.SnapshotName(self.id, name))

    def snapshots(self) -> dict[str, int]:
        """Names and txns."""
        return self._ask(protocol.SNAPSHOTS, protocol.TableId(self.id)).txns

    def pin(self, at: int | None, ttl_us: int, name: str | None = None) -> ReadPlan:
        """Hold the table at a txn and learn of which files it consists then."""
        request = jobs.PinTable(self.id, ttl_us, at, name)
        return decode_plan(self._operate(jobs.PIN, request).plan)

    def renew_pin(self, lease: str, ttl_us: int) -> int:
        """Let a pin live on; when it ends."""
        return self._ask(jobs.RENEW_PIN, jobs.PinName(self.id, lease, ttl_us)).expires_us

    def release_pin(self, lease: str) -> None:
        """End a pin."""
        self._ask(jobs.RELEASE_PIN, jobs.PinName(self.id, lease))

    def look_for_changes(self, since: int) -> tuple[int, bool]:
        """Up to which txn changes can be told, and whether there may be any after ``since``."""
        found = self._ask(jobs.LOOK_FOR_CHANGES, jobs.TableTxn(self.id, since))
        return found.txn, found.changed

    def pin_changes(self, since: int, until: int | None, ttl_us: int) -> ReadPlan:
        """Hold the changes of a range and learn in which files they are."""
        request = jobs.PinChanges(self.id, since, ttl_us, until)
        return decode_plan(self._operate(jobs.PIN_CHANGES, request).plan)

    def plan_compaction(self, rows: RowRange, bytes_max: int, ttl_us: int) -> CompactionWork:
        """What could be compacted here instead of there."""
        request = PlanCompaction(self.id, rows, bytes_max, ttl_us)
        return decode_work(self._operate(PLAN_COMPACTION, request).work)

    def publish_compaction(
        self, job: str, token: str, units: Sequence[CompactedUnit]
    ) -> tuple[UnitOutcome, ...]:
        """Let the owner show what units have become."""
        request = CompactedUnits(self.id, job, token, encode_compacted(units))
        return self._operate(PUBLISH_COMPACTION, request, repeat=True).outcomes

    def begin_import(self, job: str, ttl_us: int) -> ImportTicket:
        """Begin a job. Asked twice, the second attempt is the one that counts."""
        request = jobs.BeginImport(self.id, job, ttl_us)
        begun = self._operate(jobs.BEGIN_IMPORT, request, repeat=True)
        return ImportTicket(
            job=begun.job,
            token=begun.token,
            location=begun.location,
            table=self.id,
            timestamp=begun.timestamp,
            txn=begun.txn,
        )

    def renew_import(self, job: str, token: str, ttl_us: int) -> int:
        """Let a job live on; when it ends."""
        request = jobs.ImportName(self.id, job, token, ttl_us)
        return self._ask(jobs.RENEW_IMPORT, request).expires_us

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
        """Make files part of the table; the txn."""
        writer, sequence = (None, 0) if write is None else write
        request = jobs.ImportFiles(
            self.id,
            job,
            token,
            encode_files(files),
            writer,
            sequence,
            replaces,
            b"" if columns is None else encode_columns(columns),
        )
        return self._operate(jobs.COMMIT_IMPORT, request, repeat=True).txn

    def abort_import(self, job: str, token: str) -> None:
        """Give up an attempt."""
        request = jobs.ImportName(self.id, job, token)
        self._operate(jobs.ABORT_IMPORT, request, repeat=True)

    def forget_import(self, job: str, token: str) -> None:
        """Give up an attempt that nobody will ask for again."""
        request = jobs.ImportName(self.id, job, token)
        self._operate(jobs.FORGET_IMPORT, request, repeat=True)

    # ---- numbered writes -------------------------------------------------------------------

    def apply_numbered(
        self,
        write: NumberedWrite,
        mutations: pa.RecordBatch,
        *,
        ticket: AdmissionTicket | None = None,
    ) -> int:
        """Commit a batch with the number of its writer, which makes asking twice harmless."""
        assert ticket is None, "the store's line is in the other process"
        attachment = memoryview(encode_ipc(mutations))
        request = jobs.NumberedBatch(self.id, *write)
        reply = self.link.call(
            jobs.APPLY_NUMBERED,
            request,
            self._point_us(),
            repeat=True,
            attachments=(attachment,),
        )
        return reply.message.txn

    def last_numbered(self, writer: str) -> LastWrite | None:
        """The last numbered write of a writer."""
        last = self._ask(jobs.LAST_NUMBERED, jobs.WriterName(self.id, writer))
        return None if last.sequence is None else LastWrite(last.sequence, last.txn)

    # ---- mechanism -------------------------------------------------------------------------

    def _point_us(self) -> int:
        return TIMEOUT_US_DEFAULT if self.timeout_us is None else self.timeout_us

    def _ask(self, method: Unary[Req, Resp], request: Req) -> Resp:
        """A look, which may be taken twice."""
        return self.link.call(method, request, self._point_us(), repeat=True).message

    def _change(self, method: Unary[Req, Resp], request: Req, *, repeat: bool = False) -> Resp:
        """Something that waits for others there, and once only unless ``repeat``.

        The owner gives up by itself when the time is over, and says what became of it.
        """
        wait_us = self._point_us() + ANSWER_US
        return self.link.call(method, request, wait_us, repeat=repeat).message

    def _operate(self, method: Unary[Req, Resp], request: Req, *, repeat: bool = False) -> Resp:
        """The same, for what may take long."""
        timeout_us = OPERATION_US_DEFAULT if self.timeout_us is None else self.timeout_us
        return self.link.call(method, request, timeout_us + ANSWER_US, repeat=repeat).message

    def _notice(self, schema_version: int) -> None:
        """An answer was given under this version of the schema: is it the one we know?"""
        if schema_version and schema_version != self.described.schema.version:
            self.link.post(lambda: renew(self.link, self.described))


def renew(link: RemoteLink, described: Described) -> None:
    """Ask for a description again, in the loop; without one the old one stays."""

    async def ask() -> None:
        request = protocol.TableId(described.id)
        try:
            reply = await link.request(protocol.DESCRIBE, request, TIMEOUT_US_DEFAULT, repeat=True)
            described.learn(reply.message)
        except SteleError:
            return

    link.spawn(ask())
