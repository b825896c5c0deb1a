"""How many changes there are after each txn: what admission control divides a feed by.

Only txns are looked at, and only in files that hold some of the range; the answer is what a batch
will have to read, give or take rows outside of a tablet's fence or columns that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stele.env import paths
from stele.env.ports import FileSystem
from stele.model.arrays import Ints
from stele.storage.change_reader import may_hold
from stele.storage.fragment_reader import FragmentReader
from stele.storage.read_plan import ReadPlan
from stele.storage.references import Reference, file_references


@dataclass(frozen=True, slots=True)
class ChangeLimits:
    """How much one batch of a feed may have; ``None`` for as much as there is."""

    mutations: int | None = None
    size_bytes: int | None = None

    @property
    def is_open(self) -> bool:
        return self.mutations is None and self.size_bytes is None


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The txns of a range, rising, with the mutations of each and about their bytes."""

    txns: Ints
    mutations: Ints
    size_bytes: Ints

    def admit(self, since: int, limits: ChangeLimits) -> int | None:
        """The last txn after ``since`` that fits, at least the first; ``None`` if all of them do.

        A commit is never cut: a reader of half of it would see what never was.
        """
        start = int(np.searchsorted(self.txns, since, "right"))
        stop = len(self.txns)
        for weights, limit in (
            (self.mutations, limits.mutations),
            (self.size_bytes, limits.size_bytes),
        ):
            if limit is not None:
                reached = np.cumsum(weights[start:])
                stop = min(stop, start + int(np.searchsorted(reached, limit, "right")))
        if stop == len(self.txns):
            return None
        return int(self.txns[max(stop - 1, start)])


def count_changes(
    files: FileSystem, directory: str, plan: ReadPlan, since: int, until: int
) -> ChangeCounts:
    """Count the changes of a plan in ``(since, until]``."""
    txns, mutations, sizes = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    for reference in _distinct(plan, since, until):
        every = _txns(files, directory, reference)
        chosen = every[(since < every) & (every <= until)]
        txns.append(chosen)
        for weights, total in (
            (mutations, reference.file.summary.cells),
            (sizes, reference.file.size),
        ):
            weights.append(np.full(len(chosen), total / len(every)))
    distinct, places = np.unique(np.concatenate(txns), return_inverse=True)
    counted = [
        np.bincount(places, np.concatenate(weights), minlength=len(distinct))
        for weights in (mutations, sizes)
    ]
    return ChangeCounts(distinct, *(np.ceil(each).astype(np.int64) for each in counted))


def _distinct(plan: ReadPlan, since: int, until: int) -> Iterable[Reference]:
    """Each file once, however many tablets and groups refer to it."""
    references = (ref for tablet in plan.tablets for ref in file_references(tablet.references))
    return {
        reference.file.name: reference
        for reference in references
        if may_hold(reference, since, until)
    }.values()


def _txns(files: FileSystem, directory: str, reference: Reference) -> Ints:
    """The txns of a file's cells; one may stand for several that have the same."""
    if reference.txn is not None:
        return np.array([reference.txn])
    path = paths.join(directory, reference.file.name)
    with FragmentReader.open(files, path, reference.file) as reader:
        return np.concatenate([reader.read_txns(group) for group in range(len(reader.index))])
