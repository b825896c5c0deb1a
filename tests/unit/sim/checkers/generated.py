"""Histories made by objects that work, and lies to plant in them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as count_from
from typing import Protocol, cast

import msgspec

from stele.sim.checkers.history import NEVER, Operation, Outcome, Value

GAP = 4
"""Between the places of two events, so that a lie can be planted in between."""


class Object(Protocol):
    """Something that clients call."""

    def ask(self, dice: random.Random, client: int) -> tuple[str, str, Value]:
        """The kind, key and argument of a client's next call."""

    def ready(self, operation: Operation) -> bool:
        """Whether the call can take effect now, or has to wait."""

    def apply(self, operation: Operation) -> Value:
        """Let the call take effect; the answer."""


@dataclass
class Workload:
    """Clients that call an object at random. Each call takes effect once, at a chosen moment."""

    target: Object
    seed: int
    clients: int = 5
    unknown: float = 0.0
    _place: int = 0
    _under_way: dict[int, Operation] = field(default_factory=dict)
    _applied: set[int] = field(default_factory=set)
    _done: list[Operation] = field(default_factory=list)

    def run(self, count: int) -> list[Operation]:
        dice = random.Random(self.seed)
        started = 0
        for _ in range(20 * count):
            self._place += GAP
            idle = sorted(set(range(self.clients)) - set(self._under_way))
            if started < count and idle and dice.random() < 0.5:
                self._start(dice, dice.choice(idle))
                started += 1
            elif self._under_way:
                self._go_on(dice, dice.choice(sorted(self._under_way)))
        unfinished = [self._lost(o) for o in self._under_way.values()]
        return sorted(self._done + unfinished, key=lambda operation: operation.start)

    def _start(self, dice: random.Random, client: int) -> None:
        kind, key, argument = self.target.ask(dice, client)
        self._under_way[client] = Operation(
            client, kind, key, argument, None, Outcome.UNKNOWN, self._place, NEVER
        )

    def _go_on(self, dice: random.Random, client: int) -> None:
        operation = self._under_way[client]
        if client in self._applied:
            self._applied.discard(client)
            del self._under_way[client]
            self._done.append(
                msgspec.structs.replace(operation, outcome=Outcome.OK, end=self._place)
            )
        elif self.target.ready(operation):
            if dice.random() < self.unknown:
                del self._under_way[client]
                if dice.random() < 0.5:
                    self.target.apply(operation)
                self._done.append(self._lost(operation))
            else:
                answer = self.target.apply(operation)
                self._under_way[client] = msgspec.structs.replace(operation, answer=answer)
                self._applied.add(client)

    @staticmethod
    def _lost(operation: Operation) -> Operation:
        return msgspec.structs.replace(operation, answer=None, outcome=Outcome.UNKNOWN, end=NEVER)


@dataclass
class Registers:
    """Gets, puts of new values, compares and deletes."""

    keys: int = 1
    values: dict[str, Value] = field(default_factory=dict)
    fresh: Iterator[int] = field(default_factory=lambda: count_from(1))

    def ask(self, dice: random.Random, client: int) -> tuple[str, str, Value]:
        key = f"k{dice.randrange(self.keys)}"
        kind = dice.choices(["get", "put", "cas", "delete"], [50, 38, 10, 2])[0]
        if kind == "put":
            return kind, key, next(self.fresh)
        return kind, key, (self.values.get(key), next(self.fresh)) if kind == "cas" else None

    def ready(self, operation: Operation) -> bool:
        return True

    def apply(self, operation: Operation) -> Value:
        before = self.values.get(operation.key)
        match operation.kind, operation.argument:
            case "get", _:
                return before
            case "cas", (expected, new):
                self.values[operation.key] = new if before == expected else before
                return before == expected
            case "delete", _:
                self.values[operation.key] = None
                return before is not None
        self.values[operation.key] = operation.argument
        return None


