"""A store in another process, behind the same interface as an embedded one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from stele.client.backend import KEPT_US_DEFAULT, TableInfo
from stele.client.remote_link import RemoteLink
from stele.client.remote_reads import PointReader
from stele.client.remote_table import Described, RemoteTable
from stele.client.remote_writes import WriteQueue
from stele.client.waiting import ANSWER_US, TIMEOUT_US_DEFAULT
from stele.model.operations import Operation
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json, schema_to_json
from stele.protocol import tables as protocol
from stele.rpc.service import Req, Resp, Unary


class RemoteBackend:
    """Implements ``Backend``. Threads share it."""

    def __init__(self, link: RemoteLink) -> None:
        self._link = link
        self._reader = PointReader(link)
        self._writes = WriteQueue(link)
        self._tables: dict[str, RemoteTable] = {}
        self._lock = threading.Lock()

    def tables(self, *, dropped: bool = False) -> tuple[TableInfo, ...]:
        """The tables of the catalog."""
        found = self._ask(protocol.LIST, protocol.ListTables(dropped)).tables
        return tuple(
            TableInfo(one.id, one.name, schema_from_json(one.schema), one.dropped) for one in found
        )

    def table(self, name: str) -> RemoteTable:
        """An existing table."""
        return self._known(self._ask(protocol.OPEN, protocol.TableName(name)))

    def create_table(
        self,
        name: str,
        schema: Schema,
        splits: Sequence[bytes] = (),
        *,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> RemoteTable:
        """A new table."""
        request = protocol.NewSchema(name, schema_to_json(schema), tuple(splits))
        return self._known(self._change(protocol.CREATE, request, timeout_us))

    def alter_table(
        self, name: str, schema: Schema, *, timeout_us: int = TIMEOUT_US_DEFAULT
    ) -> RemoteTable:
        """Replace a schema."""
        request = protocol.NewSchema(name, schema_to_json(schema))
        return self._known(self._change(protocol.ALTER, request, timeout_us))

    def drop_table(
        self,
        name: str,
        *,
        keep_us: int = KEPT_US_DEFAULT,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> None:
        """Stop serving a table."""
        self._change(protocol.DROP, protocol.DroppedTable(name, keep_us), timeout_us)

    def undrop_table(self, name: str, *, timeout_us: int = TIMEOUT_US_DEFAULT) -> RemoteTable:
        """Bring a table back."""
        return self._known(self._change(protocol.UNDROP, protocol.TableName(name), timeout_us))

    def rename_table(
        self, name: str, new_name: str, *, timeout_us: int = TIMEOUT_US_DEFAULT
    ) -> RemoteTable:
        """Call a table by another name."""
        request = protocol.NewName(name, new_name)
        return self._known(self._change(protocol.RENAME, request, timeout_us))

    def clone_table(
        self,
        name: str,
        new_name: str,
        *,
        table_id: str | None = None,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> RemoteTable:
        """A writable copy."""
        request = protocol.NewName(name, new_name, table_id)
        return self._known(self._change(protocol.CLONE, request, timeout_us))

    def status(self) -> dict[str, Any]:
        """What the store says of itself."""
        return self._ask(protocol.STATUS, protocol.Nothing()).values

    def operations(self) -> tuple[Operation, ...]:
        """What the owner does and has done."""
        return self._ask(protocol.OPERATIONS, protocol.Nothing()).operations

    def close(self) -> None:
        """Wait for what is on its way, then let go of the connection; the store stays open."""
        if self._link.thread.is_usable:
            self._link.thread.run(self._writes.settled())
        self._link.close()

    def _known(self, description: protocol.TableDescription) -> RemoteTable:
        """The one object of a table in this process."""
        with self._lock:
            table = self._tables.get(description.id)
            if table is None:
                table = RemoteTable(self._link, self._reader, self._writes, Described(description))
                self._tables[description.id] = table
            else:
                table.described.learn(description)
        return table

    def _ask(self, method: Unary[Req, Resp], request: Req) -> Resp:
        return self._link.call(method, request, TIMEOUT_US_DEFAULT, repeat=True).message

    def _change(self, method: Unary[Req, Resp], request: Req, timeout_us: int) -> Resp:
        """The owner gives up by itself when the time is over, and says that nothing was changed;
        the call waits a little longer to hear it."""
        return self._link.call(method, request, timeout_us + ANSWER_US, repeat=False).message
