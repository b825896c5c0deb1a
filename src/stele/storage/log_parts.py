"""What is in an entry: the commits that one sync made durable, as parts.

    rows      all row records of one table in this entry, of many small commits (see
              ``stele.kernels.row_records``); each record carries its txn
    batch     one commit as an Arrow record batch. Its message has no place for dictionaries, so
              the family column holds int16 codes and the names stand in front of it; the txn
              stands in the part's head, not in every cell
    clock     no cells: the server's clock has reached this txn
    release   log files below the one named are needed by nobody

A commit is encoded by whoever makes it, in its own thread; the log only puts parts together. Rows
and batches may hold puts with ``TIMESTAMP_MAX``, which take their txn as timestamp when they
are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from crc32c import crc32c

from stele.errors import Corruption, InvalidArgument, LimitExceeded
from stele.kernels.block import FAMILY_LISTS_KEPT, Block, Families
from stele.model.cell_order import first_disorder
from stele.model.cells import CELLS, TIMESTAMP_MAX, Op
from stele.model.limits import BATCH_CELLS_MAX, FAMILIES_MAX
from stele.model.mutations import settle
from stele.storage.ipc_message import LOGGED, record_batch_message
from stele.storage.log_format import ALIGNMENT, COMMIT_BYTES_MAX, padded

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TABLE_BYTES_MAX = 255
TABLES_KEPT = 1_024
"""Names that were checked and encoded before: a log writes the same few again and again."""

_PART_HEAD = struct.Struct("<BBHIq")
PART_HEAD_BYTES = _PART_HEAD.size
_FAMILY_COUNT = struct.Struct("<H")
_RELEASE = struct.Struct("<Q")
_ZEROS = bytes(ALIGNMENT)

JOIN_BYTES_MAX = 64 * 1024
"""Smaller bodies are copied into one piece: that is quicker than many pieces on their way."""

GIL_KEPT_BYTES_MAX = 1024 * 1024
"""Whoever gives the GIL up between two pieces of a body waits for others to give it back, several
times as long as the checksum takes. Larger bodies would stop everybody for too long."""
GIL_KEPT, GIL_RELEASED = 0, 1

_UNREADABLE = (pa.ArrowException, OSError, EOFError, ValueError, struct.error, IndexError)


class PartKind(IntEnum):
    """The numbers are stored."""

    ROWS = 1
    BATCH = 2
    CLOCK = 3
    RELEASE = 4


_ROWS = PartKind.ROWS
"""Asking the enum for its member takes as long as all the rest of a small commit."""


class Commit(msgspec.Struct, frozen=True):
    """One commit on its way into the log. ``content`` is encoded already and never changes."""

    kind: PartKind
    txn: int
    table: str
    content: tuple[ReadableBuffer, ...]
    size: int


def rows_commit(table: str, txn: int, records: Sequence[bytes]) -> Commit:
    """A small commit: its row records, all of which carry ``txn``."""
    assert records, "a commit without cells is a clock"
    size = len(records[0]) if len(records) == 1 else sum(map(len, records))
    if size > COMMIT_BYTES_MAX:
        raise _too_large(size)
    return Commit(_ROWS, txn, _check_table(table), tuple(records), size)


def batch_commit(table: str, txn: int, content: tuple[bytes | pa.Buffer, ...]) -> Commit:
    """A commit of cells that :func:`encode_block` has encoded."""
    size = sum(map(len, content))
    if size > COMMIT_BYTES_MAX:
        raise _too_large(size)
    return Commit(PartKind.BATCH, txn, _check_table(table), content, size)


def clock_commit(txn: int) -> Commit:
    """No cells: everything read at ``txn`` from now on has been promised."""
    return Commit(PartKind.CLOCK, txn, "", (), 0)


def release_commit(txn: int, first_needed: int) -> Commit:
    """From now on the files below ``first_needed`` may be missing."""
    return Commit(PartKind.RELEASE, txn, "", (_RELEASE.pack(first_needed),), _RELEASE.size)


def released_file(commit: Commit) -> int:
    """The first file that a release commit still needs."""
    (first_needed,) = _RELEASE.unpack(commit.content[0])
    return int(first_needed)


@lru_cache(TABLES_KEPT)
def _check_table(table: str) -> str:
    if not 0 < len(table.encode()) <= TABLE_BYTES_MAX:
        raise InvalidArgument(f"table id {table[:80]!r} is not 1 to {TABLE_BYTES_MAX} bytes long")
    return table


def _too_large(size: int) -> LimitExceeded:
    return LimitExceeded(f"commit of {size} bytes is over the limit of {COMMIT_BYTES_MAX} bytes")


def encode_block(block: Block) -> tuple[bytes | pa.Buffer, ...]:
    """Cells or mutations as the content of a batch part. Txns are left out.

    Nothing is copied: the content is the block's own memory, and keeps it alive.
    """
    return families_head(block.families), *record_batch_message(block)


@lru_cache(FAMILY_LISTS_KEPT)
def families_head(families: Families) -> bytes:
    """How the content of a batch part begins, filled up."""
    names = [name.encode() for name in families]
    head = _FAMILY_COUNT.pack(len(names)) + b"".join(bytes([len(n)]) + n for n in names)
    return head + bytes(padded(len(head)) - len(head))


class Span(NamedTuple):
    """What an entry holds of one table."""

    table: str
    txn_min: int
    txn_max: int
    size: int


class Body(NamedTuple):
    """An encoded body. All parts are filled up, so it needs no padding of its own."""

    buffers: list[ReadableBuffer]
    size: int
    checksum: int
    txns: tuple[int, int]
    commits: int
    spans: tuple[Span, ...]
    has_release: bool


def encode_body(commits: Sequence[Commit], clock: int) -> Body:
    """Put commits together. An entry without any has ``clock`` for its txns."""
    rows: dict[str, _Rows] = {}
    buffers: list[ReadableBuffer] = []
    spans: list[Span] = []
    size = 0
    has_release = False
    for commit in commits:
        if commit.kind is _ROWS:
            group = rows.get(commit.table)
            if group is None:
                group = rows[commit.table] = _Rows(commit.txn)
            group.records += commit.content
            group.size += commit.size
            group.txn_max = commit.txn
            continue
        size += _append_part(
            buffers, commit.kind, commit.txn, commit.table, commit.content, commit.size
        )
        has_release |= commit.kind is PartKind.RELEASE
        if commit.kind is PartKind.BATCH:
            spans.append(Span(commit.table, commit.txn, commit.txn, commit.size))
    for table, group in rows.items():
        size += _append_part(
            buffers, PartKind.ROWS, group.txn_max, table, group.records, group.size
        )
        spans.append(Span(table, group.txn_min, group.txn_max, group.size))
    if size <= JOIN_BYTES_MAX:
        buffers = [b"".join(buffers)]
    checksum = 0
    mode = GIL_KEPT if size <= GIL_KEPT_BYTES_MAX else GIL_RELEASED
    for buffer in buffers:
        checksum = crc32c(buffer, checksum, gil_release_mode=mode)
    txns = (commits[0].txn, commits[-1].txn) if commits else (clock, clock)
    return Body(buffers, size, checksum, txns, len(commits), tuple(spans), has_release)


class _Rows:
    """All row records of one table in an entry."""

    __slots__ = ("records", "size", "txn_max", "txn_min")

    def __init__(self, txn: int) -> None:
        self.txn_min = self.txn_max = txn
        self.records: list[ReadableBuffer] = []
        self.size = 0


def _append_part(
    buffers: list[ReadableBuffer],
    kind: PartKind,
    txn: int,
    table: str,
    content: Sequence[ReadableBuffer],
    size: int,
) -> int:
    """Head, table and content, each filled up to the alignment; returns how much that is."""
    length, filled = _table_name(table)
    buffers.append(_PART_HEAD.pack(kind, length, 0, size, txn) + filled)
    buffers.extend(content)
    padding = -size % ALIGNMENT
    if padding:
        buffers.append(_ZEROS[:padding])
    return PART_HEAD_BYTES + len(filled) + size + padding


@lru_cache(TABLES_KEPT)
def _table_name(table: str) -> tuple[int, bytes]:
    """How long a table's id is, and the id filled up."""
    name = table.encode()
    return len(name), name + _ZEROS[: -len(name) % ALIGNMENT]


