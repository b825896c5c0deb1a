"""Uncompressed Parquet pages into a block, in one kernel call and with hardly a copy.

The encodings were chosen for this. DELTA_LENGTH keeps all lengths in front and all bytes behind
them in one piece, which is Arrow's own layout once the lengths have been summed; plain integers are
used where they lie. What is written anew, behind the pages in the same arena, is 15 bytes a cell:

    row offsets   qualifier offsets   value offsets   family codes   ops
    int32         int32               int32           int16          int8

The pages come from a file. Every length, count, width and code is checked before it is used to make
an address; what does not fit ends in a negative status. Wide loads may run past the end of a page
by ``OVERRUN_BYTES``, which the arena's layout leaves room for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stele.kernels.block import (
    COUNT,
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    ROW_BYTES,
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_BYTES,
    VALUE_OFFSETS,
)
from stele.kernels.jit import callee, quick
from stele.kernels.memory import (
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    store_i8,
    store_i16,
    store_i32,
)
from stele.kernels.parquet_thrift import (
    ALIGNMENT,
    ALL_PAGES,
    FAMILY_PAGE,
    OP_PAGE,
    OVERRUN_BYTES,
    PLACE,
    QUALIFIER_PAGE,
    ROW_PAGE,
    TABLE_WIDTH,
    TIMESTAMP_PAGE,
    TXN_PAGE,
    UNCOMPRESSED,
    VALUE_PAGE,
    read_varint,
    zigzag,
)

BAD_ROWS = -1
BAD_FAMILIES = -2
BAD_QUALIFIERS = -3
BAD_OPS = -4
BAD_VALUES = -5

DECODE_REASONS = {
    BAD_ROWS: "the lengths in the row page do not fit its size",
    BAD_FAMILIES: "the family page names a family that the file does not have",
    BAD_QUALIFIERS: "the lengths in the qualifier page do not fit its size",
    BAD_OPS: "the op page holds a number that is no op",
    BAD_VALUES: "the lengths in the value page do not fit its size",
}

_OP_MAX = 4
_LENGTH_MAX = 1 << 31
"""Above any page; keeps sums of lengths from overflowing before they are compared with the page."""
_LENGTH_BITS_MAX = 32
_CODE_BITS_MAX = 16
_RUN_PADDING_MAX = 64
"""Groups of eight by which the last bit-packed run may exceed what is left to read."""
_DELTA_BLOCK_MAX = 65_536
_DELTA_BLOCK_UNIT = 128
_DELTA_MINIBLOCK_UNIT = 32


def arena_bytes(page_bytes: int, cells: int) -> int:
    """How large the arena of a row group is: its pages, then what decoding adds."""
    offsets = _aligned(4 * (cells + 1))
    codes = _aligned(2 * cells)
    return page_bytes + 3 * offsets + codes + _aligned(cells) + OVERRUN_BYTES


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@callee
def _round_up(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@callee
def _unpack_lengths(
    packed: int, width: int, count: int, low: int, length: int, total: int, offsets: int
) -> tuple[int, int, int]:
    """Add ``count`` packed deltas to the running length, and each length to the running total.

    Returns the last length, the total, and a number that is negative if any length is impossible.
    """
    mask = (np.int64(1) << width) - 1
    sign = 0
    bit = 0
    for index in range(count):
        delta = 0
        if width:
            word = load_u64(packed + (bit >> 3)) >> np.uint64(bit & 7)
            delta = int(np.int64(word) & mask)
            bit += width
        length += low + delta
        sign |= length | (_LENGTH_MAX - length)
        total += length
        store_i32(offsets + 4 * index, total)
    return length, total, sign


@callee
def _decode_lengths(address: int, end: int, cells: int, offsets: int) -> int:
    """DELTA_BINARY_PACKED lengths into ``cells + 1`` offsets; the address of the bytes, or 0.

    All lengths must be non-negative and add up to exactly what is left of the page, so that every
    offset is within it.
    """
    block, address = read_varint(address, end)
    if address == 0 or block <= 0 or block > _DELTA_BLOCK_MAX or block % _DELTA_BLOCK_UNIT:
        return 0
    miniblocks, address = read_varint(address, end)
    if address == 0 or miniblocks <= 0 or block % miniblocks:
        return 0
    size = block // miniblocks
    if size % _DELTA_MINIBLOCK_UNIT:
        return 0
    count, address = read_varint(address, end)
    if address == 0 or count != cells:
        return 0
    raw, address = read_varint(address, end)
    if address == 0:
        return 0
    length = zigzag(raw)
    total = length
    sign = length | (_LENGTH_MAX - length)
    store_i32(offsets, 0)
    store_i32(offsets + 4, total)
    done = 1
    while done < cells:
        raw, address = read_varint(address, end)
        if address == 0 or miniblocks > end - address:
            return 0
        low = zigzag(raw)
        widths = address
        address += miniblocks
        for mini in range(miniblocks):
            if done >= cells:
                break
            width = load_u8(widths + mini)
            if width > _LENGTH_BITS_MAX or size * width // 8 > end - address:
                return 0
            here = min(size, cells - done)
            length, total, negative = _unpack_lengths(
                address, width, here, low, length, total, offsets + 4 * (done + 1)
            )
            sign |= negative
            if sign < 0 or total > end - address:
                return 0
            done += here
            address += size * width // 8
    if sign < 0 or total != end - address:
        return 0
    return address


@callee
def _fill_codes(codes: int, count: int, code: int) -> None:
    for index in range(count):
        store_i16(codes + 2 * index, code)


@callee
def _unpack_codes(packed: int, width: int, count: int, names: int, lut: int, codes: int) -> int:
    """Bit-packed dictionary indexes into family codes; 0, or -1 for an index without a name."""
    mask = (np.int64(1) << width) - 1
    bit = 0
    for index in range(count):
        word = load_u64(packed + (bit >> 3)) >> np.uint64(bit & 7)
        name = np.int64(word) & mask
        if name >= names:
            return -1
        code = load_i16(lut + 2 * name)
        if code < 0:
            return -1
        store_i16(codes + 2 * index, code)
        bit += width
    return 0


@callee
def _decode_codes(address: int, end: int, cells: int, names: int, lut: int, codes: int) -> int:
    """The RLE and bit-packed runs of a dictionary column into family codes; 0, or -1."""
    if address >= end:
        return -1
    width = load_u8(address)
    address += 1
    if width > _CODE_BITS_MAX:
        return -1
    done = 0
    while done < cells:
        header, address = read_varint(address, end)
        if address == 0:
            return -1
        run = header >> 1
        if run <= 0:
            return -1
        if header & 1:
            if run > cells + _RUN_PADDING_MAX or run * width > end - address:
                return -1
            here = min(8 * run, cells - done)
            if _unpack_codes(address, width, here, names, lut, codes + 2 * done) < 0:
                return -1
            address += run * width
        else:
            size = (width + 7) // 8
            if run > cells - done or size > end - address:
                return -1
            name = 0
            for byte in range(size):
                name |= load_u8(address + byte) << (8 * byte)
            if name >= names or load_i16(lut + 2 * name) < 0:
                return -1
            here = run
            _fill_codes(codes + 2 * done, here, load_i16(lut + 2 * name))
            address += size
        done += here
    return 0


@callee
def _narrow_ops(page: int, cells: int, ops: int) -> int:
    """32-bit ops into 8 bits; 0, or -1 when one of them is no op."""
    wrong = 0
    for index in range(cells):
        op = load_i32(page + 4 * index)
        wrong |= op | (_OP_MAX - op)
        store_i8(ops + index, op)
    return -1 if wrong < 0 else 0


@callee
def _page(table: int, arena: int, page: int) -> int:
    place: int = load_i64(table + 8 * (TABLE_WIDTH * page + PLACE))
    return arena + place


@callee
def _page_end(table: int, arena: int, page: int) -> int:
    size: int = load_i64(table + 8 * (TABLE_WIDTH * page + UNCOMPRESSED))
    return _page(table, arena, page) + size


@quick
def decode_pages(
    table: int,
    arena: int,
    page_bytes: int,
    cells: int,
    pages: int,
    names: int,
    lut: int,
    descriptor: npt.NDArray[np.int64],
) -> int:
    """Decode the pages that lie in the arena and describe the block they make; 0, or a status.

    ``table`` and ``page_bytes`` are what ``walk_pages`` found, ``lut`` the address of ``names``
    int16: the family code of each name in the row group's dictionary, negative for one that must
    not occur. With ``KEY_PAGES`` the block's values are all empty.
    """
    size = _round_up(4 * (cells + 1))
    row_offsets = arena + page_bytes
    qualifier_offsets = row_offsets + size
    value_offsets = qualifier_offsets + size
    codes = value_offsets + size
    ops = codes + _round_up(2 * cells)

    rows = _decode_lengths(
        _page(table, arena, ROW_PAGE), _page_end(table, arena, ROW_PAGE), cells, row_offsets
    )
    if rows == 0:
        return BAD_ROWS
    family, family_end = _page(table, arena, FAMILY_PAGE), _page_end(table, arena, FAMILY_PAGE)
    if _decode_codes(family, family_end, cells, names, lut, codes) < 0:
        return BAD_FAMILIES
    qualifiers = _decode_lengths(
        _page(table, arena, QUALIFIER_PAGE),
        _page_end(table, arena, QUALIFIER_PAGE),
        cells,
        qualifier_offsets,
    )
    if qualifiers == 0:
        return BAD_QUALIFIERS
    if _narrow_ops(_page(table, arena, OP_PAGE), cells, ops) < 0:
        return BAD_OPS
    values = arena
    if pages == ALL_PAGES:
        values = _decode_lengths(
            _page(table, arena, VALUE_PAGE),
            _page_end(table, arena, VALUE_PAGE),
            cells,
            value_offsets,
        )
        if values == 0:
            return BAD_VALUES
    else:
        for index in range(cells + 1):
            store_i32(value_offsets + 4 * index, 0)

    descriptor[ROW_OFFSETS] = row_offsets
    descriptor[ROW_BYTES] = rows
    descriptor[FAMILY_CODES] = codes
    descriptor[QUALIFIER_OFFSETS] = qualifier_offsets
    descriptor[QUALIFIER_BYTES] = qualifiers
    descriptor[TIMESTAMPS] = _page(table, arena, TIMESTAMP_PAGE)
    descriptor[TXNS] = _page(table, arena, TXN_PAGE)
    descriptor[OPS] = ops
    descriptor[VALUE_OFFSETS] = value_offsets
    descriptor[VALUE_BYTES] = values
    descriptor[COUNT] = cells
    return 0
