"""Oracles that try every order: slow, short, and with nothing in common with what they judge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Any, cast

from stele.sim.checkers.history import Operation, Outcome, Value
from stele.sim.checkers.models import ILLEGAL, Model


def keeps_real_time(order: Sequence[Operation]) -> bool:
    """Whether no operation stands behind one that began after it was over."""
    return not any(later.precedes(earlier) for earlier, later in combinations(order, 2))


def runs(order: Sequence[Operation], model: Model) -> bool:
    """Whether the model gives these answers in this order."""
    state = model.initial
    for operation in order:
        state = model.step(state, operation)
        if state is ILLEGAL:
            return False
    return True


def linearizable(operations: Sequence[Operation], model: Model) -> bool:
    """Every order of what happened, with every selection of what may have happened."""
    certain = [o for o in operations if o.outcome is Outcome.OK]
    maybe = [o for o in operations if o.outcome is Outcome.UNKNOWN]
    return any(
        keeps_real_time(order) and runs(order, model)
        for count in range(len(maybe) + 1)
        for selected in combinations(maybe, count)
        for order in permutations([*certain, *selected])
    )


def runs_transactions(order: Sequence[Operation]) -> bool:
    """Whether lists and registers give these answers in this order."""
    values: dict[str, Value] = {}
    for operation in order:
        steps = operation.argument if operation.answer is None else operation.answer
        for step in cast("Sequence[tuple[Any, ...]]", steps):
            match step:
                case ("append", key, value):
                    values[key] = (*cast("tuple[Value, ...]", values.get(key, ())), value)
                case ("write", key, value):
                    values[key] = value
                case ("read", key, value) if (value or None) != values.get(key):
                    return False  # an absent list reads as an empty one
    return True


def strictly_serializable(operations: Sequence[Operation]) -> bool:
    """Every order of what was committed, with every selection of what may have been."""
    certain = [o for o in operations if o.outcome is Outcome.OK]
    maybe = [o for o in operations if o.outcome is Outcome.UNKNOWN]
    return any(
        keeps_real_time(order) and runs_transactions(order)
        for count in range(len(maybe) + 1)
        for selected in combinations(maybe, count)
        for order in permutations([*certain, *selected])
    )
