"""What a compaction keeps: everything that some read at or above the horizon needs.

Given the cells of some references and a horizon H, for every read at S >= H, and whatever else it
is merged with, the result answers like the input. So

    above H     everything stays: some read stands between any two txns
    puts        of those at the same coordinates only the newest at or below H, and not even that
                one if an erasure at or below H hides it
    erasures    at or below H, those that another one makes superfluous go: one of the same or a
                wider scope that is at least as high in timestamp and in txn. The others stay, since
                they may hide cells of references that are not part of this compaction

When the compaction is *rooted*, that is, when it covers all references that hold anything of its
rows and columns, nothing is left to hide, and all erasures at or below H go. Only then are
versions purged as well: purging a put elsewhere could bring back one that it replaced, and counting
versions without seeing all erasures could take the wrong ones.

The purge policy judges what a read at H sees: the version of index i (0 is the newest visible
one of its column) goes iff for some clause (history, cutoff): i >= history and timestamp < cutoff.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stele.kernels.block import Ints
from stele.kernels.merge_kernel import COMPACT
from stele.kernels.merger import Rule, merge_whole
from stele.kernels.selection import Selection
from stele.kernels.sources import Source


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction may drop. ``clauses`` are a purge policy's pairs (history, cutoff)."""

    horizon: int
    rooted: bool = False
    clauses: tuple[tuple[int, int], ...] = ()

    def parameters(self) -> Ints:
        """The numbers kernels get."""
        numbers = [self.horizon, self.rooted, len(self.clauses)]
        return np.array([*numbers, *(n for clause in self.clauses for n in clause)], np.int64)

    def passes(self, source: Source) -> bool:
        """Whether all cells of a source are known to stay where no other source has any."""
        facts = source.facts
        if facts is None or facts.erasures or facts.versions_max > 1:
            return False
        return not (self.rooted and self.clauses)


def compaction_rule(plan: CompactionPlan) -> Rule:
    """How a merger decides for a compaction. Its sources must all act on the same columns."""
    return Rule(COMPACT, plan.parameters(), plan.passes)


def compact(sources: Sequence[Source], plan: CompactionPlan) -> Selection:
    """What a compaction of sources that are completely in memory keeps."""
    return merge_whole(sources, compaction_rule(plan))
