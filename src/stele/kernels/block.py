"""A block: sorted cells in memory, described to kernels by one row of addresses.

A kernel that merges k blocks gets a matrix of int64, one row of ``DESCRIPTOR_WIDTH`` for each
block, instead of ten arrays for each: one argument, no typed lists, nothing compiled anew for
another k. A ``Block`` owns the buffers behind those addresses; whoever builds a matrix keeps the
blocks alive while it is in use.

Family codes are indexes into ``families``, which is sorted, so codes compare like the names they
stand for. Blocks with different families are brought to one common list before they are merged
(:func:`unify_families`).
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.model.cells import CELLS

# Columns of a descriptor. Offsets are int32 (n + 1 of them), family codes int16, ops int8.
ROW_OFFSETS = 0
ROW_BYTES = 1
FAMILY_CODES = 2
QUALIFIER_OFFSETS = 3
QUALIFIER_BYTES = 4
TIMESTAMPS = 5
TXNS = 6
OPS = 7
VALUE_OFFSETS = 8
VALUE_BYTES = 9
COUNT = 10
DESCRIPTOR_WIDTH = 12

_FIXED_WIDTHS = (
    (ROW_OFFSETS, 4),
    (FAMILY_CODES, 2),
    (QUALIFIER_OFFSETS, 4),
    (TIMESTAMPS, 8),
    (TXNS, 8),
    (OPS, 1),
    (VALUE_OFFSETS, 4),
)
"""What a slice moves: every column of fixed-width entries, and the width of one entry."""

FIXED_BYTES = sum(width for _, width in _FIXED_WIDTHS)
"""What a cell takes beside its row, qualifier and value."""
_BINARY_COLUMNS = (ROW_OFFSETS, QUALIFIER_OFFSETS, VALUE_OFFSETS)

_STEPS = np.zeros(DESCRIPTOR_WIDTH, np.int64)
"""The same as one array: how far each address moves from cell to cell."""
for _column, _width in _FIXED_WIDTHS:
    _STEPS[_column] = _width

Ints = npt.NDArray[np.int64]
Matrix = Annotated[npt.NDArray[np.int64], 2]
"""A two-dimensional array: kernels are compiled for the dimensions that their types say."""

Descriptor = Ints
Families = tuple[str, ...]

FAMILY_LISTS_KEPT = 256
"""Lists of families whose Arrow form is remembered: a table has few, and uses them often."""


class Block:
    """Immutable sorted cells. Not copied from Arrow, and handed back to Arrow without a copy.

    ``owner`` is whatever keeps the memory behind the descriptor alive. The Arrow batch is made on
    demand, because point reads never need it.
    """

    __slots__ = ("_batch", "count", "descriptor", "families", "owner")

    def __init__(
        self,
        descriptor: Descriptor,
        families: Families,
        owner: object,
        batch: pa.RecordBatch | None = None,
    ):
        self.descriptor = descriptor
        self.families = families
        self.owner = owner
        self.count = int(descriptor[COUNT])
        self._batch = batch

    @staticmethod
    def from_batch(batch: pa.RecordBatch) -> Block:
        """Wrap a trusted ``CELLS`` batch; slices are fine, its dictionary may be in any order."""
        assert batch.schema.equals(CELLS), f"not cells: {batch.schema}"
        descriptor, families, batch = describe(batch)
        return Block(descriptor, families, batch, batch)

    @property
    def batch(self) -> pa.RecordBatch:
        """The cells as a ``CELLS`` batch over the same memory."""
        if self._batch is None:
            self._batch = _to_batch(self)
        return self._batch

    @property
    def nbytes(self) -> int:
        """Bytes of cell data the block refers to (a slice counts only its own part)."""
        return self.count * FIXED_BYTES + sum(map(self.column_bytes, _BINARY_COLUMNS))

    def column_bytes(self, offsets: int) -> int:
        """Bytes of all rows, qualifiers or values, named by the column of their offsets."""
        if not self.count:
            return 0
        address = int(self.descriptor[offsets])
        return _load_i32(address + 4 * self.count) - _load_i32(address)

    def row(self, index: int) -> bytes:
        """The row key of one cell."""
        offsets = int(self.descriptor[ROW_OFFSETS]) + 4 * index
        start, end = _load_i32(offsets), _load_i32(offsets + 4)
        return ctypes.string_at(int(self.descriptor[ROW_BYTES]) + start, end - start)

    def slice(self, start: int, stop: int) -> Block:
        """Cells ``[start, stop)`` without a copy."""
        descriptor = self.descriptor + start * _STEPS
        descriptor[COUNT] = stop - start
        return Block(descriptor, self.families, self.owner)

    def with_families(self, families: Families) -> Block:
        """The same cells with codes for another, larger list of families."""
        if families == self.families:
            return self
        position = {name: code for code, name in enumerate(families)}
        codes = np.array([position[name] for name in self.families], np.int16)
        family = self.batch.column(1)
        remapped = codes[family.indices.to_numpy()] if self.count else np.empty(0, np.int16)
        column = _family_column(remapped, families)
        batch = self.batch.set_column(1, CELLS.field(1), column)
        return Block(_addresses(batch), families, batch, batch)


def unify_families(blocks: Sequence[Block]) -> tuple[Families, list[Block]]:
    """One sorted list of families for all blocks, and the blocks with codes for it."""
    first = blocks[0].families if blocks else ()
    if all(block.families == first for block in blocks):
        return first, list(blocks)
    families = tuple(sorted(set().union(*(block.families for block in blocks))))
    return families, [block.with_families(families) for block in blocks]


def matrix(blocks: Sequence[Block]) -> Descriptor:
    """The descriptors of several blocks as one argument for a kernel."""
    if not blocks:
        return np.empty((0, DESCRIPTOR_WIDTH), np.int64)
    return np.stack([block.descriptor for block in blocks])


def _family_column(codes: npt.NDArray[np.int16], families: Families) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), _names(families))


@lru_cache(maxsize=FAMILY_LISTS_KEPT)
def _names(families: Families) -> pa.StringArray:
    return pa.array(families, pa.utf8())


def _sort_dictionary(family: Any, names: list[str]) -> tuple[pa.DictionaryArray, list[str]]:
    ordered = sorted(set(names))
    position = {name: code for code, name in enumerate(ordered)}
    codes = np.array([position[name] for name in names], np.int16)
    return _family_column(codes[family.indices.to_numpy()], tuple(ordered)), ordered


def describe(batch: pa.RecordBatch) -> tuple[Descriptor, Families, pa.RecordBatch]:
    """The descriptor of a ``CELLS`` or ``MUTATIONS`` batch, its families, and what must stay alive.

    That is the batch itself, or a copy of it whose family codes follow the order of their names.
    Mutations have no txns yet: the address of theirs is 0.
    """
    family = batch.column(1)
    names = family.dictionary.to_pylist()
    if any(a >= b for a, b in itertools.pairwise(names)):
        family, names = _sort_dictionary(family, names)
        batch = batch.set_column(1, CELLS.field(1), family)
    return _addresses(batch), tuple(names), batch


def _addresses(batch: pa.RecordBatch) -> Descriptor:
    row, family, qualifier, timestamp, *txn, op, value = batch.columns
    descriptor = np.zeros(DESCRIPTOR_WIDTH, np.int64)
    descriptor[ROW_OFFSETS], descriptor[ROW_BYTES] = _binary_addresses(row)
    descriptor[FAMILY_CODES] = _fixed_address(family.indices, 2)
    descriptor[QUALIFIER_OFFSETS], descriptor[QUALIFIER_BYTES] = _binary_addresses(qualifier)
    descriptor[TIMESTAMPS] = _fixed_address(timestamp, 8)
    if txn:
        descriptor[TXNS] = _fixed_address(txn[0], 8)
    descriptor[OPS] = _fixed_address(op, 1)
    descriptor[VALUE_OFFSETS], descriptor[VALUE_BYTES] = _binary_addresses(value)
    descriptor[COUNT] = batch.num_rows
    return descriptor


def _binary_addresses(array: Any) -> tuple[int, int]:
    _, offsets, data = array.buffers()
    offsets_address = 0 if offsets is None else offsets.address + 4 * array.offset
    return offsets_address, 0 if data is None else data.address


def _fixed_address(array: Any, width: int) -> int:
    data = array.buffers()[1]
    return 0 if data is None else int(data.address) + width * int(array.offset)


def _load_i32(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def _to_batch(block: Block) -> pa.RecordBatch:
    count, owner = block.count, block.owner
    if not count:
        return _empty_batch(block.families)

    def fixed(column: int, width: int) -> pa.Buffer:
        return pa.foreign_buffer(int(block.descriptor[column]), count * width, owner)

    def binary(offsets: int, data: int) -> pa.Array:
        address = int(block.descriptor[offsets])
        end = _load_i32(address + 4 * count)
        buffers = [
            None,
            pa.foreign_buffer(address, 4 * (count + 1), owner),
            pa.foreign_buffer(int(block.descriptor[data]), end, owner),
        ]
        return pa.Array.from_buffers(pa.binary(), count, buffers)

    codes = pa.Array.from_buffers(pa.int16(), count, [None, fixed(FAMILY_CODES, 2)])
    family = pa.DictionaryArray.from_arrays(codes, _names(block.families))
    columns = [
        binary(ROW_OFFSETS, ROW_BYTES),
        family,
        binary(QUALIFIER_OFFSETS, QUALIFIER_BYTES),
        pa.Array.from_buffers(pa.int64(), count, [None, fixed(TIMESTAMPS, 8)]),
        pa.Array.from_buffers(pa.int64(), count, [None, fixed(TXNS, 8)]),
        pa.Array.from_buffers(pa.int8(), count, [None, fixed(OPS, 1)]),
        binary(VALUE_OFFSETS, VALUE_BYTES),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CELLS)


def _empty_batch(families: Families) -> pa.RecordBatch:
    columns = [pa.array([], field.type) for field in CELLS]
    columns[1] = _family_column(np.empty(0, np.int16), families)
    return pa.RecordBatch.from_arrays(columns, schema=CELLS)
