"""Writes that programs number themselves, and that are recognised for longer than any retry.

A job that may be run again after a day, such as a streaming query that starts from its checkpoint,
gives its writes a *writer*, a name that stays the same over all its lives, and numbers that rise.
The table remembers the last number of each writer, in the very commit that holds the data: a write
whose number is not above it has happened, or a later one has.

It is remembered like any request (``stele.tablet.retries``), by a hidden cell, but in a row of the
writer's own, because nobody says that a write has the same first row when it comes again. The
cell's timestamp lies in the future by as long as it is to be kept: the hidden group drops what is
old.
"""

from __future__ import annotations

from typing import NamedTuple

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.cells import Cell
from stele.model.columns import RETRY_FAMILY
from stele.model.durations import parse_duration
from stele.model.mutations import Record, hidden_put
from stele.model.request_identity import SEQUENCE_MAX, encode_sequence

WRITER_BYTES_MAX = 200
"""A name that people can read; it is the key of a row."""

KEPT_US = parse_duration("400d", "how long a writer is remembered")
"""After its last write: longer than a job that runs once a year may be late."""

_ROW_PREFIX = b"\x00writer "


class NumberedWrite(NamedTuple):
    """Who writes, and the number of the write."""

    writer: str
    sequence: int


class LastWrite(NamedTuple):
    """The last write of a writer, and the txn of its commit."""

    sequence: int
    txn: int


def check_writer(writer: object) -> str:
    """The name itself, or a typed error that says what is wrong with it."""
    if not isinstance(writer, str) or not writer or not writer.isprintable():
        raise InvalidArgument(f"the name of a writer is printable text, not {writer!r:.80}")
    if len(writer.encode()) > WRITER_BYTES_MAX:
        raise LimitExceeded(
            f"the name of a writer, {writer[:32]!r}…, has {len(writer.encode())} bytes; the limit "
            f"is {WRITER_BYTES_MAX}"
        )
    return writer


def check_numbered(write: NumberedWrite) -> NumberedWrite:
    """The write itself, or a typed error that says what is wrong with it."""
    check_writer(write.writer)
    number: object = write.sequence
    is_number = isinstance(number, int) and not isinstance(number, bool)
    if not is_number or not 0 <= write.sequence <= SEQUENCE_MAX:
        raise InvalidArgument(f"the number of a write is 0 to {SEQUENCE_MAX}, not {number!r:.80}")
    return write


def writer_row(writer: str) -> bytes:
    """The row that remembers a writer."""
    return _ROW_PREFIX + writer.encode()


def writer_record(write: NumberedWrite, now_us: int) -> Record:
    """The mutation that remembers a write."""
    row, value = writer_row(write.writer), encode_sequence(write.sequence)
    return hidden_put(row, RETRY_FAMILY, write.writer.encode(), value, now_us + KEPT_US)


def writer_cell(write: NumberedWrite, now_us: int) -> Cell:
    """The same as a cell of a file whose txn is not known yet."""
    row, value = writer_row(write.writer), encode_sequence(write.sequence)
    return Cell(row, RETRY_FAMILY, write.writer.encode(), now_us + KEPT_US, value)
