"""Where the columns of a block go in the body of an Arrow IPC message.

The nodes and buffers of a message are pairs of numbers of 64 bits, which one kernel writes as the
message has them: (length, nulls) of each column, then the number of buffers, then (offset, length)
of each buffer in the body. Buffers begin at multiples of eight. Nothing is null, so the buffers for
that are empty. Beside them the kernel notes from where each buffer comes.
"""

from __future__ import annotations

from ctypes import string_at
from typing import NamedTuple

import numpy as np

from stele.kernels.block import (
    COUNT,
    FAMILY_CODES,
    OPS,
    QUALIFIER_OFFSETS,
    ROW_OFFSETS,
    TIMESTAMPS,
    VALUE_OFFSETS,
    Block,
    Descriptor,
    Ints,
)
from stele.kernels.jit import callee, quick
from stele.kernels.memory import address_of, load_i32, load_i64, store_i64

NODES = 6
BUFFERS = 15

# Numbers of words: nodes and the number of buffers, then the buffers, then what is not stored.
_PLACES = 2 * NODES + 1
_SOURCES = _PLACES + 2 * BUFFERS
_BODY_BYTES = _SOURCES + BUFFERS
_WORDS = _BODY_BYTES + 1


class MessageLayout(NamedTuple):
    """What a message says of its body, and what is in it."""

    pairs: bytes
    """Nodes and buffers as the message has them."""
    body_bytes: int
    pieces: list[tuple[int, int]]
    """Address and size of each buffer that is not empty, without what it is filled up with."""
    block: Block
    """Whose memory they are."""


@callee
def _place(words: int, buffer: int, at: int, source: int, size: int) -> int:
    """Note one buffer; where the next one goes."""
    store_i64(words + 8 * (_PLACES + 2 * buffer), at)
    store_i64(words + 8 * (_PLACES + 2 * buffer + 1), size)
    store_i64(words + 8 * (_SOURCES + buffer), source)
    return at + ((size + 7) & -8)


@callee
def _place_column(words: int, buffer: int, at: int, source: int, size: int) -> int:
    """An empty buffer of nulls, then numbers or offsets."""
    return _place(words, buffer + 1, _place(words, buffer, at, 0, 0), source, size)


@callee
def _place_bytes(words: int, buffer: int, at: int, column: int, count: int) -> int:
    """A column of offsets, whose place in the descriptor this is, and the bytes behind them."""
    offsets, data, size = load_i64(column), load_i64(column + 8), 0
    if count > 0:
        size = load_i32(offsets + 4 * count)
    at = _place_column(words, buffer, at, offsets, 4 * (count + 1))
    return _place(words, buffer + 2, at, data, size)


@callee
def _counts_from_zero(block: int, offsets: int) -> bool:
    return load_i32(load_i64(block + 8 * offsets)) == 0


@quick
def _lay_out(descriptor: Descriptor, layout: Ints) -> bool:
    """False if offsets do not count from 0, as those of a slice: then what is noted is wrong."""
    block, words = address_of(descriptor), address_of(layout)
    count = load_i64(block + 8 * COUNT)
    for column in range(NODES):
        store_i64(words + 16 * column, count)
        store_i64(words + 16 * column + 8, 0)
    store_i64(words + 16 * NODES, BUFFERS << 32)
    at = _place_bytes(words, 0, 0, block + 8 * ROW_OFFSETS, count)
    at = _place_column(words, 3, at, load_i64(block + 8 * FAMILY_CODES), 2 * count)
    at = _place_bytes(words, 5, at, block + 8 * QUALIFIER_OFFSETS, count)
    at = _place_column(words, 8, at, load_i64(block + 8 * TIMESTAMPS), 8 * count)
    at = _place_column(words, 10, at, load_i64(block + 8 * OPS), count)
    at = _place_bytes(words, 12, at, block + 8 * VALUE_OFFSETS, count)
    store_i64(words + 8 * _BODY_BYTES, at)
    return count == 0 or (
        _counts_from_zero(block, ROW_OFFSETS)
        and _counts_from_zero(block, QUALIFIER_OFFSETS)
        and _counts_from_zero(block, VALUE_OFFSETS)
    )


def message_layout(block: Block) -> MessageLayout:
    """How the cells of a block, without their txns, become a message. No cell is copied."""
    layout = np.empty(_WORDS, np.int64)
    if not _lay_out(block.descriptor, layout):
        block = _from_zero(block)
        _lay_out(block.descriptor, layout)
    words: list[int] = layout.tolist()
    sizes = words[_PLACES + 1 : _SOURCES : 2]
    pieces = [piece for piece in zip(words[_SOURCES:_BODY_BYTES], sizes, strict=True) if piece[1]]
    return MessageLayout(layout[:_SOURCES].tobytes(), words[_BODY_BYTES], pieces, block)


def _from_zero(block: Block) -> Block:
    """The same cells with offsets that count from the beginning of their own bytes."""
    descriptor = block.descriptor.copy()
    copies = []
    for column in (ROW_OFFSETS, QUALIFIER_OFFSETS, VALUE_OFFSETS):
        address = int(block.descriptor[column])
        offsets = np.frombuffer(string_at(address, 4 * (block.count + 1)), np.int32)
        copies.append(offsets - offsets[0])
        descriptor[column] = copies[-1].ctypes.data
        descriptor[column + 1] += offsets[0]
    return Block(descriptor, block.families, (block.owner, copies))
