"""Merging step by step: what whole merges and merges of streams have in common.

A merger holds, for each source, the block it has reached and the position in it. A step runs one
kernel, which merges rows, decides which of their cells stay (reads and compactions differ in this
alone) and appends those to the runs, until some source needs its next block or enough is chosen.
Between two steps every source stands at the beginning of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stele.kernels.block import COUNT, Ints
from stele.kernels.merge_kernel import BYTES_MAX, CELLS_MAX, COMPACT, KEEP_ALL, READ, advance
from stele.kernels.merge_rows import DONE, workspace
from stele.kernels.resolve_runs import READ_LISTS
from stele.kernels.runs import CELL_COUNT, RUN_COUNT, TOTALS_WORDS, VALUE_SIZE, Runs, empty_runs
from stele.kernels.selection import Selection
from stele.kernels.sources import Source, SourceTable, restrict
from stele.kernels.visibility import visibility_state
from stele.model.column_set import ALL_COLUMNS, ColumnSet

ROUND_RUNS = 4_096
"""Runs merged before their cells are decided on: few enough to be still in the cache."""

ROUND_RUNS_PER_SOURCE = 64
"""With many sources a round is longer, so that entering them all does not count."""

COPIED_SHARE = 8
"""Chosen runs that fill less than this part of the room for them are handed over as a copy."""

UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class Rule:
    """What decides which merged cells stay: the kind of decision, its numbers, and whether the
    rows that only one source has can be kept without looking at them."""

    decision: int
    parameters: Ints
    is_clean: Callable[[Source], bool]
    columns: ColumnSet = ALL_COLUMNS
    """Cells of other columns are left out."""


class Merger:
    """Not for two threads at once; kernels release the GIL while they run."""

    def __init__(
        self,
        sources: int,
        rule: Rule,
        *,
        cells_target: int = UNLIMITED,
        bytes_target: int = UNLIMITED,
        round_runs: int | None = None,
    ):
        self._rule = rule
        self._parameters = rule.parameters.copy()
        self._columns: ColumnSet | None = None
        self._sources: list[Source | None] = [None] * sources
        self._slots = np.full(sources, -1, np.int64)
        self._positions = np.zeros(sources, np.int64)
        self._last = np.zeros(sources, np.int64)
        self._work = workspace(sources)
        round_runs = round_runs or max(ROUND_RUNS, ROUND_RUNS_PER_SOURCE * sources)
        self._limits = np.array([round_runs, bytes_target, cells_target, bytes_target], np.int64)
        self._table = SourceTable((), 2 * sources)
        self._merged = empty_runs(0)
        self._state = visibility_state(0)
        self._state_cells = 0
        self._runs = empty_runs(0)
        self._totals = np.zeros(TOTALS_WORDS, np.int64)

    def feed(self, number: int, source: Source, *, last: bool) -> None:
        """Give a source its next block, or its last; it must end between rows."""
        assert source.block.count, "blocks of a merge are not empty"
        source = restrict(source, self._rule.columns)
        assert self._rule.decision != KEEP_ALL or source.columns.is_everything
        if self._columns is None:
            self._columns = source.columns
        elif source.columns != self._columns:
            self._mix_columns()
        self._sources[number] = source
        self._slots[number] = self._table.add(source, clean=self._rule.is_clean(source))
        self._positions[number] = 0
        self._last[number] = last

    def _mix_columns(self) -> None:
        """From now on sources differ in the families that their row erasures reach."""
        assert self._rule.decision != COMPACT, (
            "trim references with different columns before compacting them"
        )
        if self._rule.decision == READ:
            self._parameters[READ_LISTS // 8] = 1

    def finish(self, number: int) -> None:
        """Say that the block a source has reached the end of was its last."""
        self._last[number] = True

    @property
    def is_full(self) -> bool:
        """Whether as much is chosen as was asked for."""
        return bool(
            self._totals[CELL_COUNT // 8] >= self._limits[CELLS_MAX]
            or self._totals[VALUE_SIZE // 8] >= self._limits[BYTES_MAX]
        )

    @property
    def has_cells(self) -> bool:
        """Whether anything is chosen."""
        return bool(self._totals[CELL_COUNT // 8])

    def step(self) -> int:
        """Merge on; the number of the source that needs a block, ``PAUSED`` or ``DONE``."""
        self._make_room()
        return advance(
            self._rule.decision,
            self._parameters,
            self._table.matrix,
            self._slots,
            self._positions,
            self._last,
            self._merged,
            self._runs,
            self._work,
            self._state,
            self._totals,
            self._limits,
        )

    def _make_room(self) -> None:
        """Room for every cell that one step can reach."""
        active = self._slots >= 0
        counts = self._table.matrix[self._slots[active], COUNT]
        cells = int((counts - self._positions[active]).sum())
        if len(self._merged) < cells:
            self._merged = empty_runs(cells)
        if self._state_cells < cells:
            self._state, self._state_cells = visibility_state(cells), cells
        chosen = int(self._totals[RUN_COUNT // 8])
        if len(self._runs) < chosen + cells:
            runs = empty_runs(2 * (chosen + cells))
            runs[:chosen] = self._runs[:chosen]
            self._runs = runs

    def _take_runs(self) -> Runs:
        """The chosen runs. Few are copied, so that the room there was for many serves again."""
        chosen = int(self._totals[RUN_COUNT // 8])
        runs = self._runs
        if chosen * COPIED_SHARE > len(runs):
            self._runs = empty_runs(0)
            return runs
        copied = empty_runs(chosen)
        copied[:chosen] = runs[:chosen]
        return copied

    def take(self) -> Selection:
        """What has been chosen since the last time."""
        selection = Selection(self._table, self._take_runs(), self._totals)
        self._totals = np.zeros(TOTALS_WORDS, np.int64)
        if self._last.all():
            return selection  # no source comes any more, so the table keeps nothing alive in vain
        table = SourceTable((), 2 * len(self._slots))
        for number, source in enumerate(self._sources):
            if self._slots[number] >= 0 and source is not None:
                self._slots[number] = table.add(source, clean=self._rule.is_clean(source))
        self._table = table
        return selection


def merge_parts(
    sources: Sequence[Source], rule: Rule, cells: int, value_bytes: int
) -> Iterator[Selection]:
    """Like :func:`merge_whole`, in parts of about so many cells or bytes, each of whole rows."""
    sources = [source for source in sources if source.block.count]
    merger = Merger(
        len(sources), rule, cells_target=cells, bytes_target=value_bytes, round_runs=ROUND_RUNS
    )
    _feed_all(merger, sources)
    while merger.step() != DONE:
        yield merger.take()
    if merger.has_cells:
        yield merger.take()


def _feed_all(merger: Merger, sources: Sequence[Source]) -> None:
    for number, source in enumerate(sources):
        merger.feed(number, source, last=True)


def merge_whole(sources: Sequence[Source], rule: Rule) -> Selection:
    """Merge sources that consist of one block each; empty ones play no part."""
    sources = [source for source in sources if source.block.count]
    merger = Merger(len(sources), rule)
    _feed_all(merger, sources)
    answer = merger.step()
    assert answer == DONE, f"the merge of whole blocks stopped early: {answer}"
    return merger.take()
