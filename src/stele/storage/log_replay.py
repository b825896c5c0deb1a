"""Replay: the entries of a log as blocks of cells, with the txns they were committed under.

Row records become columns many at a time, by a kernel; a batch is a block as it stands. Blocks of
one table come in no particular order, and need none: every cell carries its txn.

What a tablet already has in fragments must not be replayed (see ``stele.storage.flush_marks``);
:func:`unflushed` leaves it out. In-process recovery and recovery by Spark both come through here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stele.env.ports import FileSystem
from stele.errors import Corruption
from stele.kernels.block import TXNS, Block
from stele.kernels.row_records import records_to_block
from stele.kernels.search import slice_rows
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.storage.flush_marks import CompiledMarks
from stele.storage.log_parts import Part, PartKind, decode_batch, decode_body
from stele.storage.log_reader import Entry
from stele.storage.log_seal import Seal, seal, sealed_entries
from stele.storage.references import FlushMark

BLOCK_BYTES = 8 * 1024 * 1024
"""Row records of one table that are turned into a block together."""

PENDING_BYTES_MAX = 64 * 1024 * 1024
"""Row records of all tables that are held at a time."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Some cells of one table."""

    table: str
    block: Block
    txn_min: int
    txn_max: int


def txn_bounds(block: Block) -> tuple[int, int]:
    """The smallest and the largest txn of a block that is not empty."""
    buffer = pa.foreign_buffer(int(block.descriptor[TXNS]), 8 * block.count, block.owner)
    txns = np.frombuffer(buffer, np.int64)
    return int(txns.min()), int(txns.max())


def recover_log(
    fs: FileSystem, directory: str, sealer: str, tables: Container[str] | None = None
) -> tuple[Seal, Iterator[Replayed]]:
    """Seal a log whose session is over, and replay what is on record."""
    sealed = seal(fs, directory, sealer)
    return sealed, replay(sealed_entries(fs, directory, sealed), tables)


def replay(
    entries: Iterable[Entry],
    tables: Container[str] | None = None,
    *,
    block_bytes: int = BLOCK_BYTES,
    pending_bytes_max: int = PENDING_BYTES_MAX,
) -> Iterator[Replayed]:
    """The cells of the entries, of some tables or of all.

    Consume it to its end before depending on anything: damage may show as late as that.
    """
    pending: dict[str, _Pending] = {}
    for entry in entries:
        for part in _parts(entry):
            if not part.table or (tables is not None and part.table not in tables):
                continue
            if part.kind is PartKind.BATCH:
                block = _decoded(entry, part)
                if block.count:
                    yield Replayed(part.table, block, part.txn, part.txn)
            elif part.content:
                rows = pending.setdefault(part.table, _Pending(part.table))
                rows.add(entry, part)
                if rows.size >= block_bytes:
                    yield pending.pop(part.table).to_block()
        if sum(rows.size for rows in pending.values()) >= pending_bytes_max:
            yield from (rows.to_block() for rows in pending.values())
            pending = {}
    yield from (rows.to_block() for rows in pending.values())


class _Pending:
    """Row records of one table that wait to become a block."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._records: list[bytes] = []
        self._places: list[tuple[str, int]] = []
        self.size = 0

    def add(self, entry: Entry, part: Part) -> None:
        self._records.append(bytes(part.content))
        self._places.append((entry.file, entry.body_offset + part.offset))
        self.size += len(part.content)

    def to_block(self) -> Replayed:
        try:
            block = records_to_block(b"".join(self._records))
        except Corruption as error:
            raise self._located(error) from error
        return Replayed(self._table, block, *txn_bounds(block))

    def _located(self, error: Corruption) -> Corruption:
        """The same damage, with the place in the log that it came from."""
        offset = error.offset or 0
        for (file, start), records in zip(self._places, self._records, strict=True):
            if offset < len(records):
                return Corruption(error.reason, file=file, offset=start + offset)
            offset -= len(records)
        raise AssertionError("damage lies outside of what was read") from error


def _in_file(entry: Entry, reason: str, body_offset: int | None) -> Corruption:
    return Corruption(reason, file=entry.file, offset=entry.body_offset + (body_offset or 0))


def _parts(entry: Entry) -> Iterator[Part]:
    try:
        yield from decode_body(entry.body)
    except Corruption as error:
        raise _in_file(entry, error.reason, error.offset) from error


def _decoded(entry: Entry, part: Part) -> Block:
    try:
        return decode_batch(part)
    except Corruption as error:
        raise _in_file(entry, error.reason, error.offset) from error


def unflushed(
    block: Block, rows: RowRange, columns: ColumnSet, marks: Iterable[FlushMark]
) -> Block | None:
    """The cells within rows and columns that no mark covers; ``None`` if there are none.

    Row erasures act on all the columns, so they stay while some of those are not flushed.
    """
    inside = slice_rows(block, rows)
    if not inside.count:
        return None
    wanted = np.array(
        [name == ROW_ERASURE_FAMILY or name in columns for name in block.families], np.bool_
    )
    compiled = CompiledMarks(marks, block.families, columns)
    codes = inside.batch.column("family").indices.to_numpy()
    keep = wanted[codes] & ~compiled.covered(inside)
    if keep.all():
        return inside
    return Block.from_batch(inside.batch.filter(pa.array(keep))) if keep.any() else None
