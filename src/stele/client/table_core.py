"""What the blocking and the asyncio table have in common: requests, specifications, first steps.

A write has two halves. *Starting* it encodes, waits out refusals and hands the commit to the
store; *ending* it is waiting until the commit is durable, which threads and coroutines do
differently. Reading before a write (``start_update``) belongs to the first half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from stele.client.backend import Pending, TableBackend, Visibility
from stele.client.encoder import Columns, Encoder, Key, Values
from stele.client.handle import Handle
from stele.client.row_locks import RowLocks
from stele.client.times import At, Moment, TimeRange, read_txn, time_bounds
from stele.client.waiting import RETRIED, ClientWorld, Deadline, Timeout, timeout_us
from stele.errors import InvalidArgument, SnapshotTooOld, StaleRow
from stele.model.columns import ColumnSelection
from stele.model.filters import Filter
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec
from stele.model.row import RowCells
from stele.model.schema import Schema
from stele.storage.admission_line import AdmissionTicket

UPDATE_TRIES_MAX = 64
"""Conflicts of one update with other processes or bulk writes; threads of this one queue."""

NEWEST = CellSpec()
"""All columns, the newest version of each: what most reads ask for."""

T = TypeVar("T")

Filters: TypeAlias = Filter | Iterable[Filter]
"""One filter, or several that all have to hold."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """What an update does after it has seen its row: mutations, or nothing; and its answer."""

    mutations: MutationBatch | None
    answer: T


@dataclass(frozen=True, slots=True)
class Started(Generic[T]):
    """An update under way. ``pending`` is ``None`` when nothing had to be written."""

    pending: Pending | None
    answer: T


@dataclass
class TableCore:
    """One table of one open database. Threads share it."""

    backend: TableBackend
    world: ClientWorld
    handle: Handle
    locks: RowLocks = field(default_factory=RowLocks)
    _encoder: Encoder | None = None

    @property
    def encoder(self) -> Encoder:
        """The encoder for the schema as it is now."""
        schema = self.backend.schema
        encoder = self._encoder
        if encoder is None or encoder.schema is not schema:
            encoder = self._encoder = Encoder(schema)
        return encoder

    @property
    def schema(self) -> Schema:
        self.handle.check()
        return self.backend.schema

    # Writing.

    def put_request(self, key: Key, values: Values, timestamp: Moment | None) -> MutationBatch:
        """The cells of one put."""
        encoder = self.encoder
        batch = MutationBatch()
        encoder.put(batch, encoder.row(key), values, timestamp)
        if not batch:
            raise InvalidArgument(f"a put of row {key!r:.80} has no values")
        return batch

    def delete_request(
        self, key: Key, columns: Columns, until: Moment | None, timestamp: Moment | None
    ) -> MutationBatch:
        """The erasures of one delete."""
        encoder = self.encoder
        batch = MutationBatch()
        encoder.delete(batch, encoder.row(key), columns, until=until, timestamp=timestamp)
        if not batch:
            raise InvalidArgument(f"a delete in row {key!r:.80} names no columns")
        return batch

    def apply(
        self,
        mutations: MutationBatch | pa.RecordBatch,
        deadline: Deadline,
        max_txn: int | None = None,
        ticket: AdmissionTicket | None = None,
    ) -> Pending:
        """Hand a commit to the store, once."""
        self.handle.check()
        return self.timely(deadline).apply(mutations, max_txn=max_txn, ticket=ticket)

    def bounded(self, timeout: Timeout) -> TableBackend:
        """The table, for one call of its tablets and files; without a timeout with its default."""
        self.handle.check()
        return self.backend if timeout is None else self.backend.within(timeout_us(timeout))

    def timely(self, deadline: Deadline) -> TableBackend:
        """The table, for a call that has to end by then."""
        return self.backend.within(deadline.remaining_us())

    def start(
        self,
        mutations: MutationBatch | pa.RecordBatch,
        deadline: Deadline,
        max_txn: int | None = None,
    ) -> Pending:
        """Hand a commit to the store, waiting while it is full."""
        return deadline.insist_in_line(
            lambda ticket: self.apply(mutations, deadline, max_txn, ticket),
            self.backend.admission_ticket,
        )

    # Reading.

    def cell_spec(
        self,
        columns: Columns,
        versions: int | None,
        time: TimeRange | None,
        filters: Filters,
        cells_per_row: int | None,
        at: At,
    ) -> CellSpec:
        """The specification that the arguments of a read stand for."""
        self.handle.check()
        if (
            columns is None
            and versions == 1
            and time is None
            and filters == ()
            and cells_per_row is None
            and at is None
        ):
            return NEWEST
        start, end = time_bounds(time)
        tests = (filters,) if isinstance(filters, Filter) else listed("filters", filters)
        return CellSpec(
            columns=self._selected(columns),
            time_start=start,
            time_end=end,
            versions=versions,
            filters=tuple(tests),
            cells_per_row=cells_per_row,
            at=read_txn(self.backend, at),
        )

    def _selected(self, columns: Columns) -> ColumnSelection:
        """What ``columns=`` names; who names a label is told the column."""
        try:
            return selection(columns)
        except InvalidArgument as error:
            names = list(columns) if isinstance(columns, list | tuple) else [columns]
            for typed in self.backend.schema.columns:
                if typed.label in names and typed.label != str(typed.column):
                    raise InvalidArgument(
                        f"{typed.label!r} is what DataFrames call column {str(typed.column)!r}: "
                        f"select it as {str(typed.column)!r}"
                    ) from error
            raise

    def read(self, row: bytes, spec: CellSpec, timeout: Timeout) -> RowCells | None:
        """The cells of one row. A read that is answered at once needs no deadline."""
        if timeout is None:
            try:
                return self.backend.read_row(row, spec)[0]
            except RETRIED:
                pass
        deadline = self.world.deadline(timeout)
        return deadline.insist(lambda: self.timely(deadline).read_row(row, spec))[0]

    # Reading, deciding, writing.

    def start_update(
        self,
        row: bytes,
        columns: ColumnSelection,
        decide: Callable[[RowCells | None], Decision[T]],
        deadline: Deadline,
    ) -> Started[T]:
        """Read columns of a row as they are, decide, write if nobody was quicker, else again.

        ``decide`` sees commits that are not durable yet. That is no harm where it writes: its own
        commit becomes durable after them or not at all. Where it does not, they are waited for.
        """
        spec = CellSpec(columns=columns)
        for _ in range(UPDATE_TRIES_MAX):
            with self.locks.hold(row, deadline):
                found, txn = deadline.insist(
                    lambda: self.timely(deadline).read_row(row, spec, Visibility.LATEST)
                )
                decision = decide(found)
                if decision.mutations is None:
                    break
                try:
                    pending = self.start(decision.mutations, deadline, txn)
                    return Started(pending, decision.answer)
                except StaleRow as error:
                    wait_us = deadline.wait_us(error)
            self.world.pause(wait_us)
        else:
            raise StaleRow(f"row {row[:64]!r} kept changing, {UPDATE_TRIES_MAX} times")
        self.reach(row, columns, txn)
        return Started(None, decision.answer)

    def reach(self, row: bytes, columns: ColumnSelection, txn: int) -> None:
        """Return when everything at or below ``txn`` is durable."""
        if self.backend.durable_txn() < txn:
            with suppress(SnapshotTooOld):  # truncated since: it was durable before
                self.backend.read_row(row, CellSpec(columns=columns, at=txn))


def text(what: str, value: object) -> str:
    """The text itself; what is none, or is empty, is refused."""
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{what} is text, not {value!r:.80}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what}, {value!r:.80}, has no encoding in UTF-8") from error
    return value


def number(what: str, value: object) -> int:
    """The number itself, from 1; anything else is refused."""
    if not isinstance(value, int) or value < 1:
        raise InvalidArgument(f"{what} is a number from 1, not {value!r:.80}")
    return value


def listed(what: str, items: Iterable[T]) -> Iterable[T]:
    """The items themselves; text and what is no collection at all are refused."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise InvalidArgument(f"{what} is a list of {what}, not {items!r:.80}")
    return items


def selection(columns: Columns) -> ColumnSelection:
    """The columns that ``columns=`` names; lists of plain names are parsed once."""
    if isinstance(columns, str):
        return _parsed((columns,))
    if isinstance(columns, list | tuple) and all(type(name) is str for name in columns):
        return _parsed(tuple(columns))
    return ColumnSelection.parse(columns)


@lru_cache(maxsize=256)
def _parsed(names: tuple[Any, ...]) -> ColumnSelection:
    return ColumnSelection.parse(names)
