"""Parquet pages written by hand, in plain Python: what the decoding kernels are held against.

The encoders can do what pyarrow never does (other block sizes, odd runs, long field headers), and
``Pages`` lets a test damage exactly one thing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stele.kernels.block import DESCRIPTOR_WIDTH, Block
from stele.kernels.parquet_pages import arena_bytes, decode_pages
from stele.kernels.parquet_thrift import (
    ALL_PAGES,
    BODY,
    KEY_PAGES,
    PLACE,
    TABLE_WIDTH,
    UNCOMPRESSED,
    walk_pages,
)
from stele.model.cells import Cell

DATA, DICTIONARY = 0, 2
PLAIN, DELTA_LENGTH, RLE_DICTIONARY = 0, 6, 8
KINDS = [DATA, DICTIONARY, DATA, DATA, DATA, DATA, DATA, DATA]
ENCODINGS = [
    DELTA_LENGTH,
    PLAIN,
    RLE_DICTIONARY,
    DELTA_LENGTH,
    PLAIN,
    PLAIN,
    PLAIN,
    DELTA_LENGTH,
]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def integer(step: int, value: int) -> bytes:
    """A 32-bit field, ``step`` above the field before it."""
    return bytes([step << 4 | 5]) + varint(zigzag(value))


def long_integer(number: int, value: int) -> bytes:
    """The same in the long form, which names the field itself."""
    return bytes([5]) + varint(zigzag(number)) + varint(zigzag(value))


def statistics(low: bytes, high: bytes) -> bytes:
    """A ``Statistics`` struct with all kinds of fields in it."""
    return (
        bytes([0x18]) + varint(len(high)) + high
        + bytes([0x18]) + varint(len(low)) + low
        + bytes([0x16]) + varint(zigzag(0))
        + bytes([0x41, 0x12, 0x00])
    )  # fmt: skip


def header(
    kind: int, uncompressed: int, compressed: int, values: int, encoding: int, extra: bytes = b""
) -> bytes:
    outer = integer(1, kind) + integer(1, uncompressed) + integer(1, compressed)
    outer += integer(1, 0x5EED)
    inner = integer(1, values) + integer(1, encoding)
    if kind == DICTIONARY:
        return outer + bytes([3 << 4 | 12]) + inner + b"\x12\x00" + b"\x00"
    inner += integer(1, 3) + integer(1, 3) + extra
    return outer + bytes([1 << 4 | 12]) + inner + b"\x00" + b"\x00"


def pack_bits(values: Sequence[int], width: int) -> bytes:
    total = sum(value << (width * at) for at, value in enumerate(values))
    return total.to_bytes((width * len(values) + 7) // 8, "little")


def delta_packed(values: Sequence[int], block: int = 128, miniblocks: int = 4) -> bytes:
    """DELTA_BINARY_PACKED."""
    out = varint(block) + varint(miniblocks) + varint(len(values)) + varint(zigzag(values[0]))
    deltas = [b - a for a, b in itertools.pairwise(values)]
    size = block // miniblocks
    for start in range(0, len(deltas), block):
        here = deltas[start : start + block]
        low = min(here)
        minis = [here[at : at + size] for at in range(0, len(here), size)]
        widths = [max(delta - low for delta in mini).bit_length() for mini in minis]
        out += varint(zigzag(low)) + bytes(widths + [0] * (miniblocks - len(widths)))
        for mini, width in zip(minis, widths, strict=True):
            padded = [delta - low for delta in mini] + [0] * (size - len(mini))
            out += pack_bits(padded, width)
    return out


def delta_length(strings: Sequence[bytes], block: int = 128, miniblocks: int = 4) -> bytes:
    lengths = [len(string) for string in strings]
    return delta_packed(lengths, block, miniblocks) + b"".join(strings)


def dictionary_codes(codes: Sequence[int], width: int, runs: Sequence[int] = ()) -> bytes:
    """RLE_DICTIONARY: ``runs`` are packed, in groups of eight; the rest is run-length coded."""
    out = bytes([width])
    at = 0
    for groups in runs:
        here = list(codes[at : at + 8 * groups])
        if len(here) < 8 * groups:
            here += [0] * (8 * groups - len(here))
        out += varint(groups << 1 | 1) + pack_bits(here, width)
        at = min(at + 8 * groups, len(codes))
    while at < len(codes):
        end = at
        while end < len(codes) and codes[end] == codes[at]:
            end += 1
        out += varint((end - at) << 1) + codes[at].to_bytes((width + 7) // 8, "little")
        at = end
    return out


def plain_strings(names: Sequence[str]) -> bytes:
    return b"".join(len(name.encode()).to_bytes(4, "little") + name.encode() for name in names)


@dataclass
class Pages:
    """The eight pages of a row group before they are put together."""

    cells: int
    bodies: list[bytes]
    families: tuple[str, ...]
    kinds: list[int] = field(default_factory=lambda: list(KINDS))
    encodings: list[int] = field(default_factory=lambda: list(ENCODINGS))
    counts: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    extra: bytes = b""
    """More fields at the end of each data page's header."""

    def encode(self, pages: int = ALL_PAGES) -> bytes:
        parts = []
        for page in range(pages):
            body = self.bodies[page]
            values = len(self.families) if page == 1 else self.cells
            parts.append(
                header(
                    self.kinds[page],
                    self.sizes.get(page, len(body)),
                    len(body),
                    self.counts.get(page, values),
                    self.encodings[page],
                    self.extra if page != 1 else b"",
                )
            )
            parts.append(body)
        return b"".join(parts)


