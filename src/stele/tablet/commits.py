"""Requests on their way into the log: checked and encoded before any lock is taken.

A request becomes a commit in two steps. ``prepare`` does all that does not depend on the txn,
in the caller's thread; ``stamp`` is what remains for the critical section. Small requests become
row records, larger ones an Arrow batch.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa

from stele.errors import InvalidCells
from stele.kernels.block import Block
from stele.kernels.order import first_disorder
from stele.kernels.plain_requests import plain_request
from stele.kernels.requests import extent_of, numbered, only_rows, request_block
from stele.kernels.row_records import encode_record
from stele.kernels.search import row_lower_bound
from stele.model.cells import ROW_ERASURE_FAMILY, TIMESTAMP_MAX, TIMESTAMP_MIN, Op
from stele.model.columns import HIDDEN_FAMILIES
from stele.model.mutations import MutationBatch, Record, insert_record
from stele.model.ranges import RowRange
from stele.model.request_identity import RequestIdentity
from stele.model.schema import Schema
from stele.model.validation import validate_mutations
from stele.storage.log_parts import Commit, batch_commit, encode_block, rows_commit
from stele.storage.memory_table import FRAGMENT_OVERHEAD_BYTES, MemoryFragment, MemoryTable
from stele.tablet.commit_ring import BulkCommit
from stele.tablet.families import FamilyNames
from stele.tablet.options import SMALL_COMMIT_CELLS_MAX
from stele.tablet.retries import trace

Identity = RequestIdentity | None
"""Who sent a request, if it says so."""

RECORD_OVERHEAD_BYTES = 232
"""What a row record costs in memory beside its bytes: see ``storage.memory_records``."""


_row_of, _family_of = itemgetter(0), itemgetter(1)

_UNSET = -TIMESTAMP_MAX
"""How a record says that its put has no timestamp."""


class Prepared(Protocol):
    """A checked request."""

    @property
    def size_bytes(self) -> int:
        """About what it will take in memory."""

    @property
    def rows(self) -> list[bytes] | None:
        """Its distinct rows in order, or ``None`` when they are too many to list."""

    def span(self) -> RowRange:
        """A range that holds all its rows."""

    def stamp(self, table: str, txn: int, memory: MemoryTable) -> Commit:
        """Number it, put it into memory, and give the commit for the log."""

    def remembered(self, txn: int) -> BulkCommit | None:
        """What commit rings keep of it when its rows are too many to list."""


class SingleCommit(msgspec.Struct, frozen=True):
    """One mutation, which is what most threads write that come one after the other: so no loops."""

    mutation: Record
    family: bytes
    rows: list[bytes]
    size_bytes: int

    def span(self) -> RowRange:
        return RowRange(self.rows[0], self.rows[0] + b"\x00")

    def stamp(self, table: str, txn: int, memory: MemoryTable) -> Commit:
        row, _, _, qualifier, negated, op, value = self.mutation
        record = encode_record(row, self.family, qualifier, -negated, txn, op, value)
        memory.add_record(txn, row, record)
        return rows_commit(table, txn, (record,))

    def remembered(self, txn: int) -> BulkCommit | None:  # noqa: ARG002
        return None


class SmallCommit:
    """A few mutations."""

    __slots__ = ("_families", "_latest", "_mutations", "_rows", "rows", "size_bytes")

    def __init__(self, batch: MutationBatch, families: FamilyNames, identity: Identity = None):
        mutations = batch.records()
        if identity is not None:
            mutations = sorted([*mutations, trace(mutations[0][0], identity)])
        self._mutations = mutations
        self._families = list(map(families.__getitem__, map(_family_of, mutations)))
        self._rows = list(map(_row_of, mutations))
        self.rows = list(dict.fromkeys(self._rows))
        given = (-one[4] for one in mutations if one[4] != _UNSET)
        self._latest = max(given, default=TIMESTAMP_MIN)
        """The latest timestamp that is given."""
        self.size_bytes = batch.size_bytes + len(mutations) * RECORD_OVERHEAD_BYTES

    def span(self) -> RowRange:
        return RowRange(self._rows[0], self._rows[-1] + b"\x00")

    def stamp(self, table: str, txn: int, memory: MemoryTable) -> Commit:
        if self._latest >= txn:
            self._settle(txn)
        records = [
            encode_record(row, name, qualifier, -negated, txn, op, value)
            for (row, _, _, qualifier, negated, op, value), name in zip(
                self._mutations, self._families, strict=True
            )
        ]
        memory.add_records(txn, self._rows, records)
        return rows_commit(table, txn, records)

    def _settle(self, txn: int) -> None:
        """A put that was given the very timestamp that one without takes now is the same version
        of its column: the one without wins, as in a batch (``model.mutations.stamp``)."""
        unset = {one[:4] for one in self._mutations if one[4] == _UNSET and one[5] == Op.PUT}
        kept = [
            (one, name, row)
            for one, name, row in zip(self._mutations, self._families, self._rows, strict=True)
            if not (one[4] == -txn and one[5] == Op.PUT and one[:4] in unset)
        ]
        mutations, families, rows = zip(*kept, strict=True)
        self._mutations, self._families, self._rows = list(mutations), list(families), list(rows)

    def remembered(self, txn: int) -> BulkCommit | None:  # noqa: ARG002
        return None


class BatchCommit:
    """Many mutations, sorted and checked."""

    __slots__ = ("_content", "_extent", "_request", "_rows", "_span", "size_bytes")

    rows = None

    def __init__(self, request: Block):
        self._request = request
        self._content = encode_block(request)
        self._extent = extent_of(request)
        self._rows = only_rows(request, self._extent)
        self._span = RowRange(self._extent.first_row, self._extent.last_row + b"\x00")
        self.size_bytes = self._extent.size_bytes

    def span(self) -> RowRange:
        return self._span

    def distinct_rows(self) -> list[bytes]:
        """All rows; for conflict checks, which bulk writes rarely ask for."""
        return list(dict.fromkeys(map(self._rows.row, range(self._rows.count))))

    def stamp(self, table: str, txn: int, memory: MemoryTable) -> Commit:
        cells = numbered(self._request, txn)
        if cells.count == self._request.count:
            _, _, size_bytes, first_row, last_row = self._extent
            size_bytes += FRAGMENT_OVERHEAD_BYTES
            memory.add_fragment(MemoryFragment(cells, txn, txn, size_bytes, first_row, last_row))
        else:  # some have become one version
            memory.add_block(txn, cells)
        return batch_commit(table, txn, self._content)

    def remembered(self, txn: int) -> BulkCommit:
        rows = self._rows

        def contains(row: bytes) -> bool:
            place = row_lower_bound(rows, row)
            return place < rows.count and rows.row(place) == row

        return BulkCommit(txn, contains, self._extent.rows_bytes + 4 * rows.count)


Request = SingleCommit | SmallCommit | BatchCommit


def prepare(
    mutations: MutationBatch | pa.RecordBatch,
    families: FamilyNames,
    *,
    trusted: bool = False,
    identity: Identity = None,
) -> Request:
    """Check a request against the schema and encode it, with the trace of who sent it."""
    if isinstance(mutations, MutationBatch):
        count = len(mutations)
        if count == 1 and identity is None:
            (only,) = mutations.records()
            size = mutations.size_bytes + RECORD_OVERHEAD_BYTES
            return SingleCommit(only, families[only[1]], [only[0]], size)
        if not count:
            raise InvalidCells("a batch has at least one mutation")
        if count <= SMALL_COMMIT_CELLS_MAX:
            return SmallCommit(mutations, families, identity)
        batch = mutations.to_arrow()
        for family in batch.column("family").dictionary.to_pylist():
            families[family]
        return BatchCommit(request_block(_traced(batch, identity)))
    if trusted:
        _check_count(mutations)
        check_families(mutations, families)
        return BatchCommit(request_block(_traced(mutations, identity)))
    request = _checked(mutations, families)
    if identity is not None:
        request = request_block(_traced(mutations, identity))
    return BatchCommit(request)


def _checked(batch: pa.RecordBatch, families: FamilyNames) -> Block:
    """A batch from outside; puts in order pass quickly, and the model judges the others."""
    plain = plain_request(batch)
    if plain is None or not all(_is_ordinary(name, families.schema) for name in plain.families):
        validate_mutations(batch, families.schema, order_check=first_disorder)
        _check_count(batch)
        check_families(batch, families)
        return request_block(batch)
    for name in plain.families:
        families[name]
    return plain.block


def _check_count(batch: pa.RecordBatch) -> None:
    if not batch.num_rows:
        raise InvalidCells("a batch has at least one mutation")


def check_families(batch: pa.RecordBatch, families: FamilyNames) -> None:
    """Look up the families that mutations are of; a dictionary may have others too."""
    column = batch.column(1)
    used = np.unique(column.indices.to_numpy()).tolist()
    for name in column.dictionary.take(pa.array(used, pa.int16())).to_pylist():
        families[name]


def _is_ordinary(family: str, schema: Schema) -> bool:
    special = family == ROW_ERASURE_FAMILY or family in HIDDEN_FAMILIES
    return not special and schema.allows(family)


def _traced(batch: pa.RecordBatch, identity: Identity) -> pa.RecordBatch:
    if identity is None:
        return batch
    return insert_record(batch, trace(batch.column(0)[0].as_py(), identity))
