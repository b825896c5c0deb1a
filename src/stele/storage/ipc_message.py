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

import pyarrow as pa

from stele.kernels.block import Block
from stele.kernels.message_layout import NODES, message_layout
from stele.model.cells import MUTATIONS

LOGGED = MUTATIONS.set(1, pa.field("family", pa.int16(), nullable=False))
"""The Arrow schema of the message: mutations, whose families are codes."""

_ALIGNMENT = 8
_ZEROS = bytes(_ALIGNMENT)
_VERSION_5 = 4
_RECORD_BATCH = 3

_CONTINUATION = struct.pack("<II", 0xFFFFFFFF, 424)
_MESSAGE = struct.Struct("<I 6H iIqhBx 4x")
"""Root; table of fields; the table: back to its fields, header, body length, version, type."""
_RECORD = struct.Struct("<5H 2x iIIq 4x")
_COUNT = struct.Struct("<I")
_FIELDS_OF_MESSAGE = (12, 20, 16, 18, 4, 8)
"""Sizes of the table of fields and of the table, then where each field is in it."""
_FIELDS_OF_RECORD = (10, 20, 12, 4, 8)


def record_batch_message(block: Block) -> list[bytes | pa.Buffer]:
    """The message of a block's cells without their txns; its buffers are the block's own memory.

    They keep it alive.
    """
    pairs, body_bytes, pieces, source = message_layout(block)
    message: list[bytes | pa.Buffer] = [_head(block.count, body_bytes, pairs)]
    for address, size in pieces:
        whole = pa.foreign_buffer(address, size, source.owner) if block.count else _ZEROS[:size]
        message.append(whole)
        if size % _ALIGNMENT:
            message.append(_ZEROS[: -size % _ALIGNMENT])
    return message


def _head(count: int, body_bytes: int, pairs: bytes) -> bytes:
    return b"".join(
        (
            _CONTINUATION,
            _MESSAGE.pack(16, *_FIELDS_OF_MESSAGE, 12, 32, body_bytes, _VERSION_5, _RECORD_BATCH),
            _RECORD.pack(*_FIELDS_OF_RECORD, 12, 20, 120, count),
            _COUNT.pack(NODES),
            pairs,
        )
    )
