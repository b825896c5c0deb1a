"""The page headers of one row group, walked by a kernel and held to the shape we write.

Each page of a Parquet file begins with a header in Thrift's compact protocol: fields tagged with a
type and the distance to the field before, integers as zigzag varints, a zero byte at the end of a
struct. One call walks the whole row group, checks that its pages are exactly those of the cells
layout, in order and with sizes that fit, and lays out the arena they will be decompressed into.

    page        encoding         uncompressed size
    row         delta length     any
    (families)  plain            any: the dictionary of the family column
    family      dictionary       any
    qualifier   delta length     any
    timestamp   plain            8 for each cell
    txn         plain            8 for each cell
    op          plain            4 for each cell
    value       delta length     any

Nothing that the bytes say is used as an address or a size before it has been compared with what is
there; a walk over damaged or hostile bytes ends in a negative status.
"""

from __future__ import annotations

from stele.kernels.block import Ints
from stele.kernels.jit import callee, quick
from stele.kernels.memory import address_of, load_i64, load_u8, store_i64

ROW_PAGE = 0
FAMILIES_PAGE = 1
FAMILY_PAGE = 2
QUALIFIER_PAGE = 3
TIMESTAMP_PAGE = 4
TXN_PAGE = 5
OP_PAGE = 6
VALUE_PAGE = 7
KEY_PAGES = 7
"""Pages of all columns but the value, which comes last so that keys can be read without it."""
ALL_PAGES = 8

# One row of the page table, all int64.
BODY = 0  # where the compressed bytes begin, from the start of the row group
COMPRESSED = 1
UNCOMPRESSED = 2
VALUES = 3
ENCODING = 4
KIND = 5
PLACE = 6  # where the uncompressed bytes belong, from the start of the arena
TABLE_WIDTH = 8

TRUNCATED = -1
MALFORMED = -2
FOREIGN = -3
MISCOUNTED = -4
OVERSIZED = -5
TRAILING = -6

WALK_REASONS = {
    TRUNCATED: "a page is longer than the row group",
    MALFORMED: "a page header cannot be read",
    FOREIGN: "a page has another kind or encoding than the cells layout",
    MISCOUNTED: "a page has another number of values than the row group has cells",
    OVERSIZED: "a page has an impossible size",
    TRAILING: "there are bytes behind the last page",
}

PAGE_BYTES_MAX = 256 * 1024 * 1024
"""Uncompressed, one page. A row group is cut far below it; only one huge value comes near."""

ALIGNMENT = 64
OVERRUN_BYTES = 8
"""How far a wide load may read past the end of a page."""

_DATA_PAGE = 0
DICTIONARY_PAGE = 2
_PLAIN = 0
_DELTA_LENGTH = 6
_RLE_DICTIONARY = 8

KINDS = (
    _DATA_PAGE,
    DICTIONARY_PAGE,
    _DATA_PAGE,
    _DATA_PAGE,
    _DATA_PAGE,
    _DATA_PAGE,
    _DATA_PAGE,
    _DATA_PAGE,
)
ENCODINGS = (
    _DELTA_LENGTH,
    _PLAIN,
    _RLE_DICTIONARY,
    _DELTA_LENGTH,
    _PLAIN,
    _PLAIN,
    _PLAIN,
    _DELTA_LENGTH,
)
_WIDTHS = (0, 0, 0, 0, 8, 8, 4, 0)

# Thrift compact types, as far as page headers use them.
_TRUE = 1
_FALSE = 2
_BYTE = 3
_I16 = 4
_I64 = 6
_DOUBLE = 7
_BINARY = 8
_STRUCT = 12

# Fields of PageHeader that hold a header of one kind of page.
_DATA_HEADER = 5
_DICTIONARY_HEADER = 7

_DEPTH_MAX = 3  # PageHeader, DataPageHeader, Statistics


@callee
def read_varint(address: int, end: int) -> tuple[int, int]:
    """An unsigned varint and the address behind it; address 0 when it does not end in time."""
    value = 0
    shift = 0
    while address < end and shift < 64:
        byte = load_u8(address)
        address += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, address
        shift += 7
    return 0, 0


@callee
def zigzag(value: int) -> int:
    """The signed number that an unsigned varint stands for."""
    return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)


@callee
def _skip(kind: int, address: int, end: int) -> int:
    """The address behind a value that is no integer and no struct; 0 when there is none."""
    if kind in (_TRUE, _FALSE):
        return address
    size = 0
    if kind == _BYTE:
        size = 1
    elif kind == _DOUBLE:
        size = 8
    elif kind == _BINARY:
        size, address = read_varint(address, end)
        if address == 0:
            return 0
    else:
        return 0
    if size < 0 or size > end - address:
        return 0
    return address + size


