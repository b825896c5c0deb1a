"""Dependencies between transactions that append to lists and read them.

    kind txn    argument  [[append key value] [read key] …]
                answer    [[append key value] [read key [values …]] …]

A list tells its own history: whoever reads ``[3 1 2]`` has seen the order of three writes. So the
order of versions is known as far as anybody read, from the longest read of each key. Values must
be unique for each key; that is the workload's part.

From the order of versions follow all edges. A committed append that nobody read comes behind all
that was read, for a read would have shown it otherwise. A transaction of unknown outcome counts iff
somebody saw a value of it; its reads, as far as its argument has them, then count too.

Also found here, without any cycle: reads that contradict the transaction itself (internal), reads
of what was aborted (G1a), of what a transaction overwrote itself (G1b), of what nobody wrote, of
the same value twice, reads of one key of which neither continues the other, and transactions that
both appended to the very version both had read (lost update).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from stele.errors import InvalidArgument
from stele.sim.checkers.anomalies import Findings
from stele.sim.checkers.dependency_graph import DependencyGraph, Kind
from stele.sim.checkers.history import Operation, Outcome, Value, brief, show

MicroOperation: TypeAlias = tuple[Any, ...]
"""What it does, the key, and the value if that is known."""

Values: TypeAlias = tuple[Value, ...]

NOBODY = -1


@dataclass(slots=True)
class _List:
    """What is known of one key. Transactions are numbers."""

    writers: dict[Value, int] = field(default_factory=dict)
    superseded: set[Value] = field(default_factory=set)
    """Values behind which the same transaction appended another one."""
    reads: list[tuple[int, Values]] = field(default_factory=list)
    """What was there before the reader's own appends."""
    longest: Values = ()
    longest_reader: int = NOBODY


