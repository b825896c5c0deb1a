"""The part of the table service that is about the catalog: which tables there are."""

from __future__ import annotations

from collections.abc import Callable

from stele.client.aio_waiting import Workers
from stele.client.backend import Backend, TableBackend
from stele.model.schema_json import schema_from_json, schema_to_json
from stele.protocol import tables as protocol
from stele.rpc.service import Binding, Context
from stele.tserver.deadlines import left_us
from stele.tserver.served_tables import ServedTables


class CatalogMethods:
    """Every change of the catalog waits for the disk, so all of it runs in threads."""

    def __init__(self, backend: Backend, served: ServedTables, workers: Workers) -> None:
        self._backend = backend
        self._served = served
        self._workers = workers

    def bindings(self) -> tuple[Binding, ...]:
        """The methods of the service that concern whole tables."""
        return (
            protocol.LIST.handled_by(self._list),
            protocol.OPEN.handled_by(self._open),
            protocol.CREATE.handled_by(self._create),
            protocol.ALTER.handled_by(self._alter),
            protocol.DROP.handled_by(self._drop),
            protocol.UNDROP.handled_by(self._undrop),
            protocol.RENAME.handled_by(self._rename),
            protocol.CLONE.handled_by(self._clone),
            protocol.STATUS.handled_by(self._status),
            protocol.DESCRIBE.handled_by(self._describe_id),
            protocol.OPERATIONS.handled_by(self._operations),
        )

    async def _list(
        self, _context: Context, request: protocol.ListTables
    ) -> protocol.TableDescriptions:
        found = await self._workers.run(self._backend.tables, dropped=request.dropped)
        return protocol.TableDescriptions(
            tuple(
                protocol.TableDescription(
                    info.id, info.name, schema_to_json(info.schema), info.dropped
                )
                for info in found
            )
        )

    async def _open(
        self, _context: Context, request: protocol.TableName
    ) -> protocol.TableDescription:
        return await self._described(lambda: self._backend.table(request.name))

    async def _create(
        self, context: Context, request: protocol.NewSchema
    ) -> protocol.TableDescription:
        schema = schema_from_json(request.schema)
        wait_us = left_us(context)
        return await self._described(
            lambda: self._backend.create_table(
                request.name, schema, request.splits, timeout_us=wait_us
            )
        )

    async def _alter(
        self, context: Context, request: protocol.NewSchema
    ) -> protocol.TableDescription:
        schema = schema_from_json(request.schema)
        wait_us = left_us(context)
        return await self._described(
            lambda: self._backend.alter_table(request.name, schema, timeout_us=wait_us)
        )

    async def _drop(self, context: Context, request: protocol.DroppedTable) -> protocol.Nothing:
        wait_us = left_us(context)
        drop = self._backend.drop_table
        await self._workers.run(drop, request.name, keep_us=request.keep_us, timeout_us=wait_us)
        return protocol.Nothing()

    async def _undrop(
        self, context: Context, request: protocol.TableName
    ) -> protocol.TableDescription:
        wait_us = left_us(context)
        return await self._described(
            lambda: self._backend.undrop_table(request.name, timeout_us=wait_us)
        )

    async def _rename(
        self, context: Context, request: protocol.NewName
    ) -> protocol.TableDescription:
        wait_us = left_us(context)
        return await self._described(
            lambda: self._backend.rename_table(request.name, request.new_name, timeout_us=wait_us)
        )

    async def _clone(
        self, context: Context, request: protocol.NewName
    ) -> protocol.TableDescription:
        wait_us = left_us(context)
        return await self._described(
            lambda: self._backend.clone_table(
                request.name, request.new_name, table_id=request.table, timeout_us=wait_us
            )
        )

    async def _status(self, _context: Context, _request: protocol.Nothing) -> protocol.StoreStatus:
        return protocol.StoreStatus(await self._workers.run(self._backend.status))

    async def _operations(
        self, _context: Context, _request: protocol.Nothing
    ) -> protocol.Operations:
        return protocol.Operations(await self._workers.run(self._backend.operations))

    async def _describe_id(
        self, _context: Context, request: protocol.TableId
    ) -> protocol.TableDescription:
        return await self._workers.run(lambda: _description(self._served.by_id(request.table)))

    async def _described(self, find: Callable[[], TableBackend]) -> protocol.TableDescription:
        """The description of a table that a change of the catalog, or a look into it, gives."""
        table = await self._workers.run(find)
        self._served.remember(table)
        return _description(table)


def _description(table: TableBackend) -> protocol.TableDescription:
    return protocol.TableDescription(table.id, table.name, schema_to_json(table.schema))