@callee
def _slot(depth: int, outer: int, field: int) -> int:
    """Where in the page table an integer of a header belongs; -1 for one we do not need."""
    if depth == 1:
        if field == 1:
            return KIND
        if field == 2:
            return UNCOMPRESSED
        if field == 3:
            return COMPRESSED
    elif depth == 2 and outer in (_DATA_HEADER, _DICTIONARY_HEADER):
        if field == 1:
            return VALUES
        if field == 2:
            return ENCODING
    return -1


@callee
def _read_header(address: int, end: int, entry: int) -> int:
    """Read one page header into its row of the table; the address behind it, or 0."""
    for slot in range(TABLE_WIDTH):
        store_i64(entry + 8 * slot, -1)
    depth = 1
    outer = 0
    outer_last = 0
    inner_last = 0
    while address < end:
        byte = load_u8(address)
        address += 1
        if byte == 0:
            depth -= 1
            if depth == 0:
                return address
            continue
        kind = byte & 15
        field = byte >> 4
        if field == 0:
            raw, address = read_varint(address, end)
            if address == 0:
                return 0
            field = zigzag(raw)
        else:
            field += outer_last if depth == 1 else inner_last
        if depth == 1:
            outer_last = field
        else:
            inner_last = field
        if _I16 <= kind <= _I64:
            raw, address = read_varint(address, end)
            if address == 0:
                return 0
            slot = _slot(depth, outer, field)
            if slot >= 0:
                store_i64(entry + 8 * slot, zigzag(raw))
        elif kind == _STRUCT:
            if depth == _DEPTH_MAX:
                return 0
            if depth == 1:
                outer = field
            # Statistics are the last field of their struct, so its count need not be kept.
            inner_last = 0
            depth += 1
        else:
            address = _skip(kind, address, end)
            if address == 0:
                return 0
    return 0


@callee
def _check_page(entry: int, page: int, cells: int, room: int) -> int:
    """0 when a page is the one that belongs there and its sizes are possible."""
    if load_i64(entry + 8 * KIND) != KINDS[page]:
        return FOREIGN
    if load_i64(entry + 8 * ENCODING) != ENCODINGS[page]:
        return FOREIGN
    if page != FAMILIES_PAGE and load_i64(entry + 8 * VALUES) != cells:
        return MISCOUNTED
    compressed = load_i64(entry + 8 * COMPRESSED)
    uncompressed = load_i64(entry + 8 * UNCOMPRESSED)
    if compressed < 0 or compressed > room:
        return TRUNCATED
    if uncompressed < 0 or uncompressed > PAGE_BYTES_MAX:
        return OVERSIZED
    if _WIDTHS[page] and uncompressed != _WIDTHS[page] * cells:
        return OVERSIZED
    return 0


@quick
def walk_pages(address: int, readable: int, length: int, cells: int, pages: int, table: int) -> int:
    """Fill the page table of a row group; bytes of arena its pages need, or a negative status.

    ``table`` is the address of ``pages`` rows of ``TABLE_WIDTH`` int64. ``pages`` is
    ``KEY_PAGES`` or ``ALL_PAGES``, and the row group of ``length`` bytes must be those pages
    exactly. Only its first ``readable`` bytes need to be at ``address``: headers must lie in them.
    """
    position = address
    end = address + length
    readable_end = address + min(readable, length)
    place = 0
    for page in range(pages):
        entry = table + 8 * TABLE_WIDTH * page
        position = _read_header(position, readable_end, entry)
        if position == 0:
            return MALFORMED
        status = _check_page(entry, page, cells, end - position)
        if status < 0:
            return status
        store_i64(entry + 8 * BODY, position - address)
        store_i64(entry + 8 * PLACE, place)
        place += load_i64(entry + 8 * UNCOMPRESSED) + OVERRUN_BYTES + ALIGNMENT - 1
        place -= place % ALIGNMENT
        position += load_i64(entry + 8 * COMPRESSED)
    if position != end:
        return TRAILING
    return place


@quick
def walk_chunks(address: int, length: int, rows: int, entry: Ints, sizes: Ints) -> int:
    """The bytes of each column of a row group, pages with their headers; 0, or a negative status.

    Any kinds and encodings of pages will do: the pages of a column end when they have a value, or a
    null, for each row. ``entry`` is working memory, one row of a page table.
    """
    position, end = address, address + length
    header = address_of(entry)
    for column in range(len(sizes)):
        start, values = position, 0
        while values < rows:
            position = _read_header(position, end, header)
            if position == 0:
                return MALFORMED
            compressed = entry[COMPRESSED]
            if compressed < 0 or compressed > end - position:
                return TRUNCATED
            position += compressed
            if entry[KIND] == _DATA_PAGE:
                if entry[VALUES] <= 0:
                    return MISCOUNTED
                values += entry[VALUES]
            elif entry[KIND] != DICTIONARY_PAGE:
                return FOREIGN
        if values != rows:
            return MISCOUNTED
        sizes[column] = position - start
    return 0 if position == end else TRAILING