class ListAppend:
    """Takes a history apart; has the ``graph`` and the ``findings`` then."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = [operation for operation in operations if operation.kind == "txn"]
        self.findings = Findings()
        self.graph = DependencyGraph(self.operations)
        self.lost_updates: set[frozenset[int]] = set()
        self._lists: dict[str, _List] = defaultdict(_List)
        self._committed = [o.outcome is Outcome.OK for o in self.operations]
        for number, operation in enumerate(self.operations):
            self._note_appends(number, operation)
        for number, operation in enumerate(self.operations):
            if operation.outcome is Outcome.OK:
                self._note_reads(number, operation)
        self._commit_what_was_seen()
        for key, state in self._lists.items():
            self._check_values(key, state)
            self._connect(key, state)
        self.graph.add_real_time([n for n, committed in enumerate(self._committed) if committed])

    def _note_appends(self, number: int, operation: Operation) -> None:
        last: dict[str, Value] = {}
        for step in steps_of(operation):
            if step[0] != "append":
                continue
            _, key, value = step
            state = self._lists[key]
            if value in state.writers:
                raise InvalidArgument(f"{show(value)} is appended to {key!r} twice")
            state.writers[value] = number
            if key in last:
                state.superseded.add(last[key])
            last[key] = value

    def _note_reads(self, number: int, operation: Operation) -> list[str]:
        """Remember what a transaction saw of others; returns the keys of which it saw most."""
        own: dict[str, Values] = {}
        seen: dict[str, Values] = {}
        longer = []
        for step in steps_of(operation):
            if step[0] == "append":
                _, key, value = step
                known = seen if key in seen else own
                known[key] = (*known.get(key, ()), value)
                continue
            if step[0] != "read":
                raise InvalidArgument(f"no step of a list transaction: {show(step)}")
            if len(step) == 2:
                continue  # the answer is not known
            key = step[1]
            values = cast("Values", step[2] or ())
            mine = own.get(key, ())
            before = values[: len(values) - len(mine)]
            expected = seen.get(key, before + mine)
            if values != expected:
                told = f"T1 read {key} as {brief(values)}, and must see {brief(expected)}"
                self.findings.add("internal", [operation], told)
            elif key not in seen:
                seen[key] = values
                state = self._lists[key]
                state.reads.append((number, before))
                if len(before) > len(state.longest):
                    state.longest, state.longest_reader = before, number
                    longer.append(key)
        return longer

    def _commit_what_was_seen(self) -> None:
        pending = list(self._lists)
        while pending:
            state = self._lists[pending.pop()]
            for value in state.longest:
                number = state.writers.get(value, NOBODY)
                if number == NOBODY or self._committed[number]:
                    continue
                operation = self.operations[number]
                if operation.outcome is Outcome.UNKNOWN:
                    self._committed[number] = True
                    pending += self._note_reads(number, operation)

    def _check_values(self, key: str, state: _List) -> None:
        reader = self.operations[state.longest_reader]
        if len(set(state.longest)) < len(state.longest):
            told = f"T1 read {key} as {brief(state.longest)}"
            self.findings.add("duplicate append", [reader], told)
        for value in state.longest:
            number = state.writers.get(value, NOBODY)
            if number == NOBODY:
                told = f"T1 read {show(value)} in {key}, which nobody appended"
                self.findings.add("unwritten read", [reader], told)
            elif not self._committed[number]:
                told = f"T1 read {show(value)} in {key}, which T2 appended and took back"
                self.findings.add("G1a", [reader, self.operations[number]], told)
        if state.superseded:
            for number, values in state.reads:
                if values and values[-1] in state.superseded:
                    self._check_intermediate(key, state, number, values)

    def _check_intermediate(self, key: str, state: _List, number: int, values: Values) -> None:
        writer = state.writers[values[-1]]
        if writer != number:
            told = f"T1 read {key} as {brief(values)}, which T2 had only half written"
            self.findings.add("G1b", [self.operations[number], self.operations[writer]], told)

    def _connect(self, key: str, state: _List) -> None:
        """Edges of one key."""
        add = self.graph.add
        committed = self._committed
        order = [state.writers.get(value, NOBODY) for value in state.longest]
        following = [NOBODY] * (len(order) + 1)
        for place in range(len(order) - 1, -1, -1):
            number = order[place]
            counts = number != NOBODY and committed[number]
            following[place] = number if counts else following[place + 1]
        last = NOBODY
        for number in order:
            if number == NOBODY or not committed[number]:
                continue
            if last not in (NOBODY, number):
                add(last, number, Kind.WW)
            last = number
        at_end = []
        for number, values in state.reads:
            length = len(values)
            if values != state.longest[:length]:
                self._note_incompatible(key, state, number, values)
                continue
            writer = order[length - 1] if length else NOBODY
            if writer == number:
                told = f"T1 read {key} as {brief(values)} before it appended {show(values[-1])}"
                self.findings.add("internal", [self.operations[number]], told)
            elif writer != NOBODY:
                add(writer, number, Kind.WR)
            if following[length] == NOBODY:
                at_end.append(number)
            elif following[length] != number:
                add(number, following[length], Kind.RW)
        self._connect_unseen(state, last, at_end)
        self._find_lost_updates(key, state)

    def _connect_unseen(self, state: _List, last: int, at_end: Sequence[int]) -> None:
        """Appends that nobody read come behind the last that was read, and behind its readers."""
        if len(state.writers) <= len(state.longest):
            return
        seen = set(state.longest)
        unseen = dict.fromkeys(
            number
            for value, number in state.writers.items()
            if value not in seen and self._committed[number]
        )
        if not unseen:
            return
        joint = self.graph.add_joint()
        for number in unseen:
            self.graph.add(joint, number, Kind.FREE)
        before = [(number, Kind.RW) for number in at_end]
        if last != NOBODY:
            before.append((last, Kind.WW))
        for number, kind in before:
            if number not in unseen:
                self.graph.add(number, joint, kind)
                continue
            for other in unseen:  # the joint would make it its own predecessor
                if other != number:
                    self.graph.add(number, other, kind)

    def _note_incompatible(self, key: str, state: _List, number: int, values: Values) -> None:
        self.findings.add(
            "incompatible order",
            [self.operations[number], self.operations[state.longest_reader]],
            f"T1 read {key} as {brief(values)}",
            f"T2 read {key} as {brief(state.longest)}",
        )

    def _find_lost_updates(self, key: str, state: _List) -> None:
        appended = set(state.writers.values())
        first: dict[Values, int] = {}
        for number, values in state.reads:
            if number not in appended:
                continue
            other = first.setdefault(values, number)
            if other != number:
                self.lost_updates.add(frozenset((other, number)))
                told = f"both read {key} as {brief(values)} and appended to it"
                pair = [self.operations[other], self.operations[number]]
                self.findings.add("lost update", pair, told)

    def why(self, source: int, target: int, kind: Kind) -> str:
        """Why one transaction comes before another."""
        match kind:
            case Kind.WW:
                return self._why_overwritten(source, target)
            case Kind.WR:
                return self._why_read(source, target)
            case Kind.RW:
                return self._why_missed(source, target)
        return "{source} was over before {target} began"

    def _why_overwritten(self, source: int, target: int) -> str:
        for key, state in self._lists.items():
            for place, value in enumerate(state.longest):
                later = self._not_in(state, target, place)
                if state.writers.get(value) == source and later:
                    behind = f"behind {show(value)} of {{source}}"
                    return f"{{target}} appended {show(later[0])} to {key} {behind}"
        raise AssertionError("an edge without a reason")

    def _why_read(self, source: int, target: int) -> str:
        for key, state in self._lists.items():
            for number, values in state.reads:
                if number == target and values and state.writers.get(values[-1]) == source:
                    return f"{{target}} read {key} as {brief(values)}, the last of it by {{source}}"
        raise AssertionError("an edge without a reason")

    def _why_missed(self, source: int, target: int) -> str:
        for key, state in self._lists.items():
            for number, values in state.reads:
                missed = self._not_in(state, target, len(values))
                if number == source and missed:
                    without = f"without {show(missed[0])} of {{target}}"
                    return f"{{source}} read {key} as {brief(values)}, {without}"
        raise AssertionError("an edge without a reason")

    def _not_in(self, state: _List, number: int, place: int) -> list[Value]:
        """What a transaction appended to a list at or behind a place, or nobody knows where."""
        before = state.longest[:place]
        return [v for v, writer in state.writers.items() if writer == number and v not in before]


def steps_of(operation: Operation) -> Sequence[MicroOperation]:
    """The steps of a transaction, with answers where there are any."""
    steps = operation.argument if operation.answer is None else operation.answer
    return cast("Sequence[MicroOperation]", steps or ())
