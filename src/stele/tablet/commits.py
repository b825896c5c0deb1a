"""Requests on their way into the log: checked and encoded before any lock is taken.

A request becomes a commit in two steps. ``prepare`` does all that does not depend on the txn,
in the caller's thread; ``stamp`` is what remains for the critical section. Small requests become
row records, larger ones an Arrow batch.
"""

from __future__ import annotations

from ctypes import string_at
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from stele.errors import InvalidCells
from stele.kernels.block import COUNT, DESCRIPTOR_WIDTH, ROW_BYTES, ROW_OFFSETS, Block
from stele.kernels.order import first_disorder
from stele.kernels.requests import numbered, plain_families, request_block
from stele.kernels.row_records import encode_record
from stele.kernels.search import row_lower_bound
from stele.model.cells import MUTATIONS, ROW_ERASURE_FAMILY, TIMESTAMP_MAX, TIMESTAMP_MIN, Op
from stele.model.columns import HIDDEN_FAMILIES
from stele.model.mutations import MutationBatch, insert_record, stamp
from stele.model.ranges import RowRange
from stele.model.request_identity import RequestIdentity
from stele.model.schema import Schema
from stele.model.validation import check_structure, validate_mutations
from stele.storage.log_parts import Commit, batch_commit, encode_block, rows_commit
from stele.storage.memory_table import MemoryTable
from stele.tablet.commit_ring import BulkCommit
from stele.tablet.families import FamilyNames
from stele.tablet.options import SMALL_COMMIT_CELLS_MAX
from stele.tablet.retries import trace

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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
        self._latest = TIMESTAMP_MIN
        """The latest timestamp that is given, if there are several mutations."""
        if len(mutations) == 1:
            self.rows = self._rows
        else:
            self.rows = list(dict.fromkeys(self._rows))
            given = (-one[4] for one in mutations if one[4] != _UNSET)
            self._latest = max(given, default=TIMESTAMP_MIN)
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
    """Many mutations as a sorted ``MUTATIONS`` batch that was validated."""

    rows = None

    def __init__(self, batch: pa.RecordBatch, request: Block | None = None):
        self._batch = batch
        self._request = request or request_block(batch)
        self._content: tuple[ReadableBuffer, ...] = encode_block(self._request)
        self._rows = only_rows(self._request)
        self.size_bytes = self._request.nbytes

    def span(self) -> RowRange:
        request = self._request
        return RowRange(request.row(0), request.row(request.count - 1) + b"\x00")

    def distinct_rows(self) -> list[bytes]:
        """All rows; for conflict checks, which bulk writes rarely ask for."""
        found: list[bytes] = self._batch.column(0).unique().to_pylist()
        return found

    def stamp(self, table: str, txn: int, memory: MemoryTable) -> Commit:
        cells = numbered(self._request, txn)
        memory.add_block(txn, cells or Block.from_batch(stamp(self._batch, txn)))
        return batch_commit(table, txn, self._content)

    def remembered(self, txn: int) -> BulkCommit:
        rows = self._rows

        def contains(row: bytes) -> bool:
            place = row_lower_bound(rows, row)
            return place < rows.count and rows.row(place) == row

        return BulkCommit(txn, contains, rows.column_bytes(ROW_OFFSETS) + 4 * rows.count)


def only_rows(block: Block) -> Block:
    """The rows of a block in memory of their own: rings keep them when the cells are long gone."""
    descriptor = np.zeros(DESCRIPTOR_WIDTH, np.int64)
    address = int(block.descriptor[ROW_OFFSETS])
    offsets = np.frombuffer(string_at(address, 4 * (block.count + 1)), np.int32)
    start = int(block.descriptor[ROW_BYTES]) + int(offsets[0])
    data = pa.py_buffer(string_at(start, block.column_bytes(ROW_OFFSETS)))
    offsets = offsets - offsets[0]
    descriptor[ROW_OFFSETS], descriptor[ROW_BYTES] = offsets.ctypes.data, data.address
    descriptor[COUNT] = block.count
    return Block(descriptor, (), (offsets, data))


def prepare(
    mutations: MutationBatch | pa.RecordBatch,
    families: FamilyNames,
    *,
    trusted: bool = False,
    identity: Identity = None,
) -> SmallCommit | BatchCommit:
    """Check a request against the schema and encode it, with the trace of who sent it."""
    if isinstance(mutations, MutationBatch):
        count = len(mutations)
        if not count:
            raise InvalidCells("a batch has at least one mutation")
        if count <= SMALL_COMMIT_CELLS_MAX:
            return SmallCommit(mutations, families, identity)
        batch = mutations.to_arrow()
        for family in batch.column("family").dictionary.to_pylist():
            families[family]
        return BatchCommit(_traced(batch, identity))
    request = None if trusted else _checked(mutations, families)
    if not mutations.num_rows:
        raise InvalidCells("a batch has at least one mutation")
    if trusted:
        check_families(mutations, families)
    if identity is None:
        return BatchCommit(mutations, request)
    return BatchCommit(_traced(mutations, identity))


def _checked(batch: pa.RecordBatch, families: FamilyNames) -> Block:
    """A batch from outside; puts in order pass quickly, and the model judges the others."""
    check_structure(batch, MUTATIONS)
    request, schema = request_block(batch), families.schema
    plain = plain_families(request)
    if plain is None or not all(_is_ordinary(name, schema) for name in plain):
        validate_mutations(batch, schema, order_check=first_disorder)
        check_families(batch, families)
    else:
        for name in plain:
            families[name]
    return request


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
