"""Row records: one small mutation as a fixed head and its bytes, and many of them as a block.

A put of one cell as an Arrow batch takes 39 µs and 664 bytes. As a row record it takes well under
1 µs and 32 bytes more than its own, so recent small mutations live as records, in the log and in
memory. They become columns many at a time, here.

    offset  size
         0     4   record_bytes     u32, all of it, a multiple of 8
         4     4   value_bytes      u32
         8     2   row_bytes        u16
        10     2   qualifier_bytes  u16
        12     1   family_bytes     u8
        13     1   op               i8
        14     2   zero
        16     8   timestamp        i64
        24     8   txn              i64
        32         row, family (UTF-8), qualifier, value, zeros up to record_bytes

Integers are little-endian. The family is spelled out in every record: a few bytes, and a record
means the same wherever it stands. A put whose timestamp is ``TIMESTAMP_MAX`` has its txn for a
timestamp, so a record may be made before its commit has a txn worth knowing.

Two passes turn records into a block. :func:`_survey` walks them once, checks that every length
stays inside and counts; only then are addresses taken for granted by :func:`_fill`, which sorts
the records and writes the columns.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.errors import Corruption
from stele.kernels.block import (
    COUNT,
    DESCRIPTOR_WIDTH,
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
    Block,
)
from stele.kernels.compare import compare_bytes, equal_bytes, prefix_after, shared_length
from stele.kernels.jit import bulk, callee, quick
from stele.kernels.memory import (
    copy_bytes,
    load_i8,
    load_i16,
    load_i64,
    load_u8,
    load_u32,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
)
from stele.model.cells import TIMESTAMP_MAX, Op
from stele.model.limits import FAMILIES_MAX

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ALIGNMENT = 8
HEAD = struct.Struct("<IIHHBbHqq")
HEAD_BYTES = HEAD.size
assert HEAD_BYTES == 32

_VALUE_LENGTH, _ROW_LENGTH, _QUALIFIER_LENGTH, _FAMILY_LENGTH = 4, 8, 10, 12
_OP, _TIMESTAMP, _TXN = 13, 16, 24
_OP_MAX = int(max(Op))
_PUT = int(Op.PUT)
_pack_head = HEAD.pack
_UNALIGNED = ALIGNMENT - 1
_PADDING = tuple(bytes(count) for count in range(ALIGNMENT))

# What the survey reports.
_RECORDS = 0
_ROWS_TOTAL = 1
_QUALIFIERS_TOTAL = 2
_VALUES_TOTAL = 3
_ROW_SHARED = 4
_FAMILIES = 5
_FIRST_FAMILY = 6
_FAMILIES_MAX = FAMILIES_MAX + 1  # and the empty one, of row erasures

_OFFSET_MAX = (1 << 31) - 1
"""Arrow's binary columns have 32-bit offsets."""

_RUN = 16
"""Records sorted by insertion before runs are merged; longer runs compare more than they save."""

_QUICK_BYTES_MAX = 16 * 1024
"""About a hundred records."""

Ints = npt.NDArray[np.int64]


def encode_record(
    row: bytes, family: bytes, qualifier: bytes, timestamp: int, txn: int, op: int, value: bytes
) -> bytes:
    """One mutation as a row record. ``family`` is UTF-8; the limits on lengths are the caller's."""
    row_bytes, family_bytes = len(row), len(family)
    qualifier_bytes, value_bytes = len(qualifier), len(value)
    size = HEAD_BYTES + row_bytes + family_bytes + qualifier_bytes + value_bytes
    padding = -size & _UNALIGNED
    head = _pack_head(
        size + padding,
        value_bytes,
        row_bytes,
        qualifier_bytes,
        family_bytes,
        op,
        0,
        timestamp,
        txn,
    )
    return b"".join((head, row, family, qualifier, value, _PADDING[padding]))


def row_and_txn(record: bytes) -> tuple[bytes, int]:
    """The row and the txn of one record that is known to be sound."""
    _, _, row_bytes, _, _, _, _, _, txn = HEAD.unpack_from(record)
    return record[HEAD_BYTES : HEAD_BYTES + row_bytes], txn


