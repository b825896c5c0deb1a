"""Crash-state enumeration: what is left after a power failure at any moment, and is it enough?

A *run* does durable work on a file system and says what it attempted and what it acknowledged::

    def run(fs, notes):
        log = LogWriter(fs, "log")
        for entry in entries:
            notes.attempt(entry)
            log.append(entry)
            log.sync()
            notes.ack(entry)

A *check* opens what a crash left, recovers, and raises if a promise is broken::

    def check(fs, point):
        found = read_log(fs, "log")
        assert found[: len(point.acked)] == list(point.acked)      # nothing acknowledged is lost
        assert set(found) <= set(point.attempted)                  # nothing is made up
        return found                                               # from now on, this was shown

    explore(run, check, seed=7, states_max=10_000).require(states=2_000, torn=100)

The run's steps are recorded once. For every prefix of them the explorer builds what a power failure
at that moment may leave (``crash_choices``), drops states it has seen with the same
acknowledgements, and checks each in a file system of its own. A failing check names the step, the
choice and the number of the state; ``only=number`` checks that one state again.

**Kinds of work.** A run of many operations says with ``Notes.begin`` what it is busy with. Where
there are more moments than the budget allows, every kind gets one all the same, the others are
spread evenly over the trace; and a report counts for each kind the states within it.

**Crashes in recovery.** With ``nested_max`` the check itself is recorded and crashed for some of
the states, since recovery writes too. Besides power failures, the first crash may then be a *kill*:
nothing is lost, but what was unsynced still is. What the first recovery returned counts as
acknowledged in the second: a reader may have seen it. (A recovery that trusts unsynced bytes of a
killed process without ``sync_file`` fails exactly here.)

Trying little must not look like success: ``CrashReport.require`` fails when too few states were
checked, or too few choices of some kind tried.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from stele.env.disk import Disk, KeepUnsynced, Step
from stele.env.failpoints import SimulatedCrash
from stele.env.memory_fs import MemoryFileSystem
from stele.sim.crash_choices import Chosen, Kind, Moment

STATES_PER_MOMENT_MIN = 3
"""A moment of a trace is worth trying only with this many states: all kept, all lost, one between.
More moments tell more than more states of few."""

WITHIN = "in_"
"""What a report puts before a kind of work, where it counts the states within."""

MISSES_MAX = 32
"""So many random choices in a row without a new state, and a moment counts as exhausted."""

NESTED_MOMENTS_MAX = 8
NESTED_STATES_PER_MOMENT = 4
"""How thoroughly one recovery is crashed; breadth comes from crashing many."""

TRACE_TAIL_STEPS = 8
"""How many steps before the crash a failure message shows."""


@dataclass(slots=True)
class Notes:
    """What a run attempted and acknowledged, and after how many steps of the disk."""

    _steps: list[Step]
    attempts: list[tuple[int, Any]] = field(default_factory=list)
    acks: list[tuple[int, Any]] = field(default_factory=list)
    begun: list[tuple[int, str]] = field(default_factory=list)

    def begin(self, kind: str) -> None:
        """From here on, until the next kind of work begins, the run is busy with this one."""
        self.begun.append((len(self._steps), kind))

    def busy_with(self, made: int) -> str | None:
        """What was half done after so many steps: some of its steps were made, and not all."""
        starts = [step for step, _kind in self.begun]
        following = bisect_left(starts, made)
        end = starts[following] if following < len(starts) else len(self._steps)
        return self.begun[following - 1][1] if following and made < end else None

    def attempt(self, value: Any) -> None:
        """From here on ``value`` may be found after a crash."""
        self.attempts.append((len(self._steps), value))

    def ack(self, value: Any) -> None:
        """From here on ``value`` must be found after a crash."""
        self.acks.append((len(self._steps), value))


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where the power failed: what had to be there, what may be, and a label for people."""

    acked: tuple[Any, ...]
    attempted: tuple[Any, ...]
    label: str


Run = Callable[[MemoryFileSystem, Notes], None]
Check = Callable[[MemoryFileSystem, CrashPoint], "Iterable[Any] | None"]
Setup = Callable[[MemoryFileSystem], None]


class CrashFailure(AssertionError):
    """A check failed; the message says where the crash was and how to see it again."""


def require_minimums(counters: Mapping[str, int], minimums: Mapping[str, int]) -> None:
    """Fail when a harness did too little for its success to mean anything."""
    unknown = minimums.keys() - counters.keys()
    assert not unknown, f"no such counters: {sorted(unknown)}; there are {sorted(counters)}"
    short = {name: counters[name] for name, least in minimums.items() if counters[name] < least}
    assert not short, f"too little was tried: {short}, required {dict(minimums)} of {counters}"


