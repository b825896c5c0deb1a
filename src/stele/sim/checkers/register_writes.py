"""Dependencies between transactions that write and read registers.

    kind txn    argument  [[write key value] [read key] …]
                answer    [[write key value] [read key value] …]

Each value is written to a key once, and nil is what an absent key reads as. So a read tells whose
write it saw; the order of the writes it does not tell, and that has to be put together:

- nothing is older than nil;
- a transaction that read one version and wrote another put the second behind the first;
- what a transaction did with a key comes behind what any transaction did with it that was over
  before. If one left version v and a later one found w, then v is w or older than w. Such an order
  is known from real time only, and edges that follow from it say so.

This finds less than lists do: of writes that overlap and were never read on the way, the order
stays unknown. Everything that it finds is wrong under strict serializability.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from stele.errors import InvalidArgument
from stele.sim.checkers.anomalies import Findings
from stele.sim.checkers.dependency_graph import DependencyGraph, Kind
from stele.sim.checkers.history import NEVER, Operation, Outcome, Value, show
from stele.sim.checkers.list_append import NOBODY, steps_of

MISSING = "\0missing"
"""Stands for a version that a transaction did not look at, or did not make."""

Touch: TypeAlias = tuple[int, Value, Value]
"""A transaction, the version of a key that it found, and the one that it left; or ``MISSING``."""

Witnesses: TypeAlias = tuple[int, int] | None
"""One who left a version and was over before the other, who found a newer one, began."""


@dataclass(slots=True)
class _Register:
    """What is known of one key. Transactions are numbers."""

    writers: dict[Value, int] = field(default_factory=dict)
    superseded: set[Value] = field(default_factory=set)
    """Values that the same transaction overwrote."""
    touches: list[Touch] = field(default_factory=list)
    readers: dict[Value, list[int]] = field(default_factory=dict)
    newer: dict[Value, dict[Value, Witnesses]] = field(default_factory=dict)
    """For a version those known to be newer, and the witnesses if it is known by time only."""


class RegisterWrites:
    """Takes a history apart; has the ``graph`` and the ``findings`` then."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        transactions = [operation for operation in operations if operation.kind == "txn"]
        self.operations = sorted(transactions, key=lambda operation: operation.start)
        self.findings = Findings()
        self.graph = DependencyGraph(self.operations)
        self.lost_updates: set[frozenset[int]] = set()
        self._registers: dict[str, _Register] = defaultdict(_Register)
        self._committed = [o.outcome is Outcome.OK for o in self.operations]
        for number, operation in enumerate(self.operations):
            self._note_writes(number, operation)
        for number, operation in enumerate(self.operations):
            if operation.outcome is Outcome.OK:
                self._note_touches(number, operation)
        self._commit_what_was_seen()
        for key, state in self._registers.items():
            state.touches.sort()
            self._check_values(key, state)
            self._order_versions(key, state)
            self._connect(state)
        self.graph.add_real_time([n for n, committed in enumerate(self._committed) if committed])

    def _note_writes(self, number: int, operation: Operation) -> None:
        last: dict[str, Value] = {}
        for step in steps_of(operation):
            if step[0] != "write":
                continue
            _, key, value = step
            state = self._registers[key]
            if value is None or value in state.writers:
                raise InvalidArgument(f"{show(value)} is written to {key!r}, nil or twice")
            state.writers[value] = number
            if key in last:
                state.superseded.add(last[key])
            last[key] = value

    def _note_touches(self, number: int, operation: Operation) -> list[tuple[str, Value]]:
        """Remember what a transaction found and left; returns what it found."""
        found: dict[str, Value] = {}
        left: dict[str, Value] = {}
        for step in steps_of(operation):
            key = step[1]
            if step[0] == "write":
                left[key] = step[2]
            elif step[0] != "read":
                raise InvalidArgument(f"no step of a register transaction: {show(step)}")
            elif len(step) == 2:
                continue  # the answer is not known
            elif key not in left and key not in found:
                found[key] = step[2]
            elif step[2] != (expected := left[key] if key in left else found[key]):
                told = f"T1 read {key} as {show(step[2])}, and must see {show(expected)}"
                self.findings.add("internal", [operation], told)
        for key, value in found.items():
            state = self._registers[key]
            state.touches.append((number, value, left.pop(key, MISSING)))
            state.readers.setdefault(value, []).append(number)
        for key, value in left.items():
            self._registers[key].touches.append((number, MISSING, value))
        return list(found.items())

    def _commit_what_was_seen(self) -> None:
        pending = [
            (key, value) for key, state in self._registers.items() for value in state.readers
        ]
        while pending:
            key, value = pending.pop()
            number = self._registers[key].writers.get(value, NOBODY)
            if number == NOBODY or self._committed[number]:
                continue
            operation = self.operations[number]
            if operation.outcome is Outcome.UNKNOWN:
                self._committed[number] = True
                pending += self._note_touches(number, operation)

    def _check_values(self, key: str, state: _Register) -> None:
        for value, readers in state.readers.items():
            if value is None:
                continue
            reader = self.operations[readers[0]]
            number = state.writers.get(value, NOBODY)
            if number in readers:
                told = f"T1 read {key} as {show(value)} before it wrote that"
                self.findings.add("internal", [self.operations[number]], told)
            if number == NOBODY:
                told = f"T1 read {key} as {show(value)}, which nobody wrote"
                self.findings.add("unwritten read", [reader], told)
            elif not self._committed[number]:
                told = f"T1 read {key} as {show(value)}, which T2 wrote and took back"
                self.findings.add("G1a", [reader, self.operations[number]], told)
            elif value in state.superseded:
                told = f"T1 read {key} as {show(value)}, which T2 overwrote itself"
                self.findings.add("G1b", [reader, self.operations[number]], told)

    def _order_versions(self, key: str, state: _Register) -> None:
        first: dict[Value, int] = {}
        for number, found, left in state.touches:
            if found == MISSING or left == MISSING:
                continue
            state.newer.setdefault(found, {})[left] = None
            other = first.setdefault(found, number)
            if other != number:
                self.lost_updates.add(frozenset((other, number)))
                pair = [self.operations[other], self.operations[number]]
                told = f"both read {key} as {show(found)} and wrote it"
                self.findings.add("lost update", pair, told)
        self._order_by_real_time(state)

    def _order_by_real_time(self, state: _Register) -> None:
        """Sweep over the touches in the order of their start.

        Of those that are over, only the latest matter: once a transaction is over that began after
        another was over, whatever follows it follows the other one too.
        """
        under_way: list[tuple[int, int, Value]] = []  # end, number, version
        latest: list[tuple[int, int, Value]] = []
        for number, found, left in state.touches:
            operation = self.operations[number]
            while under_way and under_way[0][0] < operation.start:
                over = heapq.heappop(under_way)
                start = self.operations[over[1]].start
                latest = [past for past in latest if past[0] >= start]
                latest.append(over)
            version = left if found == MISSING else found
            for _, past_number, older in latest:
                if older != version and older is not None:
                    witnesses = (past_number, number)
                    state.newer.setdefault(older, {}).setdefault(version, witnesses)
            if operation.end != NEVER:
                version = found if left == MISSING else left
                heapq.heappush(under_way, (operation.end, number, version))

    def _connect(self, state: _Register) -> None:
        for value, readers in state.readers.items():
            writer = state.writers.get(value, NOBODY)
            if writer != NOBODY and self._committed[writer]:
                for reader in readers:
                    if reader != writer:
                        self.graph.add(writer, reader, Kind.WR)
        self._connect_nil(state)
        for older, newer in state.newer.items():
            source = state.writers.get(older, NOBODY)
            for version, witnesses in newer.items():
                by_time = witnesses is not None
                target = state.writers.get(version, NOBODY)
                if target == NOBODY or not self._committed[target]:
                    continue
                if source not in (NOBODY, target) and self._committed[source]:
                    self.graph.add(source, target, Kind.WW_RT if by_time else Kind.WW)
                if older in state.readers:
                    kind = Kind.RW_RT if by_time else Kind.RW
                    self.graph.add_all(state.readers[older], target, kind)

    def _connect_nil(self, state: _Register) -> None:
        """Whoever found nothing came before all who wrote."""
        readers = state.readers.get(None)
        writers = dict.fromkeys(n for n in state.writers.values() if self._committed[n])
        if not readers or not writers:
            return
        joint = self.graph.add_joint()
        for number in writers:
            self.graph.add(joint, number, Kind.FREE)
        for number in readers:
            if number not in writers:
                self.graph.add(number, joint, Kind.RW)
                continue
            for other in writers:  # the joint would make it its own predecessor
                if other != number:
                    self.graph.add(number, other, Kind.RW)

    def why(self, source: int, target: int, kind: Kind) -> str:
        """Why one transaction comes before another."""
        if kind is Kind.RT:
            return "{source} was over before {target} began"
        for key, state in self._registers.items():
            if kind is Kind.WR:
                told = self._why_read(key, state, source, target)
            else:
                told = self._why_newer(key, state, source, target, kind)
            if told is not None:
                return told
        raise AssertionError("an edge without a reason")

    @staticmethod
    def _why_read(key: str, state: _Register, source: int, target: int) -> str | None:
        for value, readers in state.readers.items():
            if target in readers and state.writers.get(value) == source:
                return f"{{target}} read {key} as {show(value)}, which {{source}} wrote"
        return None

    def _why_newer(
        self, key: str, state: _Register, source: int, target: int, kind: Kind
    ) -> str | None:
        reading = kind in (Kind.RW, Kind.RW_RT)
        verb = "read" if reading else "wrote"
        for older in dict.fromkeys([*state.newer, None]):
            touched: Sequence[int] = [state.writers.get(older, NOBODY)]
            if reading:
                touched = state.readers.get(older, ())
            newer = state.newer.get(older, {})
            if older is None:
                newer = dict.fromkeys(state.writers)
            for version, witnesses in newer.items():
                right = (witnesses is not None) is (kind in (Kind.WW_RT, Kind.RW_RT))
                if right and source in touched and state.writers.get(version) == target:
                    basis = self._testimony(older, version, witnesses)
                    overwritten = f"{{target}} wrote {show(version)}{basis}"
                    return f"{{source}} {verb} {key} as {show(older)}, {overwritten}"
        return None

    def _testimony(self, older: Value, version: Value, witnesses: Witnesses) -> str:
        if witnesses is None:
            return ""
        left, found = (self.operations[number] for number in witnesses)
        first = f"client {left.client} had {show(older)} until {left.end}"
        return f"; {first}, client {found.client} had {show(version)} from {found.start} on"
