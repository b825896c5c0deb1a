"""An open database: its tables and what is done with whole tables."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from stele.client.backend import KEPT_DEFAULT, Backend, TableBackend, TableInfo
from stele.client.closing import Closing
from stele.client.encoder import Encoder, Key
from stele.client.handle import Handle
from stele.client.metastore import Metastore
from stele.client.table import Table
from stele.client.table_core import TableCore, listed, text
from stele.client.waiting import ClientWorld, Timeout, timeout_us
from stele.env.interrupts import Uninterrupted
from stele.errors import InvalidArgument
from stele.model.durations import parse_duration
from stele.model.operations import Operation
from stele.model.row import ColumnName
from stele.model.schema import Schema
from stele.model.schema_changes import alter, rename_column


class Database(Closing):
    """What ``stele.open`` gives. Threads share it; close it, or use it in a ``with``.

    >>> import stele, tempfile
    >>> with stele.open(tempfile.mkdtemp()) as db:
    ...     users = db.create_table("users", splits=[b"m"])
    ...     len(users.tablets()), db.tables()
    (2, ['users'])
    """

    def __init__(
        self,
        backend: Backend,
        world: ClientWorld,
        what: str = "the database",
        before_close: Callable[[], None] | None = None,
        metastore: Callable[[], Metastore] | None = None,
    ) -> None:
        self._backend = backend
        self._world = world
        self._before_close = before_close
        self._open_metastore = metastore
        self._metastore: Metastore | None = None
        self._handle = Handle(what)
        self._cores: dict[str, TableCore] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return repr(self._handle)

    def __reduce__(self) -> NoReturn:
        self._handle.__reduce__()

    # The catalog.

    def tables(self, *, dropped: bool = False) -> list[str]:
        """The names of all tables, or of those that were dropped and can come back."""
        return sorted(info.name for info in self.catalog(dropped=dropped))

    def catalog(self, *, dropped: bool = False) -> tuple[TableInfo, ...]:
        """The tables with their ids and schemas."""
        self._handle.check()
        return self._backend.tables(dropped=dropped)

    def table(self, name: str) -> Table:
        """An existing table."""
        self._handle.check()
        return self._table(self._backend.table(text("the name of a table", name)))

    # Changes of the catalog come one after the other, and wait for work on a table's files to end.
    # ``timeout`` bounds that: then ``DeadlineExceeded``, and nothing was changed. What has begun is
    # finished, also when it takes longer.

    def create_table(
        self,
        name: str,
        schema: Schema | None = None,
        splits: Iterable[Key] = (),
        *,
        timeout: Timeout = None,
    ) -> Table:
        """A new table, cut into tablets at the keys ``splits``.

        Without a schema it takes any family, in one locality group. ``timeout`` is how long to wait
        for other changes; ``DeadlineExceeded`` says that nothing was changed.
        """
        self._handle.check()
        chosen = _checked(Schema() if schema is None else schema)
        encoder = Encoder(chosen)
        borders = _borders(listed("splits", splits), encoder)
        named = text("the name of a table", name)
        wait_us = timeout_us(timeout)
        return self._table(self._backend.create_table(named, chosen, borders, timeout_us=wait_us))

    def alter_table(self, name: str, schema: Schema, *, timeout: Timeout = None) -> Table:
        """Give a table another schema; ``stele.model.schema_changes`` says what is allowed."""
        table = self.table(name)
        current = table.schema
        changed = alter(current, _checked(schema))
        if changed != current:
            self._backend.alter_table(name, changed, timeout_us=timeout_us(timeout))
        return table

    def rename_column(
        self, name: str, column: ColumnName, label: str, *, timeout: Timeout = None
    ) -> Table:
        """Let Arrow tables and DataFrames call a declared column ``label``.

        The cells stay where they are: reads and writes still name it ``family:qualifier``, and
        that as a label undoes the renaming.
        """
        table = self.table(name)
        changed = rename_column(table.schema, column, text("the name of a column", label))
        if changed != table.schema:
            self._backend.alter_table(name, changed, timeout_us=timeout_us(timeout))
        return table

    def drop_table(
        self, name: str, *, keep: str | datetime.timedelta = KEPT_DEFAULT, timeout: Timeout = None
    ) -> None:
        """Stop serving a table. :meth:`undrop_table` brings it back within ``keep``.

        After that it is deleted, with its snapshots; ``"0s"`` deletes it at once, and then what it
        has in memory is not written to files first. What somebody reads just now, as a DataFrame of
        Spark, is kept until the lease of that ends.
        """
        self._handle.check()
        named = text("the name of a table", name)
        keep_us = parse_duration(keep, "keep")
        self._backend.drop_table(named, keep_us=keep_us, timeout_us=timeout_us(timeout))

    def undrop_table(self, name: str, *, timeout: Timeout = None) -> Table:
        """Bring back the table of that name that was dropped last."""
        self._handle.check()
        named = text("the name of a table", name)
        return self._table(self._backend.undrop_table(named, timeout_us=timeout_us(timeout)))

    def rename_table(self, name: str, new_name: str, *, timeout: Timeout = None) -> Table:
        """Call a table by another name."""
        self._handle.check()
        names = [text("the name of a table", one) for one in (name, new_name)]
        return self._table(self._backend.rename_table(*names, timeout_us=timeout_us(timeout)))

    def clone_table(self, name: str, new_name: str, *, timeout: Timeout = None) -> Table:
        """A writable copy of a table, which shares all files with it."""
        self._handle.check()
        names = [text("the name of a table", one) for one in (name, new_name)]
        return self._table(self._backend.clone_table(*names, timeout_us=timeout_us(timeout)))

    def _table(self, backend: TableBackend) -> Table:
        """All handles of one table share what has to be shared: locks and the encoder."""
        with self._lock:
            core = self._cores.get(backend.id)
            if core is None or core.backend is not backend:
                core = TableCore(backend, self._world, self._handle)
                self._cores[backend.id] = core
        return Table(core, self._clone)

    def _clone(self, original: TableBackend, new_name: str, timeout: Timeout) -> Table:
        """A copy of a table that somebody has, whatever it is called by now."""
        self._handle.check()
        named = text("the name of a table", new_name)
        return self._table(
            self._backend.clone_table(
                original.name, named, table_id=original.id, timeout_us=timeout_us(timeout)
            )
        )

    # The whole.

    @property
    def metastore(self) -> Metastore:
        """The store of paths, transactions, sessions, locks and watches below the database.

        What lies under ``/stele/`` is the database's own.
        """
        self._handle.check()
        with self._lock:
            if self._metastore is None:
                if self._open_metastore is None:
                    raise InvalidArgument("this database comes without a metastore")
                self._metastore = self._open_metastore()
            return self._metastore

    def status(self) -> dict[str, Any]:
        """Memory, log, cache, sessions and workers in numbers."""
        self._handle.check()
        return self._backend.status()

    def operations(self) -> tuple[Operation, ...]:
        """Flushes, compactions, splits, imports and other work beside answering: what runs now, and
        the latest that have ended, in the order in which they began.

        The process that owns the directory remembers them; the next one begins anew.
        """
        self._handle.check()
        return self._backend.operations()

    def close(self) -> None:
        """Make everything durable and let go of the directory. Harmless when closed already.

        An interrupt from the keyboard is heard when that is done: a database that is half closed
        could be neither used nor opened again.
        """
        with Uninterrupted():
            if not self._handle.closed:
                self._handle.check()
                self._handle.closed = True
                if self._before_close is not None:
                    self._before_close()
                self._backend.close()


def _borders(splits: Iterable[Key], encoder: Encoder) -> list[bytes]:
    """Where a new table is cut. A key that is there twice is a slip, and would go unnoticed."""
    borders: list[bytes] = []
    found: set[bytes] = set()
    for key in splits:
        border = encoder.border(key)
        if border in found:
            raise InvalidArgument(f"splits has {key!r:.80} twice: a table is cut there once")
        found.add(border)
        borders.append(border)
    return borders


def _checked(schema: object) -> Schema:
    if not isinstance(schema, Schema):
        raise InvalidArgument(f"a schema is a stele.Schema, not {type(schema).__name__}")
    return schema
