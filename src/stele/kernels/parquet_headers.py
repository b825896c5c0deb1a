"""Page headers and row groups of a Parquet footer, written in Thrift's compact protocol.

The counterpart of ``parquet_thrift``: the pages are those of the cells layout, so their headers
differ in sizes, checksums and counts alone. A footer describes every column of every row group,
thousands of structs in a large file; what is the same in each of them is copied from a
template that the caller has made, and only the numbers are written here.

    PageHeader   kind, sizes, checksum; values and encoding, for a data page also those of levels
    RowGroup     columns, sizes, rows, sorting columns, place, ordinal
    ColumnChunk  template: type, encodings, path, codec; sizes, places; of the row its statistics
                 and its bloom filter
"""

from __future__ import annotations

from stele.kernels.block import Ints, Matrix
from stele.kernels.jit import callee, quick
from stele.kernels.memory import address_of, copy_bytes, load_i32, load_i64, store_i8
from stele.kernels.parquet_encode import put_varint, put_zigzag
from stele.kernels.parquet_thrift import (
    ALL_PAGES,
    DICTIONARY_PAGE,
    ENCODINGS,
    FAMILIES_PAGE,
    FAMILY_PAGE,
    KINDS,
    ROW_PAGE,
)

# One row of the table of pages that headers are written from.
PAGE_UNCOMPRESSED = 0
PAGE_COMPRESSED = 1
PAGE_CHECKSUM = 2  # signed, as Parquet stores it
PAGE_WORDS = 3

HEADER_BYTES_MAX = 64
"""Of one page."""

# One row for each row group: what its part of the footer is written from.
GROUP_CELLS = 0
GROUP_OFFSET = 1
GROUP_BLOOM_OFFSET = 2
GROUP_BLOOM_BYTES = 3
GROUP_HAS_STATISTICS = 4
GROUP_PAGES = 5  # uncompressed and compressed size of each page, with its header
GROUP_WORDS = GROUP_PAGES + 2 * ALL_PAGES

GROUP_BYTES_MAX = 1_024
"""Of one row group in the footer, without templates and the rows of its statistics."""

COLUMNS = ALL_PAGES - 1
"""The dictionary's page belongs to the column of the page behind it."""

_RLE = 3  # the encoding of levels, which required columns do not have

# A field: the distance to the number of the field before in the upper half, the type in the lower.
_TRUE = 0x11
_I16 = 0x14
_I32 = 0x15
_I64 = 0x16
_BINARY = 0x18
_LIST = 0x19
_STRUCT = 0x1C
_ONE_FURTHER = 0x10
_STRUCTS = 0x0C
_STOP = 0


@callee
def _put_byte(target: int, byte: int) -> int:
    store_i8(target, byte)
    return target + 1


@callee
def _put_i32(target: int, value: int) -> int:
    """The next field of a struct, a number of 32 bits."""
    return put_zigzag(_put_byte(target, _I32), value)


@callee
def _put_i64(target: int, value: int) -> int:
    return put_zigzag(_put_byte(target, _I64), value)


@callee
def _put_header(page: int, entry: int, values: int, target: int) -> int:
    """One page header; the address behind it."""
    kind = KINDS[page]
    target = _put_i32(target, kind)
    target = _put_i32(target, load_i64(entry + 8 * PAGE_UNCOMPRESSED))
    target = _put_i32(target, load_i64(entry + 8 * PAGE_COMPRESSED))
    target = _put_i32(target, load_i64(entry + 8 * PAGE_CHECKSUM))
    # DataPageHeader is field 5, DictionaryPageHeader field 7.
    target = _put_byte(target, _STRUCT + (2 * _ONE_FURTHER if kind == DICTIONARY_PAGE else 0))
    target = _put_i32(target, values)
    target = _put_i32(target, ENCODINGS[page])
    if kind != DICTIONARY_PAGE:
        target = _put_i32(target, _RLE)
        target = _put_i32(target, _RLE)
    return _put_byte(_put_byte(target, _STOP), _STOP)


@quick
def put_page_headers(pages: Matrix, cells: int, families: int, target: int, ends: Ints) -> None:
    """Write the headers of all pages of a row group; where each ends goes to ``ends``."""
    start, table = target, address_of(pages)
    for page in range(ALL_PAGES):
        values = families if page == FAMILIES_PAGE else cells
        target = _put_header(page, table + 8 * PAGE_WORDS * page, values, target)
        ends[page] = target - start


