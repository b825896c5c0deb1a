"""What clients asked and what they were told: the history that every checker judges.

A client invokes an operation, and later one of three things is recorded, or nothing at all:

    ok        it happened, and this was the answer
    failed    it certainly did not happen, and never will
    unknown   it may have happened, may happen later, or never will

An operation without an outcome when the recording ends is unknown too. A client has at most one
operation under way; whoever works in parallel is several clients.

Real time
---------
Operation A *precedes* B iff A's outcome was recorded before B's invocation. Inside one recorder
the order of recording is that order, because an invocation is noted before the request leaves and
an outcome after the answer came. Between recorders of several processes only a common clock can
tell: `merged` compares times, and takes equal ones for overlapping. An unknown operation precedes
nothing, it may take effect at any later time.

Vocabulary: an operation has a kind (``put``), a key, an argument and an answer. Each checker says
which kinds it understands. Values are JSON without objects and fractions, lists as tuples, so that
they can be hashed, compared and saved.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from stele.env.ports import Clock
from stele.errors import InvalidArgument

Value: TypeAlias = "bool | int | str | tuple[Value, ...] | None"

INTEGER_BOUND = 1 << 63
"""Integers have 64 bits and a sign."""

NEVER = INTEGER_BOUND - 1
"""The end of an operation whose outcome is unknown."""

BRIEF_VALUES_MAX = 6


class Outcome(enum.Enum):
    """What a client knows of its operation."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Operation(msgspec.Struct, frozen=True, gc=False):
    """One call from invocation to outcome. ``start`` and ``end`` are places in one order."""

    client: int
    kind: str
    key: str
    argument: Value
    answer: Value
    outcome: Outcome
    start: int
    end: int

    def precedes(self, other: Operation) -> bool:
        """Whether this was over before the other began."""
        return self.end < other.start

    def __str__(self) -> str:
        asked = self.kind if self.argument is None else f"{self.kind} {show(self.argument)}"
        if self.outcome is not Outcome.OK:
            return f"{asked} ({self.outcome.value})"
        return asked if self.answer is None else f"{asked} -> {show(self.answer)}"


class Invoked(msgspec.Struct, frozen=True, array_like=True, tag="i"):
    """A request is about to leave."""

    at_us: int
    client: int
    kind: str
    key: str
    argument: Value


