"""A table, for threads: every call returns when it is done.

Writes return the txn of their commit once it is durable. Reads see what is durable. Wherever a key
is asked for, its bytes or a typed key of the table's key codec will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import msgspec

from stele.client.backend import TableBackend, TabletInfo
from stele.client.batch import Batch
from stele.client.bulk import InputShape, write
from stele.client.changes import Changes, table_changes
from stele.client.encoder import Columns, Key, Values
from stele.client.rows import Rows
from stele.client.scan import Scan, Shape
from stele.client.table_core import Filters, TableCore, listed, number, selection, text
from stele.client.table_files import TableFiles, table_files
from stele.client.times import At, Moment, TimeRange
from stele.client.transaction import Transaction
from stele.client.updates import Conditions, append, condition_columns, conditional, increment
from stele.client.waiting import Timeout
from stele.client.wide import named_columns
from stele.model.arrow_input import NullRule
from stele.model.columns import Column, ColumnSelection
from stele.model.predicates import CellSpec, ReadSpec, ScanMode, ScanSpec
from stele.model.row import ColumnName, Row
from stele.model.schema import Schema
from stele.storage.change_lines import ChangeMode

SAMPLES_DEFAULT = 15
"""Keys that cut a table into sixteen parts."""


class Table:
    """One table of an open database. Threads share it.

    >>> import stele, tempfile
    >>> db = stele.open(tempfile.mkdtemp())
    >>> users = db.create_table("users", stele.Schema(columns={"info:age": "int64"}))
    >>> txn = users.put(b"ada", {"info:name": b"Ada", "info:age": 36})
    >>> users.get(b"ada")["info:age"]
    36
    >>> [row.key for row in users.scan(columns=["info:"])]
    [b'ada']
    >>> db.close()
    """

    def __init__(
        self, core: TableCore, clone: Callable[[TableBackend, str, Timeout], Table]
    ) -> None:
        self.core = core
        self._clone = clone

    @property
    def name(self) -> str:
        """The table's name; it may change by a rename."""
        return self.core.backend.name

    @property
    def id(self) -> str:
        """What tells the table apart for ever."""
        return self.core.backend.id

    @property
    def schema(self) -> Schema:
        """The schema as it is now."""
        return self.core.schema

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def __reduce__(self) -> NoReturn:
        self.core.handle.__reduce__()

    # Writing.

    def put(
        self,
        key: Key,
        values: Values,
        *,
        timestamp: Moment | None = None,
        timeout: Timeout = None,
    ) -> int:
        """Write columns of one row, atomically; the txn.

        Values of declared columns are given in their type, others as bytes. Without a
        ``timestamp`` the cells take the txn as theirs.
        """
        core = self.core
        deadline = core.world.deadline(timeout)
        pending = core.start(core.put_request(key, values, timestamp), deadline)
        return pending.wait(deadline.remaining_us())

    def delete(
        self,
        key: Key,
        columns: Columns = None,
        *,
        until: Moment | None = None,
        timestamp: Moment | None = None,
        timeout: Timeout = None,
    ) -> int:
        """Erase a row, or the given columns and families of it; the txn.

        ``until`` spares versions with a later timestamp; ``timestamp`` erases the one version of
        each column that has exactly this one.
        """
        core = self.core
        deadline = core.world.deadline(timeout)
        pending = core.start(core.delete_request(key, columns, until, timestamp), deadline)
        return pending.wait(deadline.remaining_us())

    def batch(self, *, timeout: Timeout = None) -> Batch:
        """Many puts and deletes, buffered, sent in parts, durable at the end of the ``with``.

        ``timeout`` holds for each part.
        """
        self.core.handle.check()
        return Batch(self.core, timeout)

    def write(
        self,
        data: object,
        *,
        row: str | Sequence[str] | None = None,
        nulls: NullRule = "skip",
        shape: InputShape | None = None,
        atomic: bool = False,
        timeout: Timeout = None,
    ) -> int:
        """Write an Arrow table, a DataFrame or another Arrow stream; the highest txn.

        It is a table of cells, or of wide rows: a key column (``row`` says which; ``"row"`` by
        default) and one column for each column. ``nulls="delete"`` erases columns where a wide row
        has null. Each part is atomic within a tablet, and small tables are one part; with
        ``atomic`` any table is. ``timeout`` holds for each part.

        Cells in order are not copied: the store reads the arrays themselves until it has flushed
        them. Nobody changes an Arrow array, and nobody should change memory of NumPy behind one.
        Damaged arrays of pyarrow are refused; a frame of another library comes without the sizes
        of its buffers, and the library is trusted with them.
        """
        return write(
            self.core, data, row=row, nulls=nulls, shape=shape, atomic=atomic, timeout=timeout
        )

    # Reading.

    def get(
        self,
        key: Key,
        columns: Columns = None,
        *,
        versions: int | None = 1,
        time: TimeRange | None = None,
        filters: Filters = (),
        cells_per_row: int | None = None,
        at: At = None,
        timeout: Timeout = None,
    ) -> Row | None:
        """One row, or ``None`` if it has no cells that are asked for.

        ``versions`` newest of each column (``None``: all) with ``time[0] <= timestamp < time[1]``.
        ``at`` reads the past: a txn, a time, or the name of a snapshot.
        """
        core = self.core
        spec = core.cell_spec(columns, versions, time, filters, cells_per_row, at)
        encoder = core.encoder
        row = encoder.row(key)
        found = core.read(row, spec, timeout)
        return None if found is None else Row(row, found, encoder.schema)

    def get_many(
        self,
        keys: Iterable[Key],
        columns: Columns = None,
        *,
        versions: int | None = 1,
        time: TimeRange | None = None,
        filters: Filters = (),
        cells_per_row: int | None = None,
        at: At = None,
        timeout: Timeout = None,
    ) -> Rows:
        """Many rows by key, all of one moment, in the order of ``keys``; see :meth:`get`."""
        core = self.core
        spec = core.cell_spec(columns, versions, time, filters, cells_per_row, at)
        encoder = core.encoder
        rows = tuple(map(encoder.row, listed("keys", keys)))
        many = ReadSpec(rows=rows, **fields_of(spec))
        deadline = core.world.deadline(timeout)
        cells, txn = deadline.insist(lambda: core.timely(deadline).read_rows(many))
        return Rows(rows, cells, txn, encoder.schema)

    def scan(
        self,
        rows: object = None,
        columns: Columns = None,
        *,
        prefix: object = None,
        versions: int | None = 1,
        time: TimeRange | None = None,
        filters: Filters = (),
        cells_per_row: int | None = None,
        at: At = None,
        limit: int | None = None,
        reverse: bool = False,
        mode: ScanMode = "snapshot",
        shape: Shape = "cells",
        timeout: Timeout = None,
    ) -> Scan:
        """Rows in key order: nothing is read before the result is iterated or converted.

        ``rows`` is a pair (start, end), the end not included, or a list of pairs; ``None`` in a
        pair is open, and the first parts of a composite key will do. ``prefix`` selects the rows
        that begin with it. ``shape="rows"`` gives wide Arrow tables.

        ``mode`` says which moment the rows are of: ``"snapshot"`` all of one; ``"any"`` each tablet
        as it is when the scan reaches it; ``"isolated"`` each row as new as can be; ``"latest"``
        the same with commits that are not durable yet. No row is ever a mixture.
        """
        cells = self.core.cell_spec(columns, versions, time, filters, cells_per_row, at)
        ranges = self.core.encoder.ranges(rows, prefix)
        spec = ScanSpec(ranges=ranges, limit=limit, reverse=reverse, mode=mode, **fields_of(cells))
        return Scan(self.core, spec, shape, timeout, named_columns(columns))

    # Reading, deciding, writing.

    def mutate_if(
        self,
        key: Key,
        conditions: Conditions,
        *,
        put: Values | None = None,
        delete: Columns | bool = None,
        timeout: Timeout = None,
    ) -> int | None:
        """Write if every column has the value given (``None``: no cell); the txn, or ``None``.

        ``delete`` names columns, or is ``True`` for the whole row. What is put survives it.
        """
        core = self.core
        row = core.encoder.row(key)
        columns = condition_columns(conditions)
        decide = conditional(core.encoder, row, conditions, put, delete)
        deadline = core.world.deadline(timeout)
        started = core.start_update(row, columns, decide, deadline)
        return None if started.pending is None else started.pending.wait(deadline.remaining_us())

    def increment(
        self, key: Key, column: ColumnName, by: int = 1, *, timeout: Timeout = None
    ) -> int:
        """Add to a counter (int64, or eight bytes, big-endian), which begins at 0; its new value.

        A counter that would overflow is refused and stays what it is.
        """
        core = self.core
        row = core.encoder.row(key)
        deadline = core.world.deadline(timeout)
        decide = increment(core.encoder, row, column, by)
        started = core.start_update(row, one_column(column), decide, deadline)
        assert started.pending is not None
        started.pending.wait(deadline.remaining_us())
        return started.answer

    def append(
        self, key: Key, column: ColumnName, tail: bytes | str, *, timeout: Timeout = None
    ) -> bytes:
        """Lengthen a value of bytes or text, which begins empty; all its bytes now."""
        core = self.core
        row = core.encoder.row(key)
        deadline = core.world.deadline(timeout)
        decide = append(core.encoder, row, column, tail)
        started = core.start_update(row, one_column(column), decide, deadline)
        assert started.pending is not None
        started.pending.wait(deadline.remaining_us())
        return started.answer

    def transaction(self, key: Key, *, timeout: Timeout = None) -> Transaction:
        """Read and write one row, unless others write it meanwhile: then ``StaleRow``."""
        self.core.handle.check()
        return Transaction(self.core, key, timeout)

    # Tablets and files. Changes of them wait for each other, ``timeout`` at most: unless given an
    # hour for those that rewrite files, a minute for others. Late is ``DeadlineExceeded``.

    def tablets(self, *, timeout: Timeout = None) -> tuple[TabletInfo, ...]:
        """The tablets, in row order."""
        return self.core.bounded(timeout).tablets()

    def sample_keys(self, count: int = SAMPLES_DEFAULT, *, timeout: Timeout = None) -> list[bytes]:
        """Row keys that cut the table into parts of about equal size, in files and in memory.

        A row that was erased may be among them until a compaction has dropped it.
        """
        return list(self.core.bounded(timeout).sample_keys(number("count", count)))

    def split(self, key: Key, *, timeout: Timeout = None) -> None:
        """Make ``key`` the first row of a tablet."""
        self.core.bounded(timeout).split(self.core.encoder.border(key))

    def join(self, key: Key, *, timeout: Timeout = None) -> None:
        """Join the tablet that begins at ``key`` with the one before it."""
        self.core.bounded(timeout).join(self.core.encoder.border(key))

    def flush(self, *, timeout: Timeout = None) -> None:
        """Write everything in memory to files. After ``timeout`` it goes on by itself."""
        self.core.bounded(timeout).flush()

    def compact(self, rows: object = None, *, timeout: Timeout = None) -> None:
        """Rewrite the files of all tablets that overlap ``rows``, one for each group.

        After ``timeout`` the one that has begun goes on by itself, and no other is begun.
        """
        self.core.bounded(timeout).compact(self.core.encoder.range(rows))

    def truncate(self, rows: object = None, *, timeout: Timeout = None) -> None:
        """Remove all cells of ``rows``, or of the table, and their history.

        The tablets that ``rows`` are in cannot be read in the past any more, snapshots or not; to
        keep the past of other rows, :meth:`split` at the borders first.
        """
        self.core.bounded(timeout).truncate(self.core.encoder.range(rows))

    def files(self, *, at: At = None, lease: str = "1h") -> TableFiles:
        """The table's Parquet files as of now, or of ``at``, for DuckDB, Polars and others.

        ``paths()`` are files that need no merge, ``rest()`` is Arrow with the cells of all others.
        They stay until they are released, at the end of a ``with``, or ``lease`` is over.
        """
        return table_files(self.core, self.core.cell_spec(None, 1, None, (), None, at).at, lease)

    def changes(
        self,
        since: At = 0,
        until: At = None,
        *,
        rows: object = None,
        columns: Columns = None,
        prefix: object = None,
        mode: ChangeMode = "net",
        shape: Shape = "cells",
        versions: int | None = 1,
        lease: str = "1h",
    ) -> Changes:
        """What was committed after ``since`` up to ``until`` or now: txns, times or snapshots.

        ``mode="net"`` compares the two moments, ``mode="all"`` tells every mutation, by rising
        txn. From ``since=0`` on all that is there is told as new. They can be read until they are
        released, at the end of a ``with``, or ``lease`` is over.
        """
        ranges = self.core.encoder.ranges(rows, prefix)
        return table_changes(self.core, since, until, ranges, columns, mode, shape, versions, lease)

    # Snapshots.

    def snapshot(self, name: str, *, timeout: Timeout = None) -> int:
        """Keep the table as it is now readable under ``name`` (``at=name``); its txn."""
        return self.core.bounded(timeout).snapshot(text("the name of a snapshot", name))

    def drop_snapshot(self, name: str, *, timeout: Timeout = None) -> None:
        """Let go of a snapshot."""
        self.core.bounded(timeout).drop_snapshot(name)

    def snapshots(self, *, timeout: Timeout = None) -> dict[str, int]:
        """Names and txns of the snapshots."""
        return self.core.bounded(timeout).snapshots()

    def clone(self, new_name: str, *, timeout: Timeout = None) -> Table:
        """A writable copy under a new name, which shares all files with this table."""
        return self._clone(self.core.backend, new_name, timeout)


def fields_of(spec: CellSpec) -> dict[str, Any]:
    """What a specification of cells says, as arguments of one of rows."""
    return msgspec.structs.asdict(spec)


def one_column(column: ColumnName) -> ColumnSelection:
    """The selection of exactly one column."""
    return selection((Column.parse(column),))
