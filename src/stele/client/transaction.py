"""Row transactions: read a row, decide, write it, unless somebody wrote it in between.

Optimistic: nothing is locked. All reads of a transaction are of one moment, the first one's; the
commit is refused with ``StaleRow`` if the row has changed since, or may have. Reads do not see
what the transaction is about to write.
"""

from __future__ import annotations

from typing import Self

from stele.client.backend import Pending, Visibility
from stele.client.encoder import Columns, Key, Values
from stele.client.table_core import Filters, TableCore
from stele.client.times import Moment, TimeRange
from stele.client.waiting import Deadline, Timeout
from stele.errors import InvalidArgument, SnapshotTooOld, StaleRow
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec
from stele.model.row import Row, RowCells


class TransactionCore:
    """One attempt at one row; what the blocking and the asyncio transaction share."""

    def __init__(self, core: TableCore, key: Key, timeout: Timeout) -> None:
        self.core = core
        self.row = core.encoder.row(key)
        self.deadline: Deadline = core.world.deadline(timeout)
        self.parts: list[MutationBatch] = []
        self.read_txn: int | None = None
        self.txn: int | None = None
        self.ended = False

    def read(self, spec: CellSpec) -> Row | None:
        """The row at the moment of the first read."""
        self.check_open()
        if self.read_txn is None:
            found, self.read_txn = self._read(spec, Visibility.LATEST)
        else:
            fixed = CellSpec(
                **{name: getattr(spec, name) for name in CellSpec.__struct_fields__}
                | {"at": self.read_txn}
            )
            try:
                found, _ = self._read(fixed, Visibility.DURABLE)
            except SnapshotTooOld as error:
                raise StaleRow(
                    f"row {self.row[:64]!r} cannot be read as before: {error}"
                ) from error
        return None if found is None else Row(self.row, found, self.core.schema)

    def _read(self, spec: CellSpec, visibility: Visibility) -> tuple[RowCells | None, int]:
        return self.deadline.insist(
            lambda: self.core.timely(self.deadline).read_row(self.row, spec, visibility)
        )

    def put(self, values: Values, timestamp: Moment | None) -> None:
        """Remember a put."""
        self.check_open()
        self.parts.append(self.core.put_request(self.row, values, timestamp))

    def delete(self, columns: Columns, until: Moment | None, timestamp: Moment | None) -> None:
        """Remember a delete."""
        self.check_open()
        self.parts.append(self.core.delete_request(self.row, columns, until, timestamp))

    def check_open(self) -> None:
        """Refuse to go on after the end."""
        if self.ended:
            raise InvalidArgument("the transaction has ended; begin a new one")

    def start_commit(self) -> Pending | None:
        """Hand over what was written, if anything was."""
        self.ended = True
        if not self.parts:
            return None
        return self.core.start(MutationBatch.in_turn(self.parts), self.deadline, self.read_txn)


class Transaction:
    """Made by ``Table.transaction``, used in a ``with``. Not safe for threads.

    It commits when the block ends, all of it or nothing. An exception in the block drops it. Writes
    follow each other as in the program; :meth:`get` does not see them.
    """

    def __init__(self, core: TableCore, key: Key, timeout: Timeout = None) -> None:
        self._inner = TransactionCore(core, key, timeout)

    @property
    def txn(self) -> int | None:
        """The txn of the commit, once there is one."""
        return self._inner.txn

    def get(
        self,
        columns: Columns = None,
        *,
        versions: int | None = 1,
        time: TimeRange | None = None,
        filters: Filters = (),
        cells_per_row: int | None = None,
    ) -> Row | None:
        """The row as it is at the moment of the first ``get``; see ``Table.get``."""
        inner = self._inner
        spec = inner.core.cell_spec(columns, versions, time, filters, cells_per_row, None)
        return inner.read(spec)

    def put(self, values: Values, *, timestamp: Moment | None = None) -> None:
        """Write columns of the row when the transaction commits."""
        self._inner.put(values, timestamp)

    def delete(
        self,
        columns: Columns = None,
        *,
        until: Moment | None = None,
        timestamp: Moment | None = None,
    ) -> None:
        """Erase the row, or columns of it, when the transaction commits."""
        self._inner.delete(columns, until, timestamp)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        inner = self._inner
        if kind is not None:
            inner.ended = True
            return
        pending = inner.start_commit()
        if pending is not None:
            inner.txn = pending.wait(inner.deadline.remaining_us())
