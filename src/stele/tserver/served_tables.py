"""The tables of a backend by their ids, which is how requests name them."""

from __future__ import annotations

from stele.client.backend import Backend, TableBackend
from stele.errors import TableNotFound


class ServedTables:
    """Remembers the tables that were asked for. Threads share it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tables: dict[str, TableBackend] = {}

    def remember(self, table: TableBackend) -> None:
        """A table as the catalog gives it now."""
        self._tables[table.id] = table

    def by_id(self, table_id: str) -> TableBackend:
        """A table by its id; the first time this asks the catalog."""
        table = self._tables.get(table_id)
        if table is not None:
            return table
        for info in self._backend.tables():
            if info.id == table_id:
                return self._tables.setdefault(table_id, self._backend.table(info.name))
        for info in self._backend.tables(dropped=True):
            if info.id == table_id:
                raise TableNotFound(f"table {info.name!r} was dropped since it was opened")
        raise TableNotFound(f"no table has the id {table_id!r}: it was dropped and is forgotten")

    def schema_version(self, table_id: str) -> int:
        """Under which version of the schema an answer is given; 0 if the table was dropped."""
        try:
            return self.by_id(table_id).schema.version
        except TableNotFound:
            return 0
