"""The index of a fragment: which of its blocks may hold a row.

A fragment is a sequence of blocks in order. The index knows the first row of each and whether the
last row of a block continues in the next, which happens only to rows larger than a block. First
rows are one binary array and, beside it, the eight bytes that follow what all of them have in
common as numbers: a search compares numbers and looks at keys only where these are equal.

In memory, for kernels, an index is one row of ``INDEX_WIDTH`` int64:

    BLOCKS         number of blocks, at least 1
    FIRST_OFFSETS  address of BLOCKS + 1 int32, as in a binary array
    FIRST_BYTES    address of the bytes of the first rows
    PREFIXES       address of BLOCKS + 1 uint64; the last one is that of the last row, if known
    COMMON         how many leading bytes all first rows, and the last row if known, share
    CONTINUES      address of BLOCKS bytes: 1 where the last row of a block goes on in the next
    LAST_ROW       address of the last row, LAST_LENGTH its length (-1: not known)
    SCALE          address of how a prefix is evened: for each of its bytes two int64, the address
                   of a table from bytes to digits, and how many digits there are
    SAMPLED        address of BLOCKS bytes: 1 where the samples of a block are filled in
    SAMPLES        address of SAMPLES_PER_BLOCK uint64 for each block

Where in a block a row is, is guessed from *samples*: the prefixes of a few rows, as far apart as
each other, which are filled in when a block is searched for the first time. A guess between two of
them assumes that rows are spread evenly there. Rows are often text, whose bytes use a small part of
their range: then most numbers between two prefixes belong to no row at all, and the guess would be
poor. Prefixes in samples are therefore *evened*: each byte becomes a digit of the smallest
alphabet that has what all first rows have in its place, and the digits become one number again.

Samples are hints and nothing else: a search that starts from a wrong guess takes longer. So it does
no harm that several threads may fill in the same ones, always with the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.kernels.block import Ints
from stele.kernels.compare import (
    compare_bytes,
    prefix_after,
    row_address,
    row_length,
    shared_length,
)
from stele.kernels.jit import bulk, callee, inlined, quick
from stele.kernels.memory import (
    Word,
    address_of,
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    store_i8,
    store_i64,
)
from stele.kernels.search import BinaryKeys
from stele.model.ranges import RowRange

BLOCKS = 0
FIRST_OFFSETS = 1
FIRST_BYTES = 2
PREFIXES = 3
COMMON = 4
CONTINUES = 5
LAST_ROW = 6
LAST_LENGTH = 7
SCALE = 8
SAMPLED = 9
SAMPLES = 10
INDEX_WIDTH = 11

SAMPLES_PER_BLOCK = 64
"""In a block of the usual size one for some sixteen rows: together they stay in the processor's
cache, while the rows do not."""

NOWHERE = -1
"""What a search answers for a row that lies before all blocks, or behind the last row."""

UNKNOWN = -1

DigitTables = Annotated[npt.NDArray[np.uint8], 2]

ALPHABETS = (b"0123456789", b"0123456789abcdef", b"0123456789ABCDEF", bytes(range(256)))
"""What rows are often written in, the smallest first; the last one has every byte."""


def _digits(alphabet: bytes) -> list[int]:
    """For each byte how many of the alphabet are below it: its digit, if it is in the alphabet."""
    return [min(sum(one < byte for one in alphabet), len(alphabet) - 1) for byte in range(256)]


_DIGITS = np.array([_digits(alphabet) for alphabet in ALPHABETS], np.uint8)
_MEMBERS = np.array(
    [
        sum((byte in alphabet) << bit for bit, alphabet in enumerate(ALPHABETS))
        for byte in range(256)
    ],
    np.uint8,
)
"""For each byte a bit for each alphabet that has it."""
_SIZES = np.array([len(alphabet) for alphabet in ALPHABETS], np.int64)

PREFIX_BYTES = 8


@callee
def _compare_first(index: int, block: int, row: int, length: int) -> int:
    """The first row of a block against a key: -1, 0 or 1."""
    offsets = load_i64(index + 8 * FIRST_OFFSETS) + 4 * block
    begin = load_i32(offsets)
    first = load_i64(index + 8 * FIRST_BYTES) + begin
    return compare_bytes(first, load_i32(offsets + 4) - begin, row, length)


@callee
def find_block(index: int, row: int, length: int) -> int:
    """The last block whose first row is not above a key, or ``NOWHERE``."""
    count, common = load_i64(index + 8 * BLOCKS), load_i64(index + 8 * COMMON)
    last, last_length = load_i64(index + 8 * LAST_ROW), load_i64(index + 8 * LAST_LENGTH)
    if last_length != UNKNOWN and compare_bytes(last, last_length, row, length) < 0:
        return NOWHERE
    first_row = load_i64(index + 8 * FIRST_BYTES) + load_i32(load_i64(index + 8 * FIRST_OFFSETS))
    head = compare_bytes(first_row, common, row, min(length, common))
    if head != 0:
        return NOWHERE if head > 0 else count - 1
    prefix, prefixes = prefix_after(row, length, common), load_i64(index + 8 * PREFIXES)
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        first = load_u64(prefixes + 8 * middle)
        if first < prefix or (first == prefix and _compare_first(index, middle, row, length) <= 0):
            low = middle + 1
        else:
            high = middle
    return low - 1


@callee
def first_block_of(index: int, block: int, row: int, length: int) -> int:
    """Where a row begins that ``block``, as found, may hold: earlier only if the row continues."""
    continues = load_i64(index + 8 * CONTINUES)
    while (
        block > 0
        and load_u8(continues + block - 1) != 0
        and _compare_first(index, block, row, length) == 0
    ):
        block -= 1
    return block


@callee
def is_bounded(index: int, block: int) -> bool:
    """Whether all rows of a block are known to share what is common to the first rows."""
    if block + 1 < load_i64(index + 8 * BLOCKS):
        return True
    return load_i64(index + 8 * LAST_LENGTH) != UNKNOWN


@inlined
def _even(scale: int, prefix: Word) -> Word:
    """A prefix as the number whose digits its bytes are."""
    number = np.uint64(0)
    for place in range(PREFIX_BYTES):
        byte = np.int64((prefix >> np.uint64(56 - 8 * place)) & np.uint64(255))
        digit = load_u8(load_i64(scale + 16 * place) + byte)
        number = number * load_u64(scale + 16 * place + 8) + np.uint64(digit)
    return number


@inlined
def _sampled_cell(cells: int, number: int) -> int:
    """The cell that a sample was taken from."""
    return cells * number // SAMPLES_PER_BLOCK


@callee
def _fill_samples(index: int, block: int, source: int, cells: int) -> None:
    """Take the samples of a block."""
    samples = load_i64(index + 8 * SAMPLES) + 8 * SAMPLES_PER_BLOCK * block
    scale, skip = load_i64(index + 8 * SCALE), load_i64(index + 8 * COMMON)
    for number in range(SAMPLES_PER_BLOCK):
        cell = _sampled_cell(cells, number)
        prefix = prefix_after(row_address(source, cell), row_length(source, cell), skip)
        store_i64(samples + 8 * number, _even(scale, prefix))
    store_i8(load_i64(index + 8 * SAMPLED) + block, 1)


@callee
def guess_cell(index: int, block: int, source: int, cells: int, prefix: Word) -> int:
    """About where in a bounded block a key is; ``source`` is the descriptor of the block."""
    if load_u8(load_i64(index + 8 * SAMPLED) + block) == 0:
        _fill_samples(index, block, source, cells)
    samples = load_i64(index + 8 * SAMPLES) + 8 * SAMPLES_PER_BLOCK * block
    evened = _even(load_i64(index + 8 * SCALE), prefix)
    number, step = 0, SAMPLES_PER_BLOCK // 2
    while step > 0:
        if load_u64(samples + 8 * (number + step)) < evened:
            number += step
        step //= 2
    before, start = load_u64(samples + 8 * number), _sampled_cell(cells, number)
    if evened <= before:
        return start
    if number + 1 == SAMPLES_PER_BLOCK:
        return (start + cells) >> 1
    after = load_u64(samples + 8 * number + 8)
    if after < evened:
        return start  # somebody is filling them in
    share = np.float64(evened - before) / np.float64(after - before)
    return start + int(share * (_sampled_cell(cells, number + 1) - start))


@bulk
def _fill_scale(
    prefixes: npt.NDArray[np.uint64],
    members: npt.NDArray[np.uint8],
    digits: DigitTables,
    sizes: Ints,
    scale: Ints,
) -> None:
    """Choose the alphabet of each byte of the prefixes.

    Where one place needs the letters of an alphabet, others that show only digits have them too:
    first rows may be few, and happen to have none there.
    """
    everywhere = np.uint8(255)
    for place in range(PREFIX_BYTES):
        shared = np.uint8(255)
        for number in range(len(prefixes)):
            byte = (prefixes[number] >> np.uint64(56 - 8 * place)) & np.uint64(255)
            shared &= members[np.int64(byte)]
        scale[2 * place] = shared
        if shared != 1 << (len(sizes) - 1):
            everywhere &= shared
    for place in range(PREFIX_BYTES):
        common, chosen = scale[2 * place] & everywhere, 0
        while (common >> chosen) & 1 == 0:
            chosen += 1
        scale[2 * place] = address_of(digits) + 256 * chosen
        scale[2 * place + 1] = sizes[chosen]


@bulk
def _fill_prefixes(offsets: int, data: int, prefixes: npt.NDArray[np.uint64]) -> int:
    """Fill in the prefixes; returns the number of bytes all rows have in common."""
    count = len(prefixes)
    first, last = data + load_i32(offsets), data + load_i32(offsets + 4 * count - 4)
    common = shared_length(
        first,
        load_i32(offsets + 4) - load_i32(offsets),
        last,
        load_i32(offsets + 4 * count) - load_i32(offsets + 4 * count - 4),
    )
    for number in range(count):
        begin = load_i32(offsets + 4 * number)
        length = load_i32(offsets + 4 * number + 4) - begin
        prefixes[number] = prefix_after(data + begin, length, common)
    return common


@quick
def _find(index: Ints, row: bytes) -> int:
    return find_block(address_of(index), address_of(row), len(row))


@quick
def _find_first(index: Ints, row: bytes) -> int:
    at, key = address_of(index), address_of(row)
    block = find_block(at, key, len(row))
    return block if block < 0 else first_block_of(at, block, key, len(row))


@bulk
def _find_many(index: Ints, offsets: int, data: int, found: Ints) -> None:
    at = address_of(index)
    for number in range(len(found)):
        begin = load_i32(offsets + 4 * number)
        length = load_i32(offsets + 4 * number + 4) - begin
        found[number] = find_block(at, data + begin, length)


class RowIndex:
    """The immutable index of one fragment, or of a single block.

    With the last row known, searches in the last block are as quick as in the others, and rows
    behind it need no block at all.
    """

    __slots__ = (
        "_continues",
        "_keys",
        "_prefixes",
        "_sampled",
        "_samples",
        "_scale",
        "blocks",
        "last_row",
        "numbers",
    )

    def __init__(
        self,
        first_rows: Sequence[bytes] | pa.BinaryArray,
        continues: npt.NDArray[np.uint8] | None = None,
        last_row: bytes | None = None,
    ):
        self.blocks = len(first_rows)
        self.last_row = last_row
        assert self.blocks > 0, "an index has at least one block"
        if last_row is not None:
            first_rows = pa.concat_arrays(
                [pa.array(first_rows, pa.binary()), pa.array([last_row], pa.binary())]
            )
        self._keys = keys = BinaryKeys(first_rows)
        self._continues = np.zeros(self.blocks, np.uint8) if continues is None else continues
        assert len(self._continues) == self.blocks
        self._prefixes = np.zeros(keys.count, np.uint64)
        common = _fill_prefixes(keys.offsets, keys.data, self._prefixes)
        self._scale = np.zeros(2 * PREFIX_BYTES, np.int64)
        _fill_scale(self._prefixes, _MEMBERS, _DIGITS, _SIZES, self._scale)
        self._sampled = np.zeros(self.blocks, np.uint8)
        self._samples = np.zeros(self.blocks * SAMPLES_PER_BLOCK, np.uint64)
        self.numbers: Ints = np.array(
            [
                self.blocks,
                keys.offsets,
                keys.data,
                self._prefixes.ctypes.data,
                common,
                self._continues.ctypes.data,
                0,
                UNKNOWN,
                self._scale.ctypes.data,
                self._sampled.ctypes.data,
                self._samples.ctypes.data,
            ],
            np.int64,
        )
        if last_row is not None:
            end = keys.owner.offset + self.blocks
            start = int(np.frombuffer(keys.owner.buffers()[1], np.int32)[end])
            self.numbers[LAST_ROW] = keys.data + start
            self.numbers[LAST_LENGTH] = len(last_row)

    def first_row(self, block: int) -> bytes:
        """The first row of a block."""
        row: bytes = self._keys.owner[block].as_py()
        return row

    def continues(self, block: int) -> bool:
        """Whether the last row of a block goes on in the next."""
        return bool(self._continues[block])

    def find(self, row: bytes) -> int:
        """The last block that may hold a row, or ``NOWHERE``."""
        return _find(self.numbers, row)

    def find_many(self, rows: Sequence[bytes] | pa.BinaryArray) -> Ints:
        """:meth:`find` for many rows."""
        keys = BinaryKeys(rows)
        found = np.empty(keys.count, np.int64)
        _find_many(self.numbers, keys.offsets, keys.data, found)
        return found

    def overlapping(self, rows: RowRange) -> range:
        """The blocks that may hold rows of a range."""
        last_row = self.last_row
        if last_row is not None and rows.start > last_row:
            return range(self.blocks, self.blocks)
        start = max(_find_first(self.numbers, rows.start), 0)
        if rows.end is None or (last_row is not None and rows.end > last_row):
            return range(start, self.blocks)
        last = self.find(rows.end)
        if last >= 0 and self.first_row(last) == rows.end:
            # Of the blocks of this very row only the first may hold smaller rows before it.
            last = _find_first(self.numbers, rows.end)
            last -= self.first_row(last) == rows.end
        return range(start, max(start, last + 1))