def records_to_block(records: ReadableBuffer) -> Block:
    """The records as one sorted block, in memory of its own.

    Raises :class:`Corruption` with the offset of the first record that does not hold together.
    """
    source = pa.py_buffer(records)
    survey = np.zeros(_FIRST_FAMILY + _FAMILIES_MAX, np.int64)
    is_small = source.size <= _QUICK_BYTES_MAX
    look, fill = (_survey_quick, _fill_quick) if is_small else (_survey_bulk, _fill_bulk)
    bad = look(source.address, source.size, survey)
    if bad >= 0:
        raise Corruption("row record does not hold together", offset=int(bad))
    families, ranks = _families(memoryview(source), survey)
    descriptor, owner = _allocate(survey)
    fill(source.address, survey, ranks, descriptor)
    return Block(descriptor, families, owner)


def _families(source: memoryview, survey: Ints) -> tuple[tuple[str, ...], Ints]:
    """The sorted names of the families met, and for each, in the order met, its place there."""
    names = []
    for offset in survey[_FIRST_FAMILY : _FIRST_FAMILY + int(survey[_FAMILIES])].tolist():
        head = HEAD.unpack_from(source, offset)
        start = offset + HEAD_BYTES + head[2]
        try:
            names.append(str(source[start : start + head[4]], "utf-8"))
        except UnicodeDecodeError as error:
            raise Corruption("family of a row record is not UTF-8", offset=offset) from error
    ordered = sorted(names)
    return tuple(ordered), np.array([ordered.index(name) for name in names], np.int64)


_COLUMNS = (
    ROW_OFFSETS,
    QUALIFIER_OFFSETS,
    VALUE_OFFSETS,
    FAMILY_CODES,
    TIMESTAMPS,
    TXNS,
    OPS,
    ROW_BYTES,
    QUALIFIER_BYTES,
    VALUE_BYTES,
)
"""In the order in which they lie in memory."""


def _allocate(survey: Ints) -> tuple[Ints, pa.Buffer]:
    """One piece of memory for all columns, and the descriptor that says where each begins."""
    count, rows, qualifiers, values = survey[:_ROW_SHARED].tolist()
    assert max(rows, qualifiers, values) <= _OFFSET_MAX, "too many records for one block"
    offsets = 4 * (count + 1)
    longs = 8 * count
    sizes = (offsets, offsets, offsets, 2 * count, longs, longs, count, rows, qualifiers, values)
    places = [0] * DESCRIPTOR_WIDTH
    end = 0
    for column, size in zip(_COLUMNS, sizes, strict=True):
        places[column] = end
        end += (size & -ALIGNMENT) + ALIGNMENT  # aligned, with room behind
    owner = pa.allocate_buffer(end)
    descriptor = np.array(places, np.int64)
    descriptor[:COUNT] += owner.address
    descriptor[COUNT] = count
    return descriptor, owner


@callee
def _row_bytes(record: int) -> int:
    return load_i16(record + _ROW_LENGTH) & 0xFFFF


@callee
def _qualifier_bytes(record: int) -> int:
    return load_i16(record + _QUALIFIER_LENGTH) & 0xFFFF


@callee
def _timestamp(record: int) -> int:
    stamp = load_i64(record + _TIMESTAMP)
    if stamp == TIMESTAMP_MAX and load_i8(record + _OP) == _PUT:
        return load_i64(record + _TXN)
    return stamp


@callee
def _sound_size(record: int, left: int) -> int:
    """The size of the record at an address with ``left`` readable bytes; 0 if it cannot be one."""
    if left < HEAD_BYTES:
        return 0
    size = load_u32(record)
    needed = HEAD_BYTES + _row_bytes(record) + _qualifier_bytes(record)
    needed += load_u8(record + _FAMILY_LENGTH) + load_u32(record + _VALUE_LENGTH)
    if size > left or size % ALIGNMENT != 0 or not needed <= size < needed + ALIGNMENT:
        return 0
    op = load_i8(record + _OP)
    return size if 0 <= op <= _OP_MAX else 0


