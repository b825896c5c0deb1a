"""Reading single rows: the scratch memory around the kernel, and the packed cells it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stele.kernels.block import Families, Ints
from stele.kernels.filter import ByteFilters
from stele.kernels.merge_rows import CELL_CURSOR_BYTES
from stele.kernels.point_get import (
    CELL_HEAD,
    CELLS_MAX,
    CELLS_NEEDED,
    CHOSEN,
    CURSORS,
    MERGED,
    MISSING,
    MISSING_BLOCK,
    ORDER,
    PACKED,
    PACKED_MAX,
    PACKED_NEEDED,
    SCRATCH_WORDS,
    SOURCES,
    SOURCES_MAX,
    SOURCES_NEEDED,
    STATE,
    TOO_SMALL,
    pack_selection,
    point_get,
)
from stele.kernels.point_index import PointIndex
from stele.kernels.point_many import read_many
from stele.kernels.resolve import ReadView
from stele.kernels.resolve_runs import READ_TXN
from stele.kernels.runs import empty_runs
from stele.kernels.sources import SOURCE_WIDTH
from stele.kernels.visibility import visibility_state
from stele.model.cells import Cell

SOURCES_START = 16
CELLS_START = 256
PACKED_START_BYTES = 64 * 1024
"""What a reader begins with; it grows when a row needs more."""

PACKED_KEPT_BYTES = 4 * 1024 * 1024
"""Of the packed cells of larger rows nothing is kept: every thread that reads has a scratch."""

QUICK_CELLS_MAX = 4_096
"""Cells of a row in all references together. A larger row is read the slow way: resolving it takes
long enough that other threads should run meanwhile."""


class PackedCell(NamedTuple):
    """One cell of a row that was read."""

    family: str
    qualifier: bytes
    timestamp: int
    txn: int
    value: bytes


class PackedRow:
    """The visible cells of one row in cell order, decoded when they are asked for."""

    __slots__ = ("data", "families", "row")

    def __init__(self, row: bytes, families: Families, data: bytes):
        self.row = row
        self.families = families
        self.data = data

    def __iter__(self) -> Iterator[PackedCell]:
        data, at, head = self.data, 0, CELL_HEAD.size
        while at < len(data):
            code, name, value, timestamp, txn = CELL_HEAD.unpack_from(data, at)
            middle = at + head + name
            at = middle + value
            yield PackedCell(
                self.families[code],
                data[middle - name : middle],
                timestamp,
                txn,
                data[middle:at],
            )

    def cells(self) -> list[Cell]:
        """The cells as plain values."""
        return [
            Cell(self.row, cell.family, cell.qualifier, cell.timestamp, cell.value, txn=cell.txn)
            for cell in self
        ]


@dataclass(frozen=True, slots=True)
class Missing:
    """A block that has to be in memory before a row can be read."""

    fragment: int
    block: int


class PointScratch:
    """The working memory of a reader; may be handed on from reader to reader of one thread."""

    def __init__(self) -> None:
        self.numbers: Ints = np.zeros(SCRATCH_WORDS, np.int64)
        self.packed = bytearray()
        self._parts: dict[int, object] = {}
        self._grow_sources(SOURCES_START)
        self._grow_cells(CELLS_START)
        self._grow_packed(PACKED_START_BYTES)

    def grow(self) -> None:
        """Make room for what the last call needed."""
        needed = self.numbers
        if needed[SOURCES_NEEDED] > needed[SOURCES_MAX]:
            self._grow_sources(2 * int(needed[SOURCES_NEEDED]))
        if needed[CELLS_NEEDED] > needed[CELLS_MAX]:
            self._grow_cells(2 * int(needed[CELLS_NEEDED]))
        if needed[PACKED_NEEDED] > needed[PACKED_MAX]:
            self._grow_packed(_with_room(int(needed[PACKED_NEEDED])))

    def shrink(self) -> None:
        """Give back what a very large row needed."""
        if len(self.packed) > PACKED_KEPT_BYTES:
            self.numbers[PACKED_NEEDED] = 0
            self._grow_packed(PACKED_START_BYTES)

    def _grow_sources(self, sources: int) -> None:
        self._set(SOURCES, np.empty(sources * SOURCE_WIDTH, np.int64))
        self._set(CURSORS, np.empty(sources * CELL_CURSOR_BYTES // 8, np.int64))
        self._set(ORDER, np.empty(sources, np.int64))
        self.numbers[SOURCES_MAX] = sources

    def _grow_cells(self, cells: int) -> None:
        self._set(MERGED, empty_runs(cells))
        self._set(CHOSEN, empty_runs(cells))
        self._set(STATE, visibility_state(cells))
        self.numbers[CELLS_MAX] = cells

    def _grow_packed(self, size: int) -> None:
        self.packed = bytearray(size)
        self._set(PACKED, np.frombuffer(self.packed, np.uint8))
        self.numbers[PACKED_MAX] = size

    def _set(self, part: int, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
        self._parts[part] = array
        self.numbers[part] = array.ctypes.data


def _with_room(size: int) -> int:
    """More than is needed now, where that is kept."""
    return max(size, min(2 * size, PACKED_KEPT_BYTES))


class PointReader:
    """Reads single rows of one index. For one thread at a time."""

    __slots__ = ("_filters", "_index", "_read", "_scratch", "_view")

    def __init__(
        self,
        index: PointIndex,
        view: ReadView,
        filters: ByteFilters | None = None,
        scratch: PointScratch | None = None,
    ):
        self._index = index = index.restricted(view.columns)
        self._view = view
        self._read = view.parameters(listed=index.listed)
        self._filters = filters or ByteFilters(index.families)
        self._scratch = scratch or PointScratch()

    def get(self, row: bytes, txn: int | None = None) -> PackedRow | None:
        """A row as of a txn, or of the view's; blocks that are not in memory are loaded."""
        found = self.get_cached(row, txn)
        return self._get_held(row, txn) if isinstance(found, Missing) else found

    def get_cached(self, row: bytes, txn: int | None = None) -> PackedRow | Missing | None:
        """Like :meth:`get`, but names the first block that is not in memory."""
        self._read[READ_TXN // 8] = self._view.txn if txn is None else txn
        index, scratch = self._index, self._scratch
        while True:
            size = point_get(
                index.matrix,
                len(index.fragments),
                row,
                self._read,
                self._filters.parameters,
                scratch.numbers,
            )
            if size >= 0:
                return self._packed(row, size)
            if size != TOO_SMALL:
                return Missing(MISSING - size, int(scratch.numbers[MISSING_BLOCK]))
            if scratch.numbers[CELLS_NEEDED] > QUICK_CELLS_MAX:
                return self._get_held(row, txn)
            scratch.grow()

    def _get_held(self, row: bytes, txn: int | None) -> PackedRow | None:
        """The slow way, which holds all blocks that it needs while it works on them."""
        view = self._view if txn is None else replace(self._view, txn=txn)
        selection = read_many(self._index, [row], view).selection
        while True:
            size = pack_selection(
                selection.table.matrix,
                selection.runs,
                selection.run_count,
                self._filters.parameters,
                self._scratch.numbers,
            )
            if size != TOO_SMALL:
                return self._packed(row, size)
            self._scratch.grow()

    def _packed(self, row: bytes, size: int) -> PackedRow | None:
        if size == 0:
            return None
        data = bytes(memoryview(self._scratch.packed)[:size])
        self._scratch.shrink()
        return PackedRow(row, self._index.families, data)
