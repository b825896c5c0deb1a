"""Could one copy of the object, working on one call at a time, have given these answers?

The search is that of Wing and Gong with the memory of Lowe: pick an operation that may go first,
ask the model for the state after it, go on; where nothing fits, go back. A configuration that has
failed once (what is left, and the state) is not tried again. Keys are independent objects, so
each is searched alone (Herlihy and Wing: linearizability is local).

A configuration holds only what is *open*: operations that have begun and are not yet placed,
ordered by their end, and how many have begun at all. An operation may be placed next iff no other
open one ended before it began; so an operation enters when its start lies before the end of every
open one. The sets stay as small as the concurrency, however long the history is.

Operations of unknown outcome never have to be placed. They are kept apart: a set of those already
placed. What keeps the search short:

1. An operation that only observes is placed as soon as it is legal: wherever a solution has it,
   it can be moved to the front. So reads never branch.
2. Of operations that are alike, only the first to end is tried (of unknown ones, the first to
   begin): a solution that uses another can be rearranged.
3. An unknown operation is tried only where it changes something, and what follows it at once must
   notice: otherwise leaving it out is as good.
4. If a configuration failed, so will one with the same rest in which more unknown operations
   have been used up.
5. A state that cannot come back is not left while an operation that needs it is waiting, though
   that may not even have begun. The model knows such states.

The work is bounded by a budget. Running out of it is a verdict of its own, and not a good one.
"""

from __future__ import annotations

import enum
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TypeAlias

from stele.env.ports import Clock
from stele.sim.checkers.history import NEVER, Operation, Outcome
from stele.sim.checkers.models import ILLEGAL, Model, State

STEPS_MAX = 3_000_000
"""Configurations tried for one key before giving up: some ten seconds."""

STEPS_BETWEEN_CLOCK_READINGS = 4_096

_START, _END, _NUMBER = attrgetter("start"), attrgetter("end"), itemgetter(0)


class Verdict(enum.Enum):
    """Only one of the three lets a test pass."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may cost for each key. Steps are the same everywhere; time needs a clock."""

    steps_max: int = STEPS_MAX
    clock: Clock | None = None
    time_us_max: int = NEVER


@dataclass(frozen=True, slots=True)
class KeyReport:
    """The verdict on one key.

    ``order`` is the longest order that was found, for a valid history a whole one: what is
    missing from it then is of unknown outcome and need not have happened. ``state`` is the
    state after it.
    """

    key: str
    verdict: Verdict
    operations: Sequence[Operation]
    order: Sequence[Operation]
    state: State
    steps: int


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a history: as bad as that on its worst key."""

    verdict: Verdict
    operations: int
    keys: int
    steps: int
    failures: Sequence[KeyReport]

    @property
    def ok(self) -> bool:
        """Whether the history is linearizable, for certain."""
        return self.verdict is Verdict.VALID


def check(operations: Iterable[Operation], model: Model, budget: Budget | None = None) -> Report:
    """Judge a history, key by key."""
    limits = budget or Budget()
    counted = steps = 0
    failures = []
    groups = by_key(operations)
    for key, group in groups.items():
        counted += len(group)
        report = check_key(key, group, model, limits)
        steps += report.steps
        if report.verdict is not Verdict.VALID:
            failures.append(report)
    found = {report.verdict for report in failures}
    worst = [verdict for verdict in (Verdict.INVALID, Verdict.UNKNOWN) if verdict in found]
    verdict = worst[0] if worst else Verdict.VALID
    return Report(verdict, counted, len(groups), steps, failures)


def by_key(operations: Iterable[Operation]) -> Mapping[str, list[Operation]]:
    """The operations of each key, in their order."""
    groups: dict[str, list[Operation]] = {}
    for operation in operations:
        group = groups.get(operation.key)
        if group is None:
            groups[operation.key] = [operation]
        else:
            group.append(operation)
    return groups


def check_key(
    key: str,
    operations: Sequence[Operation],
    model: Model,
    budget: Budget,
    *,
    foresight: bool = True,
) -> KeyReport:
    """Judge the operations of one key.

    Foresight, rule 5, gives up as soon as failure is certain. Without it, the verdict is the same
    and the order of a history that fails goes as far as any can.
    """
    search = _Search(operations, model, budget, foresight)
    verdict = search.run()
    order = search.order(verdict)
    state = model.initial
    for operation in order:
        state = model.step(state, operation)
    return KeyReport(key, verdict, operations, order, state, search.steps)


Move: TypeAlias = tuple[int, State]
"""An operation's number and the state after it."""