@callee
def _same_family(a: int, b: int) -> bool:
    length = load_u8(a + _FAMILY_LENGTH)
    if length != load_u8(b + _FAMILY_LENGTH):
        return False
    return equal_bytes(a + HEAD_BYTES + _row_bytes(a), b + HEAD_BYTES + _row_bytes(b), length)


@callee
def _survey(start: int, length: int, survey: Ints) -> int:
    """Check and count the records. The offset of the first bad one, or -1 if all are sound."""
    families = 0
    latest = 0
    offset = 0
    shared = _row_bytes(start) if length >= HEAD_BYTES else 0
    while offset < length:
        record = start + offset
        size = _sound_size(record, length - offset)
        if size == 0:
            return offset
        row_length = _row_bytes(record)
        survey[_RECORDS] += 1
        survey[_ROWS_TOTAL] += row_length
        survey[_QUALIFIERS_TOTAL] += _qualifier_bytes(record)
        survey[_VALUES_TOTAL] += load_u32(record + _VALUE_LENGTH)
        shared = shared_length(start + HEAD_BYTES, shared, record + HEAD_BYTES, row_length)
        if families == 0 or not _same_family(record, start + survey[_FIRST_FAMILY + latest]):
            latest = 0
            while latest < families:
                if _same_family(record, start + survey[_FIRST_FAMILY + latest]):
                    break
                latest += 1
            if latest == families:
                if families == _FAMILIES_MAX:
                    return offset
                survey[_FIRST_FAMILY + families] = offset
                families += 1
        offset += size
    survey[_ROW_SHARED] = shared
    survey[_FAMILIES] = families
    return -1


@callee
def _compare(a: int, b: int) -> int:
    """Two records in cell order: -1, 0 or 1."""
    a_row, b_row = _row_bytes(a), _row_bytes(b)
    order = compare_bytes(a + HEAD_BYTES, a_row, b + HEAD_BYTES, b_row)
    if order != 0:
        return order
    a_family, b_family = load_u8(a + _FAMILY_LENGTH), load_u8(b + _FAMILY_LENGTH)
    a_place, b_place = a + HEAD_BYTES + a_row, b + HEAD_BYTES + b_row
    order = compare_bytes(a_place, a_family, b_place, b_family)
    if order != 0:
        return order
    a_op, b_op = load_i8(a + _OP), load_i8(b + _OP)
    if min(a_op, 2) != min(b_op, 2):
        return -1 if a_op < b_op else 1
    order = compare_bytes(
        a_place + a_family, _qualifier_bytes(a), b_place + b_family, _qualifier_bytes(b)
    )
    if order != 0:
        return order
    a_stamp, b_stamp = _timestamp(a), _timestamp(b)
    if a_stamp != b_stamp:
        return -1 if a_stamp > b_stamp else 1
    a_txn, b_txn = load_i64(a + _TXN), load_i64(b + _TXN)
    if a_txn != b_txn:
        return -1 if a_txn > b_txn else 1
    return a_op - b_op


@callee
def _before(a: int, a_prefix: np.uint64, b: int, b_prefix: np.uint64) -> bool:
    """Whether a record comes strictly before another; prefixes decide most of the time."""
    if a_prefix < b_prefix:
        return True
    return a_prefix == b_prefix and _compare(a, b) < 0


@callee
def _sort(records: Ints, prefixes: npt.NDArray[np.uint64]) -> None:
    """Sort addresses of records, stably: short runs by insertion, then merged bottom-up."""
    count = len(records)
    for low in range(0, count, _RUN):
        for i in range(low + 1, min(low + _RUN, count)):
            record, prefix = records[i], prefixes[i]
            j = i
            while j > low and _before(record, prefix, records[j - 1], prefixes[j - 1]):
                records[j], prefixes[j] = records[j - 1], prefixes[j - 1]
                j -= 1
            records[j], prefixes[j] = record, prefix
    spare_records, spare_prefixes = np.empty_like(records), np.empty_like(prefixes)
    width = _RUN
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            left, right = low, middle
            for target in range(low, high):
                take_right = left == middle or (
                    right < high
                    and _before(records[right], prefixes[right], records[left], prefixes[left])
                )
                chosen = right if take_right else left
                spare_records[target], spare_prefixes[target] = records[chosen], prefixes[chosen]
                if take_right:
                    right += 1
                else:
                    left += 1
        records[:], prefixes[:] = spare_records, spare_prefixes
        width *= 2