class Part(NamedTuple):
    """One part of a body as it was read."""

    kind: PartKind
    table: str
    txn: int
    content: memoryview
    offset: int
    """Of the content, within the body."""


def decode_body(body: memoryview) -> Iterator[Part]:
    """The parts of a body; :class:`Corruption` has an offset within the body.

    Bodies are checksummed, so what is found wrong here was written wrong. It is checked all the
    same: a decoder that trusts lengths is one bug away from reading somebody else's memory.
    """
    offset = 0
    while offset < len(body):
        try:
            number, table_bytes, _, size, txn = _PART_HEAD.unpack_from(body, offset)
            kind = PartKind(number)
            table_at = offset + PART_HEAD_BYTES
            content_at = table_at + padded(table_bytes)
            end = content_at + padded(size)
            table = str(body[table_at : table_at + table_bytes], "utf-8")
        except (struct.error, ValueError) as error:
            raise Corruption(f"part of an entry is not readable: {error}", offset=offset) from error
        if end > len(body):
            raise Corruption("part of an entry is longer than the entry", offset=offset)
        yield Part(kind, table, txn, body[content_at : content_at + size], content_at)
        offset = end


def decode_batch(part: Part) -> Block:
    """The cells of a batch part, with their txn, sharing memory with the body."""
    try:
        families, start = _decode_families(part.content)
        buffer = pa.py_buffer(part.content[start:])
        batch = pa.ipc.read_record_batch(buffer, LOGGED)
        batch.validate(full=True)
        return _to_block(batch, families, part.txn)
    except _UNREADABLE as error:
        raise Corruption(f"batch is not readable: {error}", offset=part.offset) from error


