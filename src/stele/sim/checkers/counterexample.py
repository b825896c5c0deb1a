"""Why a key is not linearizable, in as few operations as possible, drawn.

A failed history is cut down by steps that can only make it *more* valid. What is left and still
fails is therefore a failure of the whole, and small enough to be read:

1. the shortest prefix that fails. Whatever is under way where it ends has an unknown outcome then;
   if a prefix fails, so do all longer ones, so halving finds it;
2. without operations that only observe, one by one or in bunches;
3. without whole strands of operations, all that is about one value or one session, if the model
   can tell such strands apart. Operations that are on no strand stand in the way; if it fails as
   well when their outcome is taken for unknown, they are so for the time of this step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import msgspec

from stele.sim.checkers.history import NEVER, Operation, Outcome, Value, show
from stele.sim.checkers.linearizability import Budget, KeyReport, Report, Verdict, check_key
from stele.sim.checkers.models import Model, State

STEPS_MAX = 100_000
"""For one attempt to leave something out; if it takes longer, that something stays."""

FAILURES_SHOWN_MAX = 3
OPERATIONS_DRAWN_MAX = 40
COLUMNS_MAX = 60

Fails: TypeAlias = Callable[[Sequence[Operation]], bool]


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Operations of one key that no order explains, and how far the best order gets."""

    key: str
    operations: Sequence[Operation]
    left_out: int
    order: Sequence[Operation]
    state: State

    def __str__(self) -> str:
        total = len(self.operations) + self.left_out
        count = len(self.operations)
        lines = [
            f"key {self.key!r}: no order explains these {count} operations (of {total})",
            *draw(self.operations[-OPERATIONS_DRAWN_MAX:]),
            f"  the longest order: {', '.join(map(str, self.order)) or 'none at all'}",
            f"  the state then: {_shown_state(self.state)}",
            f"  left over: {', '.join(map(str, self._left_over()))}",
        ]
        return "\n".join(lines)

    def _left_over(self) -> list[Operation]:
        return [
            operation
            for operation in self.operations
            if operation.outcome is Outcome.OK and operation not in self.order
        ]


def describe(report: Report, model: Model) -> str:
    """What a failed test should print."""
    keys = f"{len(report.failures)} of {report.keys} keys"
    lines = [f"{report.verdict.value}: {keys}, {report.operations} operations"]
    for failure in report.failures[:FAILURES_SHOWN_MAX]:
        if failure.verdict is Verdict.INVALID:
            lines.append(str(explain(failure, model)))
        else:
            lines.append(f"key {failure.key!r}: no verdict within {failure.steps} steps")
    return "\n".join(lines)


def explain(failure: KeyReport, model: Model) -> Counterexample:
    """Cut a failed history down."""
    assert failure.verdict is Verdict.INVALID, "only a history that fails can be explained"
    budget = Budget(STEPS_MAX)

    def fails(operations: Sequence[Operation]) -> bool:
        report = check_key(failure.key, operations, model, budget)
        return report.verdict is Verdict.INVALID

    some = _shortest_prefix(
        [o for o in failure.operations if o.outcome is not Outcome.FAILED], fails
    )
    observing = [[operation] for operation in some if model.observes_only(operation)]
    some = _without(some, observing, fails)
    some = _without_strands(some, model, fails)
    best = check_key(failure.key, some, model, budget, foresight=False)
    left_out = len(failure.operations) - len(some)
    return Counterexample(failure.key, some, left_out, best.order, best.state)


def _shortest_prefix(operations: Sequence[Operation], fails: Fails) -> Sequence[Operation]:
    ends = sorted(o.end for o in operations if o.outcome is Outcome.OK)
    low, high = 0, len(ends) - 1
    if not fails(_prefix(operations, ends[high])):
        return operations  # it took too long to see; the whole is a counterexample too
    while low < high:
        middle = (low + high) // 2
        if fails(_prefix(operations, ends[middle])):
            high = middle
        else:
            low = middle + 1
    return _prefix(operations, ends[high])


def _prefix(operations: Sequence[Operation], until: int) -> list[Operation]:
    """What was known at that time."""
    return [
        operation if operation.end <= until else _at_any_time(operation)
        for operation in operations
        if operation.start <= until
    ]


def _without_strands(
    operations: Sequence[Operation], model: Model, fails: Fails
) -> Sequence[Operation]:
    blurred = list(operations)
    for place, operation in enumerate(operations):
        maybe = _at_any_time(operation)
        if not model.strands(operation) and model.strands(maybe):
            blurred[place] = maybe
            if not fails(blurred):
                return operations
    kept = {operation.start for operation in _without(blurred, _bundles(blurred, model), fails)}
    return [operation for operation in operations if operation.start in kept]


def _at_any_time(operation: Operation) -> Operation:
    return msgspec.structs.replace(operation, answer=None, outcome=Outcome.UNKNOWN, end=NEVER)


def _bundles(operations: Sequence[Operation], model: Model) -> list[list[Operation]]:
    """Operations that stand on tied strands, together."""
    bundle_of: dict[Hashable, list[Operation]] = {}
    for operation in operations:
        strands = model.strands(operation)
        if not strands:
            return []
        tied = {id(bundle_of[s]): bundle_of[s] for s in strands if s in bundle_of}
        joined = [member for bundle in tied.values() for member in bundle]
        names = {name for member in joined for name in model.strands(member)}
        joined.append(operation)
        bundle_of.update((name, joined) for name in names.union(strands))
    return list({id(bundle): bundle for bundle in bundle_of.values()}.values())


def _without(
    operations: Sequence[Operation],
    bundles: Sequence[Sequence[Operation]],
    fails: Fails,
) -> Sequence[Operation]:
    """The operations without as many bundles as it takes none of to fail.

    Halves first, then quarters, and so on: most of a long history goes in a few attempts.
    """
    kept = list(bundles)
    size = max(1, len(kept) // 2)
    while kept:
        at = 0
        while at < len(kept):
            dropped = {operation for bundle in kept[at : at + size] for operation in bundle}
            rest = [operation for operation in operations if operation not in dropped]
            if fails(rest):
                operations = rest
                del kept[at : at + size]
            else:
                at += size
        if size == 1:
            break
        size //= 2
    return operations


def draw(operations: Sequence[Operation]) -> list[str]:
    """Each operation as a bar over the time that it took, equal distances for unequal times."""
    places = sorted({o.start for o in operations} | {o.end for o in operations if o.end != NEVER})
    width = max(2, min(6, COLUMNS_MAX // max(1, len(places))))
    column = {place: width * number for number, place in enumerate(places)}
    column[NEVER] = width * len(places)
    rows = []
    for operation in operations:
        left, right = column[operation.start], column[operation.end]
        end = "..." if operation.end == NEVER else "|"
        bar = " " * left + "|" + "-" * (right - left - 1) + end
        rows.append(f"  client {operation.client:<4}{bar:<{column[NEVER] + 4}} {operation}")
    return rows


def _shown_state(state: State) -> str:
    match state:
        case frozenset():
            return f"{{{' '.join(sorted(map(_shown_state, state)))}}}"
        case tuple():
            return f"[{' '.join(map(_shown_state, state))}]"
    return show(cast("Value", state))