@callee
def _fill(start: int, survey: Ints, ranks: Ints, descriptor: Ints) -> None:
    """Sort the surveyed records and write their columns where the descriptor says."""
    count, families = survey[_RECORDS], survey[_FAMILIES]
    records = np.empty(count, np.int64)
    prefixes = np.empty(count, np.uint64)
    record = start
    ordered = True
    for i in range(count):
        records[i] = record
        prefixes[i] = prefix_after(record + HEAD_BYTES, _row_bytes(record), survey[_ROW_SHARED])
        ordered &= i == 0 or _compare(records[i - 1], record) <= 0
        record += load_u32(record)
    if not ordered:
        _sort(records, prefixes)
    _write_columns(start, records, survey, ranks, descriptor, families)


@callee
def _write_columns(
    start: int, records: Ints, survey: Ints, ranks: Ints, descriptor: Ints, families: int
) -> None:
    row_end, qualifier_end, value_end, latest = 0, 0, 0, 0
    store_i32(descriptor[ROW_OFFSETS], 0)
    store_i32(descriptor[QUALIFIER_OFFSETS], 0)
    store_i32(descriptor[VALUE_OFFSETS], 0)
    for i in range(len(records)):
        record = records[i]
        row, qualifier = _row_bytes(record), _qualifier_bytes(record)
        value = load_u32(record + _VALUE_LENGTH)
        family_place = record + HEAD_BYTES + row
        qualifier_place = family_place + load_u8(record + _FAMILY_LENGTH)
        copy_bytes(descriptor[ROW_BYTES] + row_end, record + HEAD_BYTES, row)
        copy_bytes(descriptor[QUALIFIER_BYTES] + qualifier_end, qualifier_place, qualifier)
        copy_bytes(descriptor[VALUE_BYTES] + value_end, qualifier_place + qualifier, value)
        row_end, qualifier_end, value_end = (
            row_end + row,
            qualifier_end + qualifier,
            value_end + value,
        )
        store_i32(descriptor[ROW_OFFSETS] + 4 * (i + 1), row_end)
        store_i32(descriptor[QUALIFIER_OFFSETS] + 4 * (i + 1), qualifier_end)
        store_i32(descriptor[VALUE_OFFSETS] + 4 * (i + 1), value_end)
        if not _same_family(record, start + survey[_FIRST_FAMILY + latest]):
            latest = 0
            while latest < families and not _same_family(
                record, start + survey[_FIRST_FAMILY + latest]
            ):
                latest += 1
        store_i16(descriptor[FAMILY_CODES] + 2 * i, ranks[latest])
        store_i64(descriptor[TIMESTAMPS] + 8 * i, _timestamp(record))
        store_i64(descriptor[TXNS] + 8 * i, load_i64(record + _TXN))
        store_i8(descriptor[OPS] + i, load_i8(record + _OP))


# A few records are turned with the GIL held: getting it back would take longer than the work.


@quick
def _survey_quick(start: int, length: int, survey: Ints) -> int:
    return _survey(start, length, survey)


@bulk
def _survey_bulk(start: int, length: int, survey: Ints) -> int:
    return _survey(start, length, survey)


@quick
def _fill_quick(start: int, survey: Ints, ranks: Ints, descriptor: Ints) -> None:
    _fill(start, survey, ranks, descriptor)


@bulk
def _fill_bulk(start: int, survey: Ints, ranks: Ints, descriptor: Ints) -> None:
    _fill(start, survey, ranks, descriptor)