def _decode_families(content: memoryview) -> tuple[list[str], int]:
    (count,) = _FAMILY_COUNT.unpack_from(content)
    offset = _FAMILY_COUNT.size
    names = []
    for _ in range(min(count, FAMILIES_MAX + 1)):
        length = content[offset]
        names.append(str(content[offset + 1 : offset + 1 + length], "utf-8"))
        offset += 1 + length
    return names, padded(offset)


def _to_block(batch: pa.RecordBatch, families: Iterable[str], txn: int) -> Block:
    names = pa.array(families, pa.utf8())
    cells_max = BATCH_CELLS_MAX + 1  # and the trace of who sent it
    if batch.num_rows > cells_max or any(column.null_count for column in batch.columns):
        raise pa.ArrowInvalid("a batch of cells has no nulls and a bounded number of cells")
    row, codes, qualifier, timestamp, op, value = batch.columns
    family = pa.DictionaryArray.from_arrays(codes, names, safe=True)
    stamps, ops = timestamp.to_numpy(), op.to_numpy()
    if batch.num_rows and not (ops.min() >= 0 and ops.max() <= max(Op)):
        raise pa.ArrowInvalid("a cell has an op that does not exist")
    unset = (stamps == TIMESTAMP_MAX) & (ops == Op.PUT)
    if unset.any():
        timestamp = pa.array(np.where(unset, txn, stamps), pa.int64())
    txns = pa.array(np.full(batch.num_rows, txn, np.int64))
    columns = [row, family, qualifier, timestamp, txns, op, value]
    cells = pa.RecordBatch.from_arrays(columns, schema=CELLS)
    if unset.any() and first_disorder(cells) >= 0:  # next to a put with a timestamp in the future
        cells = settle(cells)
    return Block.from_batch(cells)


def decode_release(part: Part) -> int:
    """The first file that a release part still needs."""
    try:
        (first_needed,) = _RELEASE.unpack(part.content)
    except struct.error as error:
        raise Corruption(f"release is not readable: {error}", offset=part.offset) from error
    return int(first_needed)