@dataclass(slots=True)
class _Choice:
    """A configuration from which several moves are possible, and those not yet tried."""

    open: tuple[int, ...]
    begun: int
    used: int
    state: State
    placed: int
    moves: Iterator[Move] = field(default_factory=lambda: iter(()))


def _is_state(state: State) -> bool:
    return state is not ILLEGAL


class _Search:
    """Depth first through the configurations of one key.

    Operations are numbered: those that happened by their end, so that a sorted list of numbers is
    sorted by end, and behind them those of unknown outcome by their start.
    """

    def __init__(
        self, operations: Sequence[Operation], model: Model, budget: Budget, foresight: bool
    ) -> None:
        certain = [o for o in operations if o.outcome is Outcome.OK]
        certain.sort(key=_END)
        maybe = [
            operation
            for operation in operations
            if operation.outcome is Outcome.UNKNOWN and not model.observes_only(operation)
        ]
        maybe.sort(key=_START)
        self._numbered = certain + maybe
        self._certain = len(certain)
        self._ends = [operation.end for operation in certain]
        self._starting = sorted(range(len(certain)), key=[o.start for o in certain].__getitem__)
        self._starts = [certain[number].start for number in self._starting]
        self._maybe_starts = [operation.start for operation in maybe]
        self._operations = model.simplified(self._numbered)
        self._needs: Sequence[State] = [ILLEGAL] * len(self._operations)
        if foresight:
            self._needs = model.demands(self._operations)
        self._observing = [model.observes_only(operation) for operation in certain]
        self._waiting: dict[State, int] = Counter(filter(_is_state, self._needs))
        self._step = model.step
        self._seen: dict[tuple[int, tuple[int, ...], State], list[int]] = {}
        self._budget = budget
        self._stop_us = 0
        self._initial = model.initial
        self._placed: list[int] = []
        self._placed_best: list[int] = []
        self.steps = 0

    def order(self, verdict: Verdict) -> list[Operation]:
        """The order of a valid history, or the longest one tried."""
        order = self._placed
        if verdict is not Verdict.VALID:
            order = max(self._placed, self._placed_best, key=len)
        return [self._numbered[number] for number in order]

    def run(self) -> Verdict:
        """Search until an order is found, everything has been tried, or the budget is spent."""
        state = self._initial
        before: State = ILLEGAL
        open_: list[int] = []
        choices: list[_Choice] = []
        begun = used = 0
        while self._may_go_on():
            placed = len(self._placed)
            begun, moves = self._settle(open_, begun, state)
            if not open_:
                return Verdict.VALID
            maybe = bisect_right(self._maybe_starts, self._ends[open_[0]])
            if len(moves) == 1 and not maybe:
                number, state = moves[0]
                open_.remove(number)
                self._place(number)
                continue
            if len(self._placed) > placed:
                before = ILLEGAL  # something has noticed the unknown operation
            choice = _Choice(tuple(open_), begun, used, state, len(self._placed))
            if self._is_new(choice):
                choice.moves = self._moves(choice, moves, before, maybe)
                choices.append(choice)
            move = self._next_move(choices)
            if move is None:
                return Verdict.INVALID
            choice = choices[-1]
            open_, begun, used = list(choice.open), choice.begun, choice.used
            number, state = move
            self._place(number)
            if number < self._certain:
                open_.remove(number)
                before = ILLEGAL
            else:
                used |= 1 << (number - self._certain)
                before = choice.state
        return Verdict.UNKNOWN

    def _may_go_on(self) -> bool:
        self.steps += 1
        budget = self._budget
        if budget.clock is not None and self.steps % STEPS_BETWEEN_CLOCK_READINGS == 1:
            now_us = budget.clock.monotonic_us()
            self._stop_us = self._stop_us or now_us + budget.time_us_max
            if now_us > self._stop_us:
                return False
        return self.steps <= budget.steps_max

    def _settle(self, open_: list[int], begun: int, state: State) -> tuple[int, list[Move]]:
        """Let operations begin and place those that only observe, until neither is possible.

        Returns how many have begun, and the moves there are, the first to end first.
        """
        ends, starts, operations, step = self._ends, self._starts, self._operations, self._step
        observing = self._observing
        moves: list[Move] = []
        count = len(starts)
        fresh = open_.copy()
        while True:
            while begun < count and (not open_ or starts[begun] <= ends[open_[0]]):
                number = self._starting[begun]
                insort(open_, number)
                fresh.append(number)
                begun += 1
            if not fresh:
                break
            for number in fresh:
                after = step(state, operations[number])
                if after is ILLEGAL:
                    continue
                if observing[number]:
                    open_.remove(number)
                    self._place(number)
                else:
                    moves.append((number, after))
            fresh.clear()
        return begun, self._allowed(moves, state)

    def _allowed(self, moves: list[Move], state: State) -> list[Move]:
        """Those that leave the state to nobody's harm, in order."""
        waiting = self._waiting.get(state)
        if waiting:
            moves = [
                (number, after)
                for number, after in moves
                if after == state or (waiting == 1 and self._needs[number] == state)
            ]
        if len(moves) > 1:
            moves.sort(key=_NUMBER)
        return moves

    def _is_new(self, choice: _Choice) -> bool:
        """Whether no configuration with the same rest was tried that had as much left to use."""
        tried = self._seen.setdefault((choice.begun, choice.open, choice.state), [])
        if any(used & choice.used == used for used in tried):
            return False
        tried.append(choice.used)
        return True

    def _moves(
        self, choice: _Choice, moves: list[Move], before: State, maybe: int
    ) -> Iterator[Move]:
        """The moves worth trying, one by one: what happened first, then what may have happened.

        ``before`` is the state before an unknown operation that nothing has noticed yet.
        """
        alike = set()
        for number, after in chain(moves, self._maybe_moves(choice, maybe)):
            operation = self._operations[number]
            signature = (number < self._certain, operation.kind, operation.argument)
            if (*signature, operation.answer) in alike:
                continue
            alike.add((*signature, operation.answer))
            if before is ILLEGAL or self._step(before, operation) != after:
                yield number, after

    def _maybe_moves(self, choice: _Choice, count: int) -> Iterator[Move]:
        if self._waiting.get(choice.state):
            return
        for index in range(count):
            if not choice.used >> index & 1:
                number = self._certain + index
                after = self._step(choice.state, self._operations[number])
                if after is not ILLEGAL and after != choice.state:
                    yield number, after

    def _next_move(self, choices: list[_Choice]) -> Move | None:
        """The next move of the latest choice that has one left; everything since is taken back."""
        while choices:
            choice = choices[-1]
            if len(self._placed) > choice.placed:
                self._take_back(choice.placed)
            move = next(choice.moves, None)
            if move is not None:
                return move
            choices.pop()
        return None

    def _place(self, number: int) -> None:
        self._placed.append(number)
        need = self._needs[number]
        if need is not ILLEGAL:
            self._waiting[need] -= 1

    def _take_back(self, count: int) -> None:
        if len(self._placed) > len(self._placed_best):
            self._placed_best = self._placed.copy()
        while len(self._placed) > count:
            need = self._needs[self._placed.pop()]
            if need is not ILLEGAL:
                self._waiting[need] += 1
