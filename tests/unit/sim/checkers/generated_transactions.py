"""Transactions on a store that works, and lies to plant among them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import msgspec

from stele.sim.checkers.history import NEVER, Operation, Outcome, Value
from tests.unit.sim.checkers.generated import exchanged

Step = tuple[Any, ...]
Plant = Callable[[Sequence[Operation], random.Random], list[Operation]]


@dataclass
class Lists:
    """Each transaction runs at one moment. Keys are given up after some appends, as lists grow."""

    keys: int = 4
    appends_max: int = 40
    values: dict[str, Value] = field(default_factory=dict)
    fresh: Iterator[int] = field(default_factory=lambda: count(1))
    appends: int = 0

    write = "append"

    def ask(self, dice: random.Random, client: int) -> tuple[str, str, Value]:
        steps: list[Step] = []
        for _ in range(dice.randint(1, 4)):
            generation = self.appends // (self.keys * self.appends_max)
            key = f"{'abcdefghij'[dice.randrange(self.keys)]}{generation}"
            if dice.random() < 0.5:
                steps.append(("read", key))
            else:
                self.appends += 1
                steps.append((self.write, key, next(self.fresh)))
        return "txn", "", tuple(steps)

    def ready(self, operation: Operation) -> bool:
        return True

    def apply(self, operation: Operation) -> Value:
        answers = []
        for step in cast("tuple[Step, ...]", operation.argument):
            answers.append((*step, self.look(step[1])) if step[0] == "read" else step)
            if step[0] != "read":
                self.change(step[1], step[2])
        return tuple(answers)

    def look(self, key: str) -> Value:
        return self.values.get(key, ())

    def change(self, key: str, value: Value) -> None:
        self.values[key] = (*cast("tuple[Value, ...]", self.values.get(key, ())), value)


class Cells(Lists):
    """The same with registers."""

    write = "write"

    def look(self, key: str) -> Value:
        return self.values.get(key)

    def change(self, key: str, value: Value) -> None:
        self.values[key] = value


def steps_of(operation: Operation) -> tuple[Step, ...]:
    return cast("tuple[Step, ...]", operation.answer or ())


def last_place(operations: Sequence[Operation]) -> int:
    return max(operation.end for operation in operations if operation.end != NEVER)


def committed(client: int, place: int, *steps: Step) -> Operation:
    """A transaction that overlaps with all others planted at the same place."""
    asked = tuple(step[:2] if step[0] == "read" else step for step in steps)
    return Operation(client, "txn", "", asked, steps, Outcome.OK, place, place + 10)


def plant_stale_list(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
    """A read misses an append that was over before the read began."""
    over = {
        step[2]: operation.end
        for operation in operations
        for step in steps_of(operation)
        if step[0] == "append"
    }
    reader, place = dice.choice([
        (operation, place)
        for operation in operations
        for place, step in enumerate(steps_of(operation))
        if step[0] == "read" and step[2] and over.get(step[2][-1], NEVER) < operation.start
    ])  # fmt: skip
    steps = list(steps_of(reader))
    steps[place] = ("read", steps[place][1], steps[place][2][:-1])
    return exchanged(operations, reader, msgspec.structs.replace(reader, answer=tuple(steps)))


def plant_stale_cell(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
    """A last read returns a value of which it is known that it was overwritten."""
    reads = [
        (operation, step[1], step[2])
        for operation in operations
        for step in steps_of(operation)
        if step[0] == "read" and step[2] is not None
    ]
    key, value = dice.choice([
        (key, value)
        for first, key, value in reads
        for second, other_key, other in reads
        if first.precedes(second) and key == other_key and value != other
    ])  # fmt: skip
    place = last_place(operations) + 1
    return [*operations, committed(99, place, ("read", key, value))]


def plant_lost_update(write: str, nothing: Value) -> Plant:
    def plant(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
        """Two transactions read one version and both write the next."""
        place = last_place(operations) + 1
        pair = [
            committed(number, place, ("read", "n", nothing), (write, "n", -number))
            for number in (98, 99)
        ]
        return [*operations, *pair]

    return plant


def plant_write_skew(write: str, nothing: Value) -> Plant:
    def plant(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
        """Each of two transactions reads what the other one writes, and misses it."""
        place = last_place(operations) + 1
        one = committed(98, place, ("read", "p", nothing), (write, "q", -1))
        two = committed(99, place, ("read", "q", nothing), (write, "p", -2))
        return [*operations, one, two]

    return plant


def plant_circle(write: str, single: Callable[[int], Value]) -> Plant:
    def plant(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
        """Each of two transactions reads what the other one writes."""
        place = last_place(operations) + 1
        one = committed(98, place, (write, "p", -1), ("read", "q", single(-2)))
        two = committed(99, place, (write, "q", -2), ("read", "p", single(-1)))
        return [*operations, one, two]

    return plant


def plant_aborted_read(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
    """A transaction that was read from is said to have failed."""
    seen = {
        value
        for operation in operations
        for step in steps_of(operation)
        if step[0] == "read"
        for value in (step[2] if isinstance(step[2], tuple) else (step[2],))
    }
    writer = dice.choice([
        operation
        for operation in operations
        if any(step[0] != "read" and step[2] in seen for step in steps_of(operation))
        and not any(step[0] == "read" for step in steps_of(operation))
    ])  # fmt: skip
    failed = msgspec.structs.replace(writer, answer=None, outcome=Outcome.FAILED)
    return exchanged(operations, writer, failed)
