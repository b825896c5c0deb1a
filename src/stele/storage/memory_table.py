"""The memory of one table, or of one of its groups: what is committed and not yet in fragments.

It is a set of *runs*, each sorted, none of which depends on another's place because every cell
carries its txn:

    active   row records of small commits, appended to (``memory_records``)
    recent   batches as they came, and record buffers that are full
    settled  what has been merged, in tiers (``memory_policy``)

Threads
-------
One writer at a time: whoever adds, seals, installs, flushes or drops is inside the section that
orders commits. Readers take no lock: they take ``version`` once and read that. A version's settled
runs never change; recent and active are only appended to, with txns above any that a reader of this
version reads at. What takes time (merging, turning records into columns) happens outside
of the section, on inputs that do not change: ``plan_merge``, then ``MergePlan.run`` anywhere,
then ``install``.

What is not durable stays apart
-------------------------------
Only runs that are durable as a whole are merged or flushed. So a flush can take exactly the
commits up to some txn, and commits that the log refuses can be dropped again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stele.kernels.block import Block
from stele.kernels.merge import merge
from stele.storage.memory_policy import TierLimits, choose_merge
from stele.storage.memory_records import RecordBuffer

FRAGMENT_OVERHEAD_BYTES = 1024
"""What a run costs beside its cells: descriptor, Arrow objects, its place in lists."""

RECENT_MAX = 256
"""Recent runs before they are moved to the settled ones, merged or not."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryFragment:
    """Sorted cells that never change."""

    block: Block
    txn_min: int
    txn_max: int
    size_bytes: int
    first_row: bytes
    last_row: bytes

    @staticmethod
    def of(block: Block, txn_min: int, txn_max: int) -> MemoryFragment:
        assert block.count, "a fragment has cells"
        return MemoryFragment(
            block,
            txn_min,
            txn_max,
            block.nbytes + FRAGMENT_OVERHEAD_BYTES,
            block.row(0),
            block.row(block.count - 1),
        )

    def row_block(self, row: bytes) -> Block | None:
        """The block, if the row may be in it: whoever reads the row searches it."""
        return self.block if self.first_row <= row <= self.last_row else None


Run = MemoryFragment | RecordBuffer


@dataclass(frozen=True, slots=True, eq=False)
class MemoryVersion:
    """What a reader sees; see the module docstring for what may still change in it."""

    settled: tuple[Run, ...]
    recent: list[Run]
    active: RecordBuffer

    def runs(self) -> list[Run]:
        """All runs that hold something, in no order that means anything."""
        runs: list[Run] = [*self.settled, *self.recent]
        if len(self.active):
            runs.append(self.active)
        return runs

    def blocks(self, txn: int) -> list[Block]:
        """Blocks with every cell committed at or below ``txn``, and perhaps later ones."""
        return [run.block for run in self.runs() if run.txn_min <= txn]

    def row_blocks(self, row: bytes, txn: int) -> list[Block]:
        """Blocks with every cell of one row committed at or below ``txn``, and perhaps others."""
        found = (run.row_block(row) for run in self.runs() if run.txn_min <= txn)
        return [block for block in found if block is not None]


@dataclass(frozen=True, slots=True, eq=False)
class MergePlan:
    """Runs to become one. They do not change, so ``run`` may be called anywhere."""

    inputs: tuple[Run, ...]

    def run(self) -> MemoryFragment:
        """Merge; the result goes to ``MemoryTable.install``."""
        merged = merge([run.block for run in self.inputs]).block()
        return MemoryFragment.of(
            merged,
            min(run.txn_min for run in self.inputs),
            max(run.txn_max for run in self.inputs),
        )


@dataclass(frozen=True, slots=True, eq=False)
class FlushSet:
    """Everything in memory up to ``txn``, and nothing above."""

    runs: tuple[Run, ...]
    txn: int
    size_bytes: int

    def blocks(self) -> list[Block]:
        """The cells to be written, as sorted blocks to be merged. May be called anywhere."""
        return [run.block for run in self.runs]


