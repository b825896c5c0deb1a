"""The table service over any `Backend`: bindings for a `stele.rpc` server.

Nothing here blocks the loop: whatever may touch the disk or take longer than a look runs in
threads, which are few, so that one kind of work cannot starve the others: points, scans, and the
work of operators each have their own.

Writes of one client are made in the order it sent them. Where the store asks to wait, the writes
behind wait too, until the deadline of the frame; so a client may send on without waiting.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from stele.client.aio_waiting import Workers
from stele.client.backend import Backend, Pending, Visibility
from stele.client.waiting import RETRIED
from stele.env.ports import Random
from stele.errors import InvalidArgument, LimitExceeded, SteleError, Throttled
from stele.model.arrow_ipc import encode_ipc
from stele.model.predicates import CellSpec
from stele.model.row import unpacked
from stele.protocol import tables as protocol
from stele.protocol.table_mutations import decode_attachment, decode_records
from stele.rpc.framing import Buffer
from stele.rpc.limits import MIB
from stele.rpc.service import Binding, Context, Reply
from stele.rpc.wire_errors import encode_error
from stele.storage.admission_line import AdmissionTicket
from stele.tserver.catalog_service import CatalogMethods
from stele.tserver.client_sessions import ClientSessions
from stele.tserver.durability import decided
from stele.tserver.patience import Patience
from stele.tserver.request_order import RequestOrder
from stele.tserver.scan_feed import ScanFeed
from stele.tserver.served_tables import ServedTables
from stele.tserver.tablet_service import TabletMethods

POINT_THREADS: Final = 8
SCAN_THREADS: Final = 4
OPERATOR_THREADS: Final = 4
"""A flush or a compaction is waited for, not worked on, in such a thread."""

SCANS_MAX: Final = 512
"""Open scans of all clients; each holds a batch and a place in the history."""

ANSWER_BYTES_MAX: Final = 8 * MIB
"""Cells in the answer to one frame of point reads; what is beyond is asked for again."""

CELL_OVERHEAD_BYTES: Final = 32

NEWEST: Final = CellSpec()

Outcome = Pending | SteleError
"""What became of a write when it was handed to the store."""


class TableService:
    """Serves one backend. Belongs to the loop that its bindings are called in."""

    def __init__(self, backend: Backend, random: Random) -> None:
        self._random = random
        self._served = ServedTables(backend)
        self._points = Workers(POINT_THREADS)
        self._scans = Workers(SCAN_THREADS)
        self._operators = Workers(OPERATOR_THREADS)
        self._order = RequestOrder()
        self._sessions = ClientSessions()
        self._open_scans = 0
        self._catalog = CatalogMethods(backend, self._served, self._operators)
        self._tablets = TabletMethods(self._served, self._operators, random)

    def bindings(self) -> tuple[Binding, ...]:
        """All methods of the service."""
        return protocol.TABLES.bind(
            *self._catalog.bindings(), *self._cell_bindings(), *self._tablets.bindings()
        )

    def close(self) -> None:
        """Let what runs end, and take no more."""
        for workers in (self._points, self._scans, self._operators):
            workers.close()

    # ---- cells -----------------------------------------------------------------------------

    def _cell_bindings(self) -> Sequence[Binding]:
        return (
            protocol.READ_POINTS.handled_by(self._read_points),
            protocol.READ_ROWS.handled_by(self._read_rows),
            protocol.SCAN.handled_by(self._scan),
            protocol.WRITE.handled_by(self._write),
            protocol.DURABLE_TXN.handled_by(self._durable_txn),
        )

    async def _read_points(
        self, _context: Context, request: protocol.PointReads
    ) -> protocol.PointAnswers:
        _check_count(len(request.reads), protocol.READS_PER_FRAME_MAX, "reads")
        return await self._points.run(self._read_all, request.reads)

    def _read_all(self, reads: Sequence[protocol.PointRead]) -> protocol.PointAnswers:
        answers: list[protocol.PointAnswer] = []
        room = ANSWER_BYTES_MAX
        for read in reads:
            if room <= 0:
                answers.append(protocol.PointAnswer(later=True))
                continue
            answer = self._read_one(read)
            room -= sum(
                len(cell[1]) + len(cell[4]) + CELL_OVERHEAD_BYTES for cell in answer.cells or ()
            )
            answers.append(answer)
        return protocol.PointAnswers(tuple(answers))

    def _read_one(self, read: protocol.PointRead) -> protocol.PointAnswer:
        visibility = Visibility.LATEST if read.latest else Visibility.DURABLE
        try:
            table = self._served.by_id(read.table)
            found, txn = table.read_row(read.row, read.spec or NEWEST, visibility)
        except SteleError as error:
            return protocol.PointAnswer(error=encode_error(error))
        cells = None if found is None else tuple(unpacked(found))
        return protocol.PointAnswer(txn, self._served.schema_version(read.table), cells)

    async def _read_rows(
        self, _context: Context, request: protocol.ReadRows
    ) -> Reply[protocol.RowsRead]:
        def read() -> Reply[protocol.RowsRead]:
            table = self._served.by_id(request.table)
            cells, txn = table.read_rows(request.spec)
            answer = protocol.RowsRead(txn, self._served.schema_version(request.table))
            return Reply(answer, (memoryview(encode_ipc(cells)),))

        return await self._scans.run(read)

    async def _scan(
        self, _context: Context, request: protocol.ScanRows
    ) -> AsyncIterator[Reply[protocol.ScanPart]]:
        if self._open_scans >= SCANS_MAX:
            raise Throttled(f"{SCANS_MAX} scans are open")
        self._open_scans += 1
        try:
            table = await self._scans.run(self._served.by_id, request.table)
            stream = await self._scans.run(table.scan, request.spec)
        except BaseException:
            self._scan_ended()
            raise
        feed = ScanFeed(stream, self._scans, self._scan_ended)
        try:
            version = self._served.schema_version(request.table)
            yield Reply(protocol.ScanPart(feed.txn, version))
            while (batch := await feed.next_batch()) is not None:
                yield Reply(protocol.ScanPart(batch.txn), (batch.cells,))
            yield Reply(protocol.ScanPart(feed.txn, explain=feed.explain()))
        finally:
            feed.close()

    def _scan_ended(self) -> None:
        self._open_scans -= 1

    async def _write(self, context: Context, request: protocol.Writes) -> protocol.WriteAnswers:
        _check_count(len(request.writes), protocol.WRITES_PER_FRAME_MAX, "writes")
        attached = sum(write.records is None for write in request.writes)
        if attached != len(context.attachments):
            raise InvalidArgument(
                f"{attached} writes without records have {len(context.attachments)} attachments"
            )
        self._sessions.admit(request.client, request.session)
        outcomes = await self._order.run(request.client, lambda: self._apply_all(context, request))
        commits = [outcome for outcome in outcomes if not isinstance(outcome, SteleError)]
        errors = iter(await decided(commits))
        return protocol.WriteAnswers(
            tuple(
                self._answer(write.table, outcome, next(errors))
                if not isinstance(outcome, SteleError)
                else protocol.WriteAnswer(error=encode_error(outcome))
                for write, outcome in zip(request.writes, outcomes, strict=True)
            )
        )

    def _answer(
        self, table_id: str, commit: Pending, error: SteleError | None
    ) -> protocol.WriteAnswer:
        if error is not None:
            return protocol.WriteAnswer(error=encode_error(error))
        return protocol.WriteAnswer(commit.txn, self._served.schema_version(table_id))

    async def _apply_all(self, context: Context, request: protocol.Writes) -> list[Outcome]:
        """Hand all writes to the store in order, waiting where it asks for that."""
        outcomes: list[Outcome] = []
        patience = Patience(context, self._random)
        while True:
            refusal = await self._points.run(
                self._apply_some, request, context.attachments, outcomes
            )
            if refusal is None:
                return outcomes
            used = sum(write.records is None for write in request.writes[: len(outcomes)])
            write = request.writes[len(outcomes)]
            attachment = context.attachments[used] if write.records is None else None
            outcomes.append(
                await self._apply_refused(request.client, write, attachment, patience, refusal)
            )

    async def _apply_refused(
        self,
        client: bytes,
        write: protocol.Write,
        attachment: Buffer | None,
        patience: Patience,
        refusal: SteleError,
    ) -> Outcome:
        """Wait until a write that was refused can be made; those behind it wait too."""
        try:
            return await patience.insist(
                self._points,
                lambda ticket: self._apply_one(client, write, attachment, ticket),
                lambda timeout_us: self._served.by_id(write.table).admission_ticket(timeout_us),
                refusal,
            )
        except SteleError as error:
            return error

    def _apply_some(
        self,
        request: protocol.Writes,
        attachments: Sequence[Buffer],
        outcomes: list[Outcome],
    ) -> SteleError | None:
        """Apply what has no outcome yet, up to one that has to wait; its refusal."""
        done = len(outcomes)
        used = sum(write.records is None for write in request.writes[:done])
        rest = iter(attachments[used:])
        for write in request.writes[done:]:
            attachment = next(rest) if write.records is None else None
            try:
                outcomes.append(self._apply_one(request.client, write, attachment))
            except RETRIED as refusal:
                return refusal
            except SteleError as error:
                outcomes.append(error)
        return None

    def _apply_one(
        self,
        client: bytes,
        write: protocol.Write,
        attachment: Buffer | None,
        ticket: AdmissionTicket | None = None,
    ) -> Pending:
        table = self._served.by_id(write.table)
        if attachment is None:
            assert write.records is not None, "a write has records or an attachment"
            mutations = decode_records(write.records)
        else:
            mutations = decode_attachment(attachment)
        return table.apply(
            mutations,
            max_txn=write.max_txn,
            identity=(client + write.lane.to_bytes(2, "big"), write.sequence),
            is_first=not write.is_again,
            ticket=ticket,
        )

    async def _durable_txn(self, _context: Context, request: protocol.TableId) -> protocol.Txn:
        def ask() -> int:
            return self._served.by_id(request.table).durable_txn()

        return protocol.Txn(await self._points.run(ask))


def _check_count(count: int, count_max: int, what: str) -> None:
    if count > count_max:
        raise LimitExceeded(f"{count} {what} in one frame are over the limit of {count_max}")
