"""Commits in a frame: a few cells as msgpack records, more of them as Arrow IPC.

A record is the tuple that ``stele.model.mutations`` sorts by. What comes in is built anew, by the
calls that check a user's mutations: a record proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from stele.errors import InvalidCells
from stele.model.arrow_ipc import decode_ipc, encode_ipc
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Op
from stele.model.mutations import MutationBatch, Record

if TYPE_CHECKING:
    from stele.rpc.framing import Buffer

RECORDS_MAX: Final = 64
"""Above this an Arrow message is shorter and quicker than records."""


def encode_mutations(
    mutations: MutationBatch | pa.RecordBatch,
) -> tuple[tuple[Record, ...] | None, memoryview | None]:
    """Records, or an attachment: one of the two."""
    if isinstance(mutations, MutationBatch):
        if len(mutations) <= RECORDS_MAX:
            return tuple(mutations.records()), None
        mutations = mutations.to_arrow()
    return None, memoryview(encode_ipc(mutations))


def decode_records(records: Iterable[Record]) -> MutationBatch:
    """The mutations that records describe, each checked."""
    batch = MutationBatch()
    for row, family, _, qualifier, negated, op, value in records:
        timestamp = -negated
        if op == Op.PUT:
            batch.put(
                row, family, qualifier, value, None if timestamp == TIMESTAMP_MAX else timestamp
            )
        elif op == Op.ERASE_ROW:
            batch.erase_row(row, timestamp)
        elif op == Op.ERASE_FAMILY:
            batch.erase_family(row, family, timestamp)
        elif op == Op.ERASE_COLUMN:
            batch.erase_column(row, family, qualifier, timestamp)
        elif op == Op.ERASE_CELL:
            batch.erase_cell(row, family, qualifier, timestamp)
        else:
            raise InvalidCells(f"operation {op} at row {row[:64]!r} is not known")
    return batch


def decode_attachment(data: Buffer) -> pa.RecordBatch:
    """The ``MUTATIONS`` batch in an attachment; its order and meaning are the store's to check."""
    return decode_ipc(data, schemas=(MUTATIONS,))