@dataclass(slots=True)
class CrashReport:
    """What an exploration did.

    ``states`` counts distinct states that were checked; ``kinds`` counts all choices tried, also
    those that led to a state checked before; ``moments_exhausted`` counts the moments at which
    every combination the model allows was tried; ``within`` counts states by what was half done.
    """

    seed: int
    steps: int = 0
    moments: int = 0
    moments_exhausted: int = 0
    states: int = 0
    duplicates: int = 0
    nested_chains: int = 0
    nested_states: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    within: Counter[str] = field(default_factory=Counter)

    def require(self, **minimums: int) -> Self:
        """Fail unless every named counter, or kind of choice or of work, reached its minimum."""
        require_minimums(self.as_dict(), minimums)
        return self

    def as_dict(self) -> dict[str, int]:
        """All counters, with the kinds of choices and of work (``in_…``) beside the rest."""
        counters = [name for name in self.__slots__ if name not in ("kinds", "within")]
        return {
            **{name: getattr(self, name) for name in counters},
            **{kind.value: self.kinds[kind] for kind in Kind},
            **{f"{WITHIN}{kind}": count for kind, count in self.within.items()},
        }


def explore(
    run: Run,
    check: Check,
    *,
    seed: int = 0,
    states_max: int = 10_000,
    setup: Setup | None = None,
    nested_max: int = 0,
    only: int | None = None,
) -> CrashReport:
    """Record ``run`` and check what a crash at any of its moments leaves.

    ``setup`` prepares the disk before recording starts; all it wrote counts as synced.
    ``states_max`` bounds the states of the first level, ``nested_max`` the recoveries crashed.
    """
    start, steps, notes = _record(run, setup, seed)
    explorer = _Explorer(check, seed, states_max, nested_max, only)
    explorer.report.steps = len(steps)
    explorer.explore(start, steps, notes)
    explorer.explore_recoveries()
    return explorer.report


def _record(run: Run, setup: Setup | None, seed: int) -> tuple[Disk, list[Step], Notes]:
    fs = MemoryFileSystem(seed=seed)
    if setup is not None:
        setup(fs)
    start = fs.disk.crash(KeepUnsynced())
    steps: list[Step] = []
    disk = start.copy()
    disk.steps = steps
    notes = Notes(steps)
    with suppress(SimulatedCrash):  # a failpoint may end the run: the trace up to there counts
        run(MemoryFileSystem(disk, seed=seed + 1), notes)
    return start, steps, notes