class Amended(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """The argument is known only now: the writes of an interactive transaction, as it commits."""

    at_us: int
    client: int
    argument: Value


class Answered(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """It happened."""

    at_us: int
    client: int
    answer: Value


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """It did not happen."""

    at_us: int
    client: int


class Lost(msgspec.Struct, frozen=True, array_like=True, tag="u"):
    """Nobody knows."""

    at_us: int
    client: int


Event: TypeAlias = Invoked | Amended | Answered | Refused | Lost


@dataclass(frozen=True, slots=True)
class History:
    """Events in the order in which they were recorded, and facts about the run."""

    events: Sequence[Event]
    facts: Mapping[str, Value] = field(default_factory=dict)

    def operations(self) -> list[Operation]:
        """Its operations in the order of their invocation; places are places in ``events``."""
        places = range(len(self.events))
        return paired(self.events, places, places)


def merged(histories: Iterable[History]) -> list[Operation]:
    """The operations of several recorders that shared a clock; clients are numbered anew."""
    operations: list[Operation] = []
    numbers: dict[tuple[int, int], int] = {}
    for source, history in enumerate(histories):
        # An outcome is placed behind an invocation of the same instant: those two overlap.
        starts = [2 * event.at_us for event in history.events]
        ends = [place + 1 for place in starts]
        for operation in paired(history.events, starts, ends):
            number = numbers.setdefault((source, operation.client), len(numbers))
            operations.append(msgspec.structs.replace(operation, client=number))
    operations.sort(key=lambda operation: operation.start)
    return operations


def paired(events: Sequence[Event], starts: Sequence[int], ends: Sequence[int]) -> list[Operation]:
    """Operations made of invocations and outcomes; the sequences give each event its places."""
    under_way: dict[int, tuple[int, Invoked, Value]] = {}
    done: list[Operation] = []

    def finish(client: int, answer: Value, outcome: Outcome, end: int) -> None:
        if client not in under_way:
            raise InvalidArgument(f"client {client} has an outcome and nothing under way")
        start, asked, argument = under_way.pop(client)
        done.append(Operation(client, asked.kind, asked.key, argument, answer, outcome, start, end))

    for place, event in enumerate(events):
        client = event.client
        match event:
            case Invoked():
                if client in under_way:
                    raise InvalidArgument(f"client {client} has two operations under way")
                under_way[client] = (starts[place], event, event.argument)
            case Amended():
                if client not in under_way:
                    raise InvalidArgument(f"client {client} amends nothing")
                under_way[client] = (*under_way[client][:2], event.argument)
            case Answered():
                finish(client, event.answer, Outcome.OK, ends[place])
            case Refused():
                finish(client, None, Outcome.FAILED, ends[place])
            case Lost():
                finish(client, None, Outcome.UNKNOWN, NEVER)
    for client in list(under_way):
        finish(client, None, Outcome.UNKNOWN, NEVER)
    done.sort(key=lambda operation: operation.start)
    return done


class Recorder:
    """Notes events as they happen. Threads may share it; each client is used by one at a time.

    With a ``sink`` every event also goes there at once, so that a killed process leaves behind
    what it knew; `stele.sim.checkers.history_file` makes lines of events.
    """

    def __init__(self, clock: Clock, sink: Callable[[Event], None] | None = None) -> None:
        self._clock = clock
        self._sink = sink
        self._events: list[Event] = []
        self._busy: set[int] = set()
        self._lock = threading.Lock()

    def invoke(self, client: int, kind: str, key: str = "", argument: object = None) -> None:
        """Call this before the request leaves."""
        assert client not in self._busy, f"client {client} has an operation under way"
        frozen = freeze(argument)
        self._note(lambda now: Invoked(now, client, kind, key, frozen))
        self._busy.add(client)

    def amend(self, client: int, argument: object) -> None:
        """Call this before the part of the request leaves that carries the argument."""
        assert client in self._busy, f"client {client} has nothing under way"
        frozen = freeze(argument)
        self._note(lambda now: Amended(now, client, frozen))

    def ok(self, client: int, answer: object = None) -> None:
        """It happened; call this after the answer came."""
        frozen = freeze(answer)
        self._finish(client, lambda now: Answered(now, client, frozen))

    def failed(self, client: int) -> None:
        """It certainly did not happen and never will."""
        self._finish(client, lambda now: Refused(now, client))

    def unknown(self, client: int) -> None:
        """A deadline passed or a connection broke: it may have happened, or still will."""
        self._finish(client, lambda now: Lost(now, client))

    def note(
        self, client: int, kind: str, key: str = "", argument: object = None, answer: object = None
    ) -> None:
        """Something that was not asked for: a delivery of a watch, a commit seen in the log."""
        self.invoke(client, kind, key, argument)
        self.ok(client, answer)

    def history(self, facts: Mapping[str, Value] | None = None) -> History:
        """What was recorded so far."""
        with self._lock:
            return History(tuple(self._events), dict(facts or {}))

    def _finish(self, client: int, event: Callable[[int], Event]) -> None:
        assert client in self._busy, f"client {client} has nothing under way"
        self._busy.discard(client)
        self._note(event)

    def _note(self, event: Callable[[int], Event]) -> None:
        # The clock is read under the lock, so that times never decrease along the events.
        with self._lock:
            noted = event(self._clock.monotonic_us())
            self._events.append(noted)
            if self._sink is not None:
                self._sink(noted)


def freeze(value: object) -> Value:
    """The value with every list made a tuple; refuses what a history cannot hold."""
    if isinstance(value, int) and -INTEGER_BOUND <= value < INTEGER_BOUND:
        return value
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return tuple([freeze(item) for item in value])
    raise InvalidArgument(f"a history holds no {type(value).__name__}: {value!r}")


def show(value: Value) -> str:
    """A value as people write it."""
    if isinstance(value, tuple):
        return f"[{' '.join(map(show, value))}]"
    if value is None:
        return "nil"
    return str(value)


def brief(values: tuple[Value, ...]) -> str:
    """A list as people write it, of a long one its end."""
    if len(values) <= BRIEF_VALUES_MAX:
        return show(values)
    return f"[… {' '.join(map(show, values[-BRIEF_VALUES_MAX:]))}]"
