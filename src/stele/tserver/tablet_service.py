"""The part of the table service that operators use: tablets, files, snapshots, pins, imports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stele.client.aio_waiting import Workers
from stele.client.backend import TableBackend
from stele.client.waiting import RETRIED
from stele.env.ports import Random
from stele.errors import InvalidArgument
from stele.model.numbered_writes import NumberedWrite
from stele.protocol import table_jobs as jobs
from stele.protocol import tables as protocol
from stele.protocol.table_compactions import (
    PLAN_COMPACTION,
    PUBLISH_COMPACTION,
    CompactedUnits,
    CompactionPlanned,
    CompactionPublished,
    PlanCompaction,
)
from stele.protocol.table_mutations import decode_attachment
from stele.rpc.service import Binding, Context
from stele.storage.admission_line import AdmissionTicket
from stele.storage.compaction_work import UnitOutcome, decode_compacted, encode_work
from stele.storage.import_columns import decode_columns
from stele.storage.import_files import decode_files
from stele.storage.read_plan import encode_plan
from stele.tserver.deadlines import left_us
from stele.tserver.patience import Patience
from stele.tserver.served_tables import ServedTables

T = TypeVar("T")


class TabletMethods:
    """What takes long here waits for other threads' work: it needs a thread, not a processor."""

    def __init__(self, served: ServedTables, workers: Workers, random: Random) -> None:
        self._served = served
        self._workers = workers
        self._random = random

    def bindings(self) -> tuple[Binding, ...]:
        """The methods of the service that concern tablets, files, snapshots, pins and imports."""
        return (
            protocol.TABLETS.handled_by(self._tablets),
            protocol.SAMPLE_KEYS.handled_by(self._sample_keys),
            protocol.SPLIT.handled_by(self._split),
            protocol.JOIN.handled_by(self._join),
            protocol.FLUSH.handled_by(self._flush),
            protocol.COMPACT.handled_by(self._compact),
            protocol.TRUNCATE.handled_by(self._truncate),
            protocol.SNAPSHOT.handled_by(self._snapshot),
            protocol.DROP_SNAPSHOT.handled_by(self._drop_snapshot),
            protocol.SNAPSHOTS.handled_by(self._snapshots),
            jobs.PIN.handled_by(self._pin),
            jobs.RENEW_PIN.handled_by(self._renew_pin),
            jobs.RELEASE_PIN.handled_by(self._release_pin),
            jobs.LOOK_FOR_CHANGES.handled_by(self._look_for_changes),
            jobs.PIN_CHANGES.handled_by(self._pin_changes),
            PLAN_COMPACTION.handled_by(self._plan_compaction),
            PUBLISH_COMPACTION.handled_by(self._publish_compaction),
            jobs.BEGIN_IMPORT.handled_by(self._begin_import),
            jobs.RENEW_IMPORT.handled_by(self._renew_import),
            jobs.COMMIT_IMPORT.handled_by(self._commit_import),
            jobs.ABORT_IMPORT.handled_by(self._abort_import),
            jobs.FORGET_IMPORT.handled_by(self._forget_import),
            jobs.APPLY_NUMBERED.handled_by(self._apply_numbered),
            jobs.LAST_NUMBERED.handled_by(self._last_numbered),
        )

    async def _on_table(self, table_id: str, work: Callable[[TableBackend], T]) -> T:
        return await self._workers.run(lambda: work(self._served.by_id(table_id)))

    async def _in_time(
        self, context: Context, table_id: str, work: Callable[[TableBackend], T]
    ) -> T:
        """The same, for what ends by itself before its caller gives up."""
        wait_us = left_us(context)
        return await self._on_table(table_id, lambda table: work(table.within(wait_us)))

    async def _tablets(
        self, context: Context, request: protocol.TableId
    ) -> protocol.TabletDescriptions:
        found = await self._in_time(context, request.table, lambda table: table.tablets())
        return protocol.TabletDescriptions(
            tuple(
                protocol.TabletDescription(
                    one.id, one.rows, one.state, one.fragments, one.size_bytes, one.details
                )
                for one in found
            )
        )

    async def _sample_keys(
        self, context: Context, request: protocol.SampleKeys
    ) -> protocol.RowKeys:
        keys = await self._in_time(
            context, request.table, lambda table: table.sample_keys(request.count)
        )
        return protocol.RowKeys(tuple(keys))

    async def _split(self, context: Context, request: protocol.TableRow) -> protocol.Nothing:
        await self._in_time(context, request.table, lambda table: table.split(request.row))
        return protocol.Nothing()

    async def _join(self, context: Context, request: protocol.TableRow) -> protocol.Nothing:
        await self._in_time(context, request.table, lambda table: table.join(request.row))
        return protocol.Nothing()

    async def _flush(self, context: Context, request: protocol.TableId) -> protocol.Nothing:
        await self._in_time(context, request.table, lambda table: table.flush())
        return protocol.Nothing()

    async def _compact(self, context: Context, request: protocol.TableRange) -> protocol.Nothing:
        await self._in_time(context, request.table, lambda table: table.compact(request.rows))
        return protocol.Nothing()

    async def _truncate(self, context: Context, request: protocol.TableRange) -> protocol.Nothing:
        await self._in_time(context, request.table, lambda table: table.truncate(request.rows))
        return protocol.Nothing()

    async def _snapshot(self, context: Context, request: protocol.SnapshotName) -> protocol.Txn:
        txn = await self._in_time(
            context, request.table, lambda table: table.snapshot(request.name)
        )
        return protocol.Txn(txn)

    async def _drop_snapshot(
        self, context: Context, request: protocol.SnapshotName
    ) -> protocol.Nothing:
        await self._in_time(context, request.table, lambda table: table.drop_snapshot(request.name))
        return protocol.Nothing()

    async def _snapshots(self, context: Context, request: protocol.TableId) -> protocol.Snapshots:
        return protocol.Snapshots(
            await self._in_time(context, request.table, lambda table: table.snapshots())
        )

    async def _pin(self, _context: Context, request: jobs.PinTable) -> jobs.PinnedPlan:
        def pin(table: TableBackend) -> bytes:
            return encode_plan(table.pin(request.at, request.ttl_us, request.name))

        return jobs.PinnedPlan(await self._on_table(request.table, pin))

    async def _renew_pin(self, _context: Context, request: jobs.PinName) -> jobs.PinEnd:
        return jobs.PinEnd(
            await self._on_table(
                request.table, lambda table: table.renew_pin(request.lease, request.ttl_us)
            )
        )

    async def _release_pin(self, _context: Context, request: jobs.PinName) -> protocol.Nothing:
        await self._on_table(request.table, lambda table: table.release_pin(request.lease))
        return protocol.Nothing()

    async def _look_for_changes(
        self, _context: Context, request: jobs.TableTxn
    ) -> jobs.ChangesFound:
        found = await self._on_table(
            request.table, lambda table: table.look_for_changes(request.txn)
        )
        return jobs.ChangesFound(*found)

    async def _pin_changes(self, _context: Context, request: jobs.PinChanges) -> jobs.PinnedPlan:
        def pin(table: TableBackend) -> bytes:
            return encode_plan(table.pin_changes(request.since, request.until, request.ttl_us))

        return jobs.PinnedPlan(await self._on_table(request.table, pin))

    async def _plan_compaction(
        self, _context: Context, request: PlanCompaction
    ) -> CompactionPlanned:
        def plan(table: TableBackend) -> bytes:
            return encode_work(
                table.plan_compaction(request.rows, request.bytes_max, request.ttl_us)
            )

        return CompactionPlanned(await self._on_table(request.table, plan))

    async def _publish_compaction(
        self, _context: Context, request: CompactedUnits
    ) -> CompactionPublished:
        def publish(table: TableBackend) -> tuple[UnitOutcome, ...]:
            units = decode_compacted(request.units)
            return table.publish_compaction(request.job, request.token, units)

        return CompactionPublished(await self._on_table(request.table, publish))

    async def _begin_import(self, _context: Context, request: jobs.BeginImport) -> jobs.ImportBegun:
        ticket = await self._on_table(
            request.table, lambda table: table.begin_import(request.job, request.ttl_us)
        )
        return jobs.ImportBegun(
            ticket.job, ticket.token, ticket.location, ticket.timestamp, ticket.txn
        )

    async def _renew_import(self, _context: Context, request: jobs.ImportName) -> jobs.PinEnd:
        def renew(table: TableBackend) -> int:
            return table.renew_import(request.job, request.token, request.ttl_us)

        return jobs.PinEnd(await self._on_table(request.table, renew))

    async def _commit_import(self, _context: Context, request: jobs.ImportFiles) -> protocol.Txn:
        def commit(table: TableBackend) -> int:
            writer, number = request.writer, request.sequence
            write = None if writer is None else NumberedWrite(writer, number)
            files = decode_files(request.files)
            return table.commit_import(
                request.job,
                request.token,
                files,
                write,
                replaces=request.replaces,
                columns=decode_columns(request.columns) if request.columns else None,
            )

        return protocol.Txn(await self._on_table(request.table, commit))

    async def _abort_import(self, _context: Context, request: jobs.ImportName) -> protocol.Nothing:
        await self._on_table(
            request.table, lambda table: table.abort_import(request.job, request.token)
        )
        return protocol.Nothing()

    async def _forget_import(self, _context: Context, request: jobs.ImportName) -> protocol.Nothing:
        await self._on_table(
            request.table, lambda table: table.forget_import(request.job, request.token)
        )
        return protocol.Nothing()

    async def _apply_numbered(self, context: Context, request: jobs.NumberedBatch) -> protocol.Txn:
        if len(context.attachments) != 1:
            raise InvalidArgument(
                f"a numbered write has one attachment, not {len(context.attachments)}"
            )

        def apply(ticket: AdmissionTicket | None = None) -> int:
            write = NumberedWrite(request.writer, request.sequence)
            mutations = decode_attachment(context.attachments[0])
            table = self._served.by_id(request.table)
            return table.apply_numbered(write, mutations, ticket=ticket)

        def new_ticket(timeout_us: int) -> AdmissionTicket | None:
            return self._served.by_id(request.table).admission_ticket(timeout_us)

        try:
            return protocol.Txn(await self._workers.run(apply))
        except RETRIED as error:
            refusal = error
        patience = Patience(context, self._random)
        return protocol.Txn(await patience.insist(self._workers, apply, new_ticket, refusal))

    async def _last_numbered(
        self, _context: Context, request: jobs.WriterName
    ) -> jobs.LastNumbered:
        last = await self._on_table(
            request.table, lambda table: table.last_numbered(request.writer)
        )
        return jobs.LastNumbered() if last is None else jobs.LastNumbered(*last)