class _Explorer:
    def __init__(
        self, check: Check, seed: int, states_max: int, nested_max: int, only: int | None
    ) -> None:
        self._check = check
        self._states_max = states_max
        self._only = only
        self._number = 0
        self._dice = random.Random(seed)  # noqa: S311 - repeatable is the point
        self._struck = _Reservoir(nested_max - nested_max // 2, self._dice)
        self._killed = _Reservoir(nested_max // 2, self._dice)
        self.report = CrashReport(seed)

    def explore(self, start: Disk, steps: Sequence[Step], notes: Notes) -> None:
        """Every moment of a trace, or a sample of them, each with its share of the budget."""
        everything = range(len(steps) + 1)
        all_needs = [Moment(d).combination_count() for _, d in _replayed(start, steps, everything)]
        within = [notes.busy_with(made) for made in everything]
        self.report.within.update(dict.fromkeys(filter(None, within), 0))
        moments = self._choose_moments(all_needs, within)
        needs = [all_needs[made] for made in moments]
        shares = fair_shares(needs, self._states_max)
        seen: set[tuple[int, int]] = set()
        for (made, disk), need, share in zip(
            _replayed(start, steps, moments), needs, shares, strict=True
        ):
            point = _point(notes, steps, made)
            tried = self.report.kinds
            for chosen, image in self._states(disk, share, len(point.acked), seen, tried):
                self.report.states += 1
                self.report.within.update(filter(None, [within[made]]))
                struck = replace(point, label=f"{point.label}\nchoice: {chosen.label}")
                self._struck.offer(image, struck)
                self._verify(image, struck)
            self.report.moments += 1
            self.report.moments_exhausted += need <= share
            if disk.dirty():
                self._killed.offer(disk, replace(point, label=f"{point.label}\nchoice: killed"))

    def _choose_moments(self, needs: Sequence[int], within: Sequence[str | None]) -> list[int]:
        """All if each can have a few states; else some, evenly, and one of each kind of work."""
        if sum(min(need, STATES_PER_MOMENT_MIN) for need in needs) <= self._states_max:
            return list(range(len(needs)))
        affordable = max(1, self._states_max // STATES_PER_MOMENT_MIN)
        of_kinds: dict[str, list[int]] = {}
        for made, kind in enumerate(within):
            if kind is not None:
                of_kinds.setdefault(kind, []).append(made)
        one_of_each = map(self._dice.choice, of_kinds.values())
        return sorted({*one_of_each, *_spread_with_last(self._dice, len(needs), affordable)})

    def _states(
        self,
        disk: Disk,
        count_max: int,
        acked: int,
        seen: set[tuple[int, int]],
        tried: Counter[Kind],
    ) -> Iterator[tuple[Chosen, Disk]]:
        """New crash states of one moment, until there are enough or no more are found."""
        found = misses = 0
        for chosen in self._choices(Moment(disk), count_max):
            tried[chosen.kind] += 1
            image = disk.crash(chosen)
            key = (image.fingerprint(), acked)
            if key in seen:
                self.report.duplicates += 1
                misses += 1
                if misses > MISSES_MAX and chosen.kind is Kind.SCATTERED:
                    return
                continue
            seen.add(key)
            misses = 0
            found += 1
            yield chosen, image
            if found == count_max:
                return

    def _choices(self, moment: Moment, count_max: int) -> Iterator[Chosen]:
        yield from moment.basic()
        classic = list(moment.classic())
        classic_max = max(1, count_max * 2 // 3)
        if len(classic) > classic_max:
            classic = self._dice.sample(classic, classic_max)
        yield from classic
        yield from moment.further(self._dice.getrandbits(32), count_max)

    def explore_recoveries(self) -> None:
        """Crash the recovery from some of the states met before."""
        for disk, point in itertools.chain(self._struck.kept, self._killed.kept):
            steps: list[Step] = []
            recovering = disk.copy()
            recovering.steps = steps
            shown = self._recover(recovering, point)
            self.report.nested_chains += 1
            self._explore_recovery(disk, steps, point, shown)

    def _explore_recovery(
        self, start: Disk, steps: Sequence[Step], point: CrashPoint, shown: Iterable[Any] | None
    ) -> None:
        moments = _spread_with_last(self._dice, len(steps) + 1, NESTED_MOMENTS_MAX)
        acked_after = point.acked if shown is None else tuple(shown)
        seen: set[tuple[int, int]] = set()
        for made, disk in _replayed(start, steps, moments):
            finished = made == len(steps)
            acked = acked_after if finished else point.acked
            where = f"{point.label}\nthen, in recovery, {_describe(steps, made)}"
            count_max = NESTED_STATES_PER_MOMENT
            for chosen, image in self._states(disk, count_max, len(acked), seen, Counter()):
                self.report.nested_states += 1
                label = f"{where}\nchoice: {chosen.label}"
                self._verify(image, replace(point, acked=acked, label=label))

    def _verify(self, disk: Disk, point: CrashPoint) -> None:
        self._number += 1
        if self._only is None or self._only == self._number:
            self._recover(disk, point)

    def _recover(self, disk: Disk, point: CrashPoint) -> Iterable[Any] | None:
        try:
            return self._check(MemoryFileSystem(disk, seed=self._number), point)
        except Exception as error:
            raise CrashFailure(
                f"{type(error).__name__}: {error}\nseed {self.report.seed}, "
                f"state {self._number} (again with only={self._number})\n{point.label}"
            ) from error


class _Reservoir:
    """A fair sample of what it is offered, of bounded size."""

    def __init__(self, size: int, dice: random.Random) -> None:
        self.kept: list[tuple[Disk, CrashPoint]] = []
        self._size = size
        self._dice = dice
        self._offered = 0

    def offer(self, disk: Disk, point: CrashPoint) -> None:
        self._offered += 1
        if len(self.kept) < self._size:
            self.kept.append((disk.copy(), point))
        elif (index := self._dice.randrange(self._offered)) < self._size:
            self.kept[index] = (disk.copy(), point)


def fair_shares(needs: Sequence[int], budget: int) -> list[int]:
    """Divide a budget: nobody gets more than it needs, and those who want more get the same."""
    shares = [0] * len(needs)
    for served, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], budget // (len(needs) - served))
        budget -= shares[index]
    return shares


def _spread_with_last(dice: random.Random, count: int, size: int) -> list[int]:
    """Up to ``size`` of the numbers below ``count``: any one of each equal piece, and the last."""
    if count <= size:
        return list(range(count))
    cuts = [(count - 1) * piece // (size - 1) for piece in range(size)] if size > 1 else []
    return [*(dice.randrange(*piece) for piece in itertools.pairwise(cuts)), count - 1]


def _replayed(
    start: Disk, steps: Sequence[Step], moments: Sequence[int]
) -> Iterator[tuple[int, Disk]]:
    """The disk after each of the given numbers of steps; one object, to look at and not to keep."""
    disk = start.copy()
    made = 0
    for moment in moments:
        for step in steps[made:moment]:
            disk.replay(step)
        made = moment
        yield moment, disk


def _point(notes: Notes, steps: Sequence[Step], made: int) -> CrashPoint:
    return CrashPoint(
        acked=tuple(value for step, value in notes.acks if step <= made),
        attempted=tuple(value for step, value in notes.attempts if step <= made),
        label=_describe(steps, made),
    )


def _describe(steps: Sequence[Step], made: int) -> str:
    tail = steps[max(0, made - TRACE_TAIL_STEPS) : made]
    lines = [f"after {made} of {len(steps)} steps, the last of them", *map(str, tail)]
    return "\n    ".join(lines)