class MemoryTable:
    """The memory of one table or group."""

    def __init__(self, limits: TierLimits | None = None) -> None:
        self._limits = limits or TierLimits()
        self._version = MemoryVersion((), [], RecordBuffer())
        self._flush: FlushSet | None = None
        self._merging: tuple[Run, ...] = ()
        self._settled_bytes = 0
        """Of all runs but the active one."""

    @property
    def version(self) -> MemoryVersion:
        """The current version; a reader takes it once."""
        return self._version

    @property
    def size_bytes(self) -> int:
        """How much memory all of it takes, estimated."""
        return self._settled_bytes + self._version.active.size_bytes

    @property
    def oldest_txn(self) -> int | None:
        """The smallest txn in memory: log files that end below it are not held by this table."""
        return min((run.txn_min for run in self._version.runs()), default=None)

    # Writing.

    def add_record(self, txn: int, row: bytes, record: bytes) -> None:
        """A commit of one mutation: its row and its row record."""
        if self._version.active.append(row, record, txn):
            self.seal()

    def add_records(self, txn: int, rows: Sequence[bytes], records: Sequence[bytes]) -> None:
        """A small commit: row and row record of each of its mutations."""
        append, is_full = self._version.active.append, False
        for row, record in zip(rows, records, strict=True):
            is_full = append(row, record, txn)
        if is_full:
            self.seal()

    def add_block(self, txn: int, block: Block) -> None:
        """A commit that came as a batch; all its cells carry ``txn``."""
        if block.count:
            self.add_fragment(MemoryFragment.of(block, txn, txn))

    def add_fragment(self, fragment: MemoryFragment) -> None:
        """The same, when all about it is known already."""
        self._version.recent.append(fragment)
        self._settled_bytes += fragment.size_bytes
        if len(self._version.recent) >= RECENT_MAX:
            version = self._version
            self._publish((*version.settled, *version.recent), [], version.active)

    def seal(self) -> None:
        """Close the active buffer, so that it can be merged or flushed once it is durable."""
        version = self._version
        if len(version.active):
            self._settled_bytes += version.active.size_bytes
            # A new list: readers of the old version must not meet the buffer in both places.
            self._publish(version.settled, [*version.recent, version.active], RecordBuffer())

    def drop_above(self, txn: int) -> None:
        """Forget the commits above ``txn``: the log has refused them."""
        version = self._version

        def kept(runs: Iterable[Run]) -> list[Run]:
            return [rest for run in runs if (rest := _up_to(run, txn)) is not None]

        active = version.active
        if active.txn_max > txn:
            active = active.up_to(txn)
        self._publish(tuple(kept(version.settled)), kept(version.recent), active)
        self._count()

    def _publish(self, settled: tuple[Run, ...], recent: list[Run], active: RecordBuffer) -> None:
        self._version = MemoryVersion(settled, recent, active)

    def _count(self) -> None:
        version = self._version
        self._settled_bytes = sum(run.size_bytes for run in (*version.settled, *version.recent))

    # Merging.

    def plan_merge(self, durable_txn: int) -> MergePlan | None:
        """What should be merged now, if anything; of what is durable and in no flush or merge."""
        if self._merging:
            return None  # one at a time
        version = self._version
        flushing = self._flushing()
        candidates = [
            run
            for run in (*version.settled, *version.recent)
            if run.txn_max <= durable_txn and id(run) not in flushing
        ]
        places = choose_merge([run.size_bytes for run in candidates], self._limits)
        if not places:
            return None
        self._merging = tuple(candidates[place] for place in places)
        return MergePlan(self._merging)

    def install(self, plan: MergePlan, merged: MemoryFragment | None) -> bool:
        """Put a merge's result in the place of its inputs; ``None`` if it came to nothing.

        A flush that took an input meanwhile wins: then the result is dropped.
        """
        assert plan.inputs is self._merging, "this merge was not planned last"
        self._merging = ()
        version = self._version
        inputs = {id(run) for run in plan.inputs}
        present = {id(run) for run in (*version.settled, *version.recent)}
        if merged is None or not inputs <= present or inputs & self._flushing():
            return False
        self._remove(inputs, also=(merged,))
        return True

    def _flushing(self) -> set[int]:
        return set() if self._flush is None else {id(run) for run in self._flush.runs}

    def _remove(self, runs: set[int], also: tuple[Run, ...] = ()) -> None:
        version = self._version
        settled = tuple(run for run in version.settled if id(run) not in runs)
        recent = [run for run in version.recent if id(run) not in runs]
        self._publish((*settled, *also), recent, version.active)
        self._count()

    # Flushing.

    def begin_flush(self, durable_txn: int) -> FlushSet | None:
        """Everything up to some txn, at most ``durable_txn``; ``None`` if nothing is durable.

        It stays readable until ``finish_flush``. What is not durable now is closed, at least, so
        that the next flush can have it. For a flush of everything, ``seal``, and wait until the
        last commit is durable.
        """
        assert self._flush is None, "one flush at a time"
        self.seal()
        runs = self._version.runs()
        txn = _cut(runs, durable_txn)
        chosen = tuple(run for run in runs if run.txn_max <= txn)
        if not chosen:
            return None
        self._flush = FlushSet(chosen, txn, sum(run.size_bytes for run in chosen))
        return self._flush

    def finish_flush(self, flush: FlushSet) -> None:
        """The fragment is written, and the configuration that names it is saved."""
        assert flush is self._flush, "this flush is not under way"
        self._flush = None
        self._remove({id(run) for run in flush.runs})

    def abandon_flush(self, flush: FlushSet) -> None:
        """The flush came to nothing: everything stays in memory."""
        assert flush is self._flush, "this flush is not under way"
        self._flush = None


def _up_to(run: Run, txn: int) -> Run | None:
    """What is left of a run without the commits above ``txn``."""
    if run.txn_max <= txn:
        return run
    if run.txn_min > txn:
        return None
    assert isinstance(run, RecordBuffer), "what is not durable is not merged"
    return run.up_to(txn)


def _cut(runs: Sequence[Run], durable_txn: int) -> int:
    """The largest durable txn that lies inside no run."""
    txn = durable_txn
    for run in sorted(runs, key=lambda run: run.txn_max, reverse=True):
        if run.txn_max <= txn:
            break
        txn = min(txn, run.txn_min - 1)
    return txn