@callee
def _put_statistics(rows: int, offsets: int, target: int) -> int:
    """No nulls, and the exact last and first row."""
    first, last, end = load_i32(offsets), load_i32(offsets + 4), load_i32(offsets + 8)
    target = put_zigzag(_put_byte(target, _I64 + 2 * _ONE_FURTHER), 0)
    target = put_varint(_put_byte(target, _BINARY + _ONE_FURTHER), end - last)
    copy_bytes(target, rows + last, end - last)
    target += end - last
    target = put_varint(_put_byte(target, _BINARY), last - first)
    copy_bytes(target, rows + first, last - first)
    target += last - first
    return _put_byte(_put_byte(_put_byte(target, _TRUE), _TRUE), _STOP)


@callee
def _size(group: int, page: int, which: int) -> int:
    size: int = load_i64(group + 8 * (GROUP_PAGES + 2 * page + which))
    return size


@callee
def _put_template(templates: int, ends: int, number: int, target: int) -> int:
    start = load_i64(ends + 8 * number - 8) if number else 0
    size = load_i64(ends + 8 * number) - start
    copy_bytes(target, templates + start, size)
    return target + size


@callee
def _put_chunk(
    group: int,
    page: int,
    offset: int,
    templates: int,
    ends: int,
    rows: int,
    row_offsets: int,
    target: int,
) -> int:
    """The chunk of a column whose data is ``page``; ``offset`` is where its first page begins."""
    column = page - (page > FAMILIES_PAGE)
    dictionary = _size(group, FAMILIES_PAGE, 1) if page == FAMILY_PAGE else 0
    uncompressed = _size(group, FAMILIES_PAGE, 0) if page == FAMILY_PAGE else 0
    target = _put_template(templates, ends, 2 * column, target)
    target = _put_i64(target, load_i64(group + 8 * GROUP_CELLS))
    target = _put_i64(target, uncompressed + _size(group, page, 0))
    target = _put_i64(target, dictionary + _size(group, page, 1))
    target = put_zigzag(_put_byte(target, _I64 + _ONE_FURTHER), offset + dictionary)
    last = 9
    if page == FAMILY_PAGE:
        target = put_zigzag(_put_byte(target, _I64 + _ONE_FURTHER), offset)
        last = 11
    if page == ROW_PAGE and load_i64(group + 8 * GROUP_HAS_STATISTICS):
        target = _put_byte(target, _STRUCT + 2 * _ONE_FURTHER)
        target = _put_statistics(rows, row_offsets, target)
        last = 12
    target = _put_byte(target, _LIST + (12 - last) * _ONE_FURTHER)
    target = _put_template(templates, ends, 2 * column + 1, target)
    if page == ROW_PAGE:
        target = _put_i64(target, load_i64(group + 8 * GROUP_BLOOM_OFFSET))
        target = _put_i32(target, load_i64(group + 8 * GROUP_BLOOM_BYTES))
    return _put_byte(_put_byte(target, _STOP), _STOP)


@quick
def put_row_groups(
    groups: Matrix, templates: bytes, ends: Ints, row_offsets: int, rows: int, target: int
) -> int:
    """Write the row groups of a footer, one behind the other; how many bytes they are.

    ``templates`` has two pieces for each column, in front of its sizes and behind its places, and
    one for the sorting columns; ``ends`` says where each piece ends. The first and the last row of
    each group are in ``rows``, side by side; ``row_offsets`` are their int32 offsets.
    """
    start, table, pieces = target, address_of(groups), address_of(templates)
    for number in range(len(groups)):
        group = table + 8 * GROUP_WORDS * number
        begin = load_i64(group + 8 * GROUP_OFFSET)
        offset, uncompressed = begin, 0
        target = _put_byte(_put_byte(target, _LIST), (COLUMNS << 4) | _STRUCTS)
        for page in range(ALL_PAGES):
            uncompressed += _size(group, page, 0)
            if page == FAMILIES_PAGE:
                continue
            target = _put_chunk(
                group,
                page,
                offset,
                pieces,
                address_of(ends),
                rows,
                row_offsets + 8 * number,
                target,
            )
            offset += _size(group, page, 1)
            if page == FAMILY_PAGE:
                offset += _size(group, FAMILIES_PAGE, 1)
        target = _put_i64(target, uncompressed)
        target = _put_i64(target, load_i64(group + 8 * GROUP_CELLS))
        target = _put_template(pieces, address_of(ends), 2 * COLUMNS, target)
        target = _put_i64(target, begin)
        target = _put_i64(target, offset - begin)
        target = put_zigzag(_put_byte(target, _I16), number)
        target = _put_byte(target, _STOP)
    return target - start
