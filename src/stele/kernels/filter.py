"""Filtering what a read sees: columns, tests on bytes, cells of a row, number of rows.

Equality, prefixes and ranges of rows, qualifiers and values are byte ranges and run in one kernel
over the runs of a selection, before anything is copied. Regular expressions run in Arrow over the
distinct strings of a column, and leave a mask.

Filters see resolved cells, so they come after erasures and versions. For columns, rows and
qualifiers that makes no difference, because they take or leave all versions of a column together;
for values it is what ``stele.model.predicates`` asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stele.kernels.block import Block, Families, Ints
from stele.kernels.byte_ranges import ByteRanges
from stele.kernels.filter_runs import (
    CELLS_PER_ROW,
    COLUMNS,
    FILTER_WORDS,
    QUALIFIER_LIST_COUNT,
    QUALIFIER_LISTS,
    ROW_LIST_COUNT,
    ROW_LISTS,
    ROWS_MAX,
    VALUE_LIST_COUNT,
    VALUE_LISTS,
    filter_runs,
)
from stele.kernels.runs import TOTALS_WORDS, empty_runs
from stele.kernels.selection import Selection, select_masked
from stele.model.columns import EVERY_COLUMN, ColumnSelection
from stele.model.filters import Filter
from stele.model.predicates import CellSpec

UNLIMITED = (1 << 63) - 1

Mask = npt.NDArray[np.bool_]

_FIELDS = (
    ("row", ROW_LISTS, ROW_LIST_COUNT),
    ("qualifier", QUALIFIER_LISTS, QUALIFIER_LIST_COUNT),
    ("value", VALUE_LISTS, VALUE_LIST_COUNT),
)


class ByteFilters:
    """Everything that can be decided by byte ranges, ready for the kernel."""

    __slots__ = ("_owners", "parameters")

    def __init__(
        self,
        families: Families,
        columns: ColumnSelection = EVERY_COLUMN,
        filters: Sequence[Filter] = (),
        cells_per_row: int | None = None,
        rows_max: int | None = None,
    ):
        self.parameters: Ints = np.zeros(FILTER_WORDS, np.int64)
        self.parameters[CELLS_PER_ROW] = UNLIMITED if cells_per_row is None else cells_per_row
        self.parameters[ROWS_MAX] = UNLIMITED if rows_max is None else rows_max
        self._owners = []
        if not columns.is_everything:
            ranges = ByteRanges([columns.ranges(family) for family in families])
            self.parameters[COLUMNS] = ranges.address
            self._owners.append(ranges)
        for field, lists, count in _FIELDS if filters else ():
            ranges = ByteRanges(
                [one.ranges for one in filters if one.field == field and one.ranges is not None]
            )
            self.parameters[lists] = ranges.address
            self.parameters[count] = ranges.count
            self._owners.append(ranges)


def apply_byte_filters(selection: Selection, filters: ByteFilters) -> tuple[Selection, int]:
    """The cells that pass, and how many rows have any."""
    runs, totals = empty_runs(selection.cells), np.zeros(TOTALS_WORDS, np.int64)
    rows = filter_runs(
        selection.table.matrix,
        selection.runs,
        selection.run_count,
        filters.parameters,
        runs,
        totals,
    )
    return selection.replace_runs(runs, totals), rows


def regex_mask(column: pa.Array, pattern: str) -> Mask:
    """Which strings of a binary column have a part that matches, tested once for each string."""
    encoded = column.dictionary_encode()
    hits = pc.match_substring_regex(encoded.dictionary, pattern=pattern)
    matches: Mask = hits.to_numpy(zero_copy_only=False)
    mask: Mask = matches[encoded.indices.to_numpy()]
    return mask


def apply_regexes(blocks: Sequence[Block], filters: Sequence[Filter]) -> Selection:
    """The cells of blocks for which every regular expression holds."""
    masks = []
    for block in blocks:
        mask = np.ones(block.count, np.bool_)
        for one in filters:
            if one.regex is not None:
                mask &= regex_mask(block.batch.column(one.field), one.regex)
        masks.append(mask)
    return select_masked(blocks, masks)


def filter_cells(
    selection: Selection, spec: CellSpec, rows_max: int | None = None
) -> tuple[Selection, int]:
    """What remains of resolved cells for a read: the cells, and how many rows have any.

    ``rows_max`` is what is left of the read's limit; cells of further rows are not looked at.
    """
    families, filters = selection.table.families, spec.filters
    if not any(one.regex is not None for one in filters):
        whole = ByteFilters(families, spec.columns, filters, spec.cells_per_row, rows_max)
        return apply_byte_filters(selection, whole)
    some, _ = apply_byte_filters(selection, ByteFilters(families, spec.columns, filters))
    matching = apply_regexes(some.gather(), filters)
    counted = ByteFilters(families, cells_per_row=spec.cells_per_row, rows_max=rows_max)
    return apply_byte_filters(matching, counted)
