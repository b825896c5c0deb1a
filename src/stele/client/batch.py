"""Buffered writes: many puts and deletes sent in parts, several parts on their way at a time.

Program order holds: of two writes to one cell the later one wins. Cells of one part share a txn, so
a write that depends on that order (the same cell again, or a delete of something that the part
puts) begins a new part. Each part is atomic within a tablet; the batch as a whole is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Self, TypeAlias

import pyarrow as pa

from stele.client.backend import Pending
from stele.client.encoder import Columns, Key, Values
from stele.client.table_core import TableCore
from stele.client.times import Moment
from stele.client.waiting import Timeout
from stele.errors import InvalidArgument, SteleError
from stele.model.cells import Op
from stele.model.mutations import MutationBatch, Record

PART_CELLS = 1_000
PART_BYTES = 1 << 20
"""A part is sent at either size: large enough that its costs are shared, small enough to be felt
by no one else."""

PARTS_IN_FLIGHT_MAX = 8
"""More do not make the disk quicker, and each is memory on both sides."""

ROWS_SHOWN_MAX = 5
"""Rows that an error names; the rest is counted."""


Rows: TypeAlias = Callable[[], Sequence[bytes]]
"""Which rows a part has; only an error asks."""

Identity: TypeAlias = tuple[object, ...]
"""All of a record but its value."""

_OP, _VALUE = 5, 6
"""Where a record has them."""


class Part(NamedTuple):
    """Mutations that were sent together."""

    rows: Rows
    pending: Pending


class PartBuffer:
    """Collects the mutations of one part and knows what must not join them."""

    def __init__(self) -> None:
        self.mutations = MutationBatch()
        self._seen: set[Identity] = set()
        self._puts: dict[bytes, bool] = {}
        """The rows of the part, and whether they are put to or only erased in."""

    @property
    def rows(self) -> tuple[bytes, ...]:
        """The rows that would be sent, each once."""
        return tuple(self._puts)

    @property
    def is_full(self) -> bool:
        return len(self.mutations) >= PART_CELLS or self.mutations.size_bytes >= PART_BYTES

    def takes(self, request: MutationBatch) -> bool:
        """Whether a request means the same in this part as it would after it."""
        records = request.records()
        row = records[0][0]
        if row not in self._puts:
            return True
        if self._puts[row] and any(record[_OP] != Op.PUT for record in records):
            return False
        return self._seen.isdisjoint(map(_identity, records))

    def add(self, request: MutationBatch) -> None:
        """Take the mutations of one row."""
        records = request.records()
        row = records[0][0]
        self.mutations.extend(request)
        self._seen.update(map(_identity, records))
        puts = any(record[_OP] == Op.PUT for record in records)
        self._puts[row] = puts or self._puts.get(row, False)


def _identity(record: Record) -> Identity:
    return record[:_VALUE]


class Pipeline:
    """Parts on their way to the store, at most so many; the error of one names its rows."""

    def __init__(self, core: TableCore, timeout: Timeout = None) -> None:
        self._core = core
        self._timeout = timeout
        self._parts: deque[Part] = deque()
        self.txn = 0
        """The highest txn that is known to be durable."""

    def send(self, mutations: MutationBatch | pa.RecordBatch, rows: Rows) -> None:
        """Send a part, when there is room for it."""
        self.make_room()
        deadline = self._core.world.deadline(self._timeout)
        with naming(rows):
            pending = self._core.start(mutations, deadline)
        self._parts.append(Part(rows, pending))

    def make_room(self) -> None:
        """Wait until another part may be sent; raises why one of those on their way has failed."""
        while len(self._parts) >= PARTS_IN_FLIGHT_MAX:
            self._end_one()

    def finish(self) -> int:
        """Return the highest txn when everything sent is durable, or raise why something is not."""
        while self._parts:
            self._end_one()
        return self.txn

    def settle(self) -> None:
        """Wait for what was sent, whatever becomes of it; an exception is on its way already."""
        while self._parts:
            with suppress(SteleError):
                self._end_one()

    def _end_one(self) -> None:
        part = self._parts.popleft()
        with naming(part.rows):
            deadline = self._core.world.deadline(self._timeout)
            self.txn = max(self.txn, part.pending.wait(deadline.remaining_us()))


@contextmanager
def naming(rows: Rows) -> Iterator[None]:
    """Errors of the same kind, whose message says which rows it is about."""
    try:
        yield
    except SteleError as error:
        raise type(error)(f"{shown_rows(rows())}: {error}") from error


def shown_rows(rows: Sequence[bytes]) -> str:
    """Some rows and how many there are."""
    shown = ", ".join(repr(row[:64]) for row in rows[:ROWS_SHOWN_MAX])
    more = len(rows) - ROWS_SHOWN_MAX
    return f"rows {shown} and {more} more" if more > 0 else f"rows {shown}"


class Batch:
    """Made by ``Table.batch``, used in a ``with``. Not safe for threads.

    When the block ends, everything is durable. When it ends by an exception, what was not sent
    yet is dropped, and what was sent stays written. An error of a put or a delete names the rows
    that were not written, which need not be its own; all others are still on their way.
    """

    def __init__(self, core: TableCore, timeout: Timeout = None) -> None:
        self._core = core
        self._pipeline = Pipeline(core, timeout)
        self._buffer = PartBuffer()
        self._ended = False

    @property
    def txn(self) -> int:
        """The highest txn that is known to be durable."""
        return self._pipeline.txn

    def put(self, key: Key, values: Values, *, timestamp: Moment | None = None) -> None:
        """Write columns of a row; see ``Table.put``."""
        self._add(self._core.put_request(key, values, timestamp))

    def delete(
        self,
        key: Key,
        columns: Columns = None,
        *,
        until: Moment | None = None,
        timestamp: Moment | None = None,
    ) -> None:
        """Erase a row, or columns of it; see ``Table.delete``."""
        self._add(self._core.delete_request(key, columns, until, timestamp))

    def flush(self) -> int:
        """Send what is buffered and return the highest txn when everything is durable."""
        self._send()
        return self._pipeline.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended = True
        if kind is None:
            self.flush()
        elif issubclass(kind, Exception):
            self._pipeline.settle()

    def _add(self, request: MutationBatch) -> None:
        if self._ended:
            raise InvalidArgument("the batch has ended; make a new one")
        if not self._buffer.takes(request):
            self._send()
        self._buffer.add(request)
        if self._buffer.is_full:
            self._send()

    def _send(self) -> None:
        self._pipeline.make_room()  # the error of another part leaves what is buffered here
        buffer, self._buffer = self._buffer, PartBuffer()
        if buffer.mutations:
            self._pipeline.send(buffer.mutations, lambda: buffer.rows)