def make_pages(
    cells: Sequence[Cell], block: int = 128, miniblocks: int = 4, runs: Sequence[int] = ()
) -> Pages:
    """The pages of some cells, uncompressed."""
    families = tuple(sorted({cell.family for cell in cells}))
    codes = [families.index(cell.family) for cell in cells]
    width = max(len(families) - 1, 0).bit_length()
    bodies = [
        delta_length([cell.row for cell in cells], block, miniblocks),
        plain_strings(families),
        dictionary_codes(codes, width, runs),
        delta_length([cell.qualifier for cell in cells], block, miniblocks),
        np.array([cell.timestamp for cell in cells], "<i8").tobytes(),
        np.array([cell.txn for cell in cells], "<i8").tobytes(),
        np.array([int(cell.op) for cell in cells], "<i4").tobytes(),
        delta_length([cell.value for cell in cells], block, miniblocks),
    ]
    return Pages(len(cells), bodies, families)


def walk(data: bytes, cells: int, pages: int = ALL_PAGES) -> tuple[int, list[list[int]]]:
    """Run the header kernel: its status and the page table."""
    held = np.frombuffer(data + b"\x00", np.uint8)
    table = np.full((pages, TABLE_WIDTH), -7, np.int64)
    status = walk_pages(held.ctypes.data, len(data), len(data), cells, pages, table.ctypes.data)
    return status, table.tolist()


def decode(data: bytes, pages: Pages, *, values: bool = True) -> Block | int:
    """Run both kernels over uncompressed pages: the block, or the status that refused it."""
    count = ALL_PAGES if values else KEY_PAGES
    page_bytes, table = walk(data, pages.cells, count)
    assert page_bytes >= 0, f"walk refused the pages: {page_bytes}"
    arena = np.full(arena_bytes(page_bytes, pages.cells), 0xAA, np.uint8)
    for entry in table:
        body, place, size = entry[BODY], entry[PLACE], entry[UNCOMPRESSED]
        arena[place : place + size] = np.frombuffer(data, np.uint8, size, body)
    held = np.array(table, np.int64)
    lut = np.arange(len(pages.families), dtype=np.int16)
    descriptor = np.zeros(DESCRIPTOR_WIDTH, np.int64)
    status = decode_pages(
        held.ctypes.data,
        arena.ctypes.data,
        page_bytes,
        pages.cells,
        count,
        len(lut),
        lut.ctypes.data,
        descriptor,
    )
    return status if status < 0 else Block(descriptor, pages.families, arena)
