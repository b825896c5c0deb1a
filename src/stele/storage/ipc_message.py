"""An Arrow IPC message of one record batch, around buffers that stay where they are.

pyarrow's ``serialize`` copies all buffers into one. A log writes several pieces at once anyway, so
all it needs is what stands in front of them: where each buffer begins and how long it is. That is
a flatbuffer, which for one schema always has the same shape; only its numbers differ.

    continuation  0xFFFFFFFF, then the size of the flatbuffer                                   8
    Message       root; table: header, body length, version V5, header type RecordBatch        40
    RecordBatch   table: nodes, buffers, length                                                32
    nodes         count, then (length, nulls) of each column                            8 + 16 × 6
    buffers       count, then (offset, length) of each buffer in the body              8 + 16 × 15

All parts begin at multiples of eight, as do the buffers of the body.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stele.kernels.block import (
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    ROW_BYTES,
    ROW_OFFSETS,
    TIMESTAMPS,
    VALUE_BYTES,
    VALUE_OFFSETS,
    Block,
)
from stele.model.cells import MUTATIONS

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LOGGED = MUTATIONS.set(1, pa.field("family", pa.int16(), nullable=False))
"""The Arrow schema of the message: mutations, whose families are codes."""

_ALIGNMENT = 8
_ZEROS = bytes(_ALIGNMENT)
_NODES = 6
_BUFFERS = 15
_VERSION_5 = 4
_RECORD_BATCH = 3

_CONTINUATION = struct.pack("<II", 0xFFFFFFFF, 424)
_MESSAGE = struct.Struct("<I 6H iIqhBx 4x")
"""Root; table of fields; the table: back to its fields, header, body length, version, type."""
_RECORD = struct.Struct("<5H 2x iIIq 4x")
_COUNT = struct.Struct("<I")
_PAIRS = struct.Struct(f"<{2 * _NODES}q 4x I {2 * _BUFFERS}q")
_FIELDS_OF_MESSAGE = (12, 20, 16, 18, 4, 8)
"""Sizes of the table of fields and of the table, then where each field is in it."""
_FIELDS_OF_RECORD = (10, 20, 12, 4, 8)

_COLUMNS = (
    (ROW_OFFSETS, ROW_BYTES, 4),
    (FAMILY_CODES, None, 2),
    (QUALIFIER_OFFSETS, QUALIFIER_BYTES, 4),
    (TIMESTAMPS, None, 8),
    (OPS, None, 1),
    (VALUE_OFFSETS, VALUE_BYTES, 4),
)


class _Body:
    """Collects the buffers of a body, each filled up, and where they are."""

    def __init__(self) -> None:
        self.buffers: list[ReadableBuffer] = []
        self.places: list[int] = []
        self.size = 0

    def add(self, buffer: ReadableBuffer, size: int) -> None:
        self.places += (self.size, size)
        padding = -size % _ALIGNMENT
        self.size += size + padding
        if size:
            self.buffers.append(buffer)
        if padding:
            self.buffers.append(_ZEROS[:padding])

    def skip(self) -> None:
        """No buffer: nothing here is null."""
        self.places += (self.size, 0)


def record_batch_message(block: Block) -> list[ReadableBuffer]:
    """The message of a block's cells without their txns; its buffers are the block's own memory.

    They keep it alive.
    """
    body, count, owner = _Body(), block.count, block.owner
    for column, data, width in _COLUMNS:
        body.skip()
        address = int(block.descriptor[column])
        if data is None:
            body.add(pa.foreign_buffer(address, width * count, owner), width * count)
            continue
        offsets = pa.foreign_buffer(address, width * (count + 1), owner) if count else _ZEROS[:4]
        ends = np.frombuffer(offsets, np.int32)
        first, size = int(ends[0]), int(ends[-1]) - int(ends[0])
        # Offsets count from the beginning of their own bytes; those of a slice do not yet.
        body.add(offsets if not first else (ends - np.int32(first)).tobytes(), ends.nbytes)
        body.add(pa.foreign_buffer(int(block.descriptor[data]) + first, size, owner), size)
    return [_head(count, body), *body.buffers]


def _head(count: int, body: _Body) -> bytes:
    return b"".join(
        (
            _CONTINUATION,
            _MESSAGE.pack(16, *_FIELDS_OF_MESSAGE, 12, 32, body.size, _VERSION_5, _RECORD_BATCH),
            _RECORD.pack(*_FIELDS_OF_RECORD, 12, 20, 120, count),
            _COUNT.pack(_NODES),
            _PAIRS.pack(*(count, 0) * _NODES, _BUFFERS, *body.places),
        )
    )
