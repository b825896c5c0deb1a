"""Flush marks and the log: which of its cells recovery must not replay.

A mark covers a cell inside its rows and columns whose txn is at most its own; where marks overlap,
the highest counts. A covered cell is in a fragment. Replaying it would do harm: a compaction may
have dropped the erasure that hid it since, and it would come back.

A row erasure carries no family. It stands for an erasure of every family of its group, so it is
covered only when all of them are. Replaying one that some of them have seen already is harmless:
it hides what it hid before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from stele.kernels.block import Block, Families
from stele.kernels.search import row_lower_bound
from stele.model.cells import ROW_ERASURE_FAMILY, TIMESTAMP_MIN
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.storage.references import FlushMark
from stele.storage.regions import borders

NOTHING_FLUSHED = TIMESTAMP_MIN
"""Below every txn: the mark where there is none."""


def flushed_up_to(
    marks: Iterable[FlushMark], row: bytes, family: str, columns: ColumnSet = ALL_COLUMNS
) -> int:
    """The largest txn whose cells of a row and family are all in fragments.

    For a row erasure ``columns`` are those of the group that it would be replayed into.
    """
    here = [mark for mark in marks if mark.rows.contains(row)]
    if family != ROW_ERASURE_FAMILY:
        return max((mark.txn for mark in here if family in mark.columns), default=NOTHING_FLUSHED)
    return _flushed_everywhere(here, columns)


def is_covered(
    marks: Iterable[FlushMark],
    row: bytes,
    family: str,
    txn: int,
    columns: ColumnSet = ALL_COLUMNS,
) -> bool:
    """Whether a log cell must not be replayed."""
    return txn <= flushed_up_to(marks, row, family, columns)


def _flushed_everywhere(marks: Sequence[FlushMark], columns: ColumnSet) -> int:
    """The largest txn up to which all of ``columns`` are flushed, given marks over one row."""
    missing = columns
    for mark in sorted(marks, key=lambda mark: -mark.txn):
        missing = missing.minus(mark.columns)
        if missing.is_empty:
            return mark.txn
    return NOTHING_FLUSHED


class CompiledMarks:
    """Marks over the families of some blocks, ready to be asked for whole blocks at once."""

    def __init__(
        self, marks: Iterable[FlushMark], families: Families, columns: ColumnSet = ALL_COLUMNS
    ):
        marks = tuple(marks)
        self._families = families
        self._borders = borders(mark.rows for mark in marks)
        starts = [b"", *self._borders]
        self._limits: npt.NDArray[np.int64] = np.array(
            [
                [flushed_up_to(marks, start, family, columns) for family in families]
                for start in starts
            ],
            np.int64,
        ).reshape(len(starts), len(families))

    def covered(self, block: Block) -> npt.NDArray[np.bool_]:
        """For each cell of a sorted block whether it must not be replayed."""
        assert block.families == self._families, "marks were compiled for other families"
        covered = np.empty(block.count, np.bool_)
        if not block.count:
            return covered
        batch = block.batch
        codes = batch.column("family").indices.to_numpy()
        txns = batch.column("txn").to_numpy()
        segment = bisect_right(self._borders, block.row(0))
        start = 0
        while start < block.count:
            stop = block.count
            if segment < len(self._borders):
                stop = row_lower_bound(block, self._borders[segment])
            covered[start:stop] = txns[start:stop] <= self._limits[segment][codes[start:stop]]
            start, segment = stop, segment + 1
        return covered
