"""What a read at a txn sees of merged sources: merge and resolution in one pass.

The merge hands over whole rows as runs, a few thousand at a time, still warm in the cache; the
resolution walks over their cells once and keeps what is visible, again as runs. Nothing is copied
until the runs are gathered.

A cell is visible when it is a put that committed at or below the read's txn, has the highest such
txn among the puts at its coordinates, no erasure at or below the read's txn hides it, it lies in
the time range, and fewer than ``versions`` newer visible ones of its column do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stele.kernels.block import Ints
from stele.kernels.merge_kernel import READ
from stele.kernels.merger import Rule, merge_whole
from stele.kernels.selection import Selection
from stele.kernels.sources import Source
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.column_set import ALL_COLUMNS, ColumnSet

TXN_MAX = (1 << 63) - 1
VERSIONS_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ReadView:
    """What a read sees: cells up to ``txn``, in ``[time_start, time_end)``, of ``columns``."""

    txn: int = TXN_MAX
    versions: int | None = None
    time_start: int = TIMESTAMP_MIN
    time_end: int | None = None
    columns: ColumnSet = ALL_COLUMNS

    def parameters(self, *, listed: bool = False) -> Ints:
        """The numbers kernels get. ``listed``: sources differ in their columns."""
        last_time = TIMESTAMP_MAX if self.time_end is None else self.time_end - 1
        versions = VERSIONS_MAX if self.versions is None else self.versions
        return np.array([self.txn, versions, self.time_start, last_time, listed], np.int64)

    def passes(self, source: Source) -> bool:
        """Whether every cell of a source is known to be visible where no other source has any."""
        facts = source.facts
        if facts is None or facts.erasures or facts.versions_max > 1:
            return False
        txn = facts.txn_max if source.txn is None else source.txn
        timeless = self.time_start == TIMESTAMP_MIN and self.time_end is None
        return txn <= self.txn and timeless


def read_rule(view: ReadView) -> Rule:
    """How a merger decides for a read."""
    return Rule(READ, view.parameters(), view.passes, view.columns)


def merge_resolve(sources: Sequence[Source], view: ReadView) -> Selection:
    """What a read sees of sources that are completely in memory."""
    return merge_whole(sources, read_rule(view))