@dataclass
class Counters:
    """Additions, some of which are told the sum, and gets."""

    value: int = 0

    def ask(self, dice: random.Random, client: int) -> tuple[str, str, Value]:
        return ("get", "n", None) if dice.random() < 0.3 else ("add", "n", dice.randint(1, 3))

    def ready(self, operation: Operation) -> bool:
        return True

    def apply(self, operation: Operation) -> Value:
        if operation.kind == "add":
            self.value += cast("int", operation.argument)
        return self.value


@dataclass
class Locks:
    """Each client is a session that takes and releases one lock; readers share it."""

    token: int = 0
    mode: str = "shared"
    holders: set[str] = field(default_factory=set)
    wants: set[int] = field(default_factory=set)

    def ask(self, dice: random.Random, client: int) -> tuple[str, str, Value]:
        session = f"s{client}"
        if client in self.wants:
            self.wants.discard(client)
            return "release", "l", session
        self.wants.add(client)
        return "acquire", "l", (session, dice.choice(["shared", "exclusive", "exclusive"]))

    def ready(self, operation: Operation) -> bool:
        if operation.kind == "release" or not self.holders:
            return True
        session, mode = cast("tuple[str, str]", operation.argument)
        return session not in self.holders and self.mode == mode == "shared"

    def apply(self, operation: Operation) -> Value:
        if operation.kind == "release":
            held = operation.argument in self.holders
            self.holders.discard(cast("str", operation.argument))
            return held
        session, self.mode = cast("tuple[str, str]", operation.argument)
        self.holders.add(session)
        self.token += 3
        return self.token


def certain(operations: Sequence[Operation], kind: str) -> list[Operation]:
    """Those of a kind that happened."""
    return [o for o in operations if o.kind == kind and o.outcome is Outcome.OK]


def exchanged(operations: Sequence[Operation], old: Operation, new: Operation) -> list[Operation]:
    return [new if operation is old else operation for operation in operations]


def plant_stale_read(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
    """A read returns a value although another one has been seen since that value was seen."""
    reads = certain(operations, "get")
    old, read = dice.choice([
        (old, read)
        for old in reads
        if old.answer is not None
        for middle in reads
        if old.precedes(middle) and middle.key == old.key and middle.answer != old.answer
        for read in reads
        if middle.precedes(read) and read.key == old.key and read.answer != old.answer
    ])  # fmt: skip
    return exchanged(operations, read, msgspec.structs.replace(read, answer=old.answer))


def plant_lost_update(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
    """A second compare with a value that a compare has replaced already succeeds."""
    done, expected = dice.choice([
        (operation, expected)
        for operation in certain(operations, "cas")
        for expected, _ in [cast("tuple[Value, Value]", operation.argument)]
        if operation.answer is True and expected is not None
    ])  # fmt: skip
    place = done.end + 1
    second = msgspec.structs.replace(
        done, client=99, argument=(expected, -1), start=place, end=place + 1
    )
    return [*operations, second]


def plant_lost_addition(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
    """Two additions are told the same sum."""
    adds = certain(operations, "add")
    first, second = dice.choice([(a, b) for a in adds for b in adds if a.precedes(b)])
    return exchanged(operations, second, msgspec.structs.replace(second, answer=first.answer))


def plant_double_grant(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
    """A second session is given the lock while the first one certainly has it."""
    taken = dice.choice(certain(operations, "acquire"))
    token = cast("int", taken.answer) + 1
    thief = Operation(
        99, "acquire", taken.key, ("thief", "exclusive"), token,
        Outcome.OK, taken.end + 1, taken.end + 2,
    )  # fmt: skip
    return [*operations, thief]


def plant_old_token(operations: Sequence[Operation], dice: random.Random) -> list[Operation]:
    """A session is given a token below one that was given out before it asked."""
    taken = certain(operations, "acquire")
    first, second = dice.choice([(a, b) for a in taken for b in taken if a.precedes(b)])
    return exchanged(
        operations, second, msgspec.structs.replace(second, answer=cast("int", first.answer) - 1)
    )
