"""What locks promise: growing tokens, no two holders, no holder from the grave, nothing lost.

    kind        key      argument              answer
    acquire     lock     [session mode]        the token; mode is shared or exclusive
    release     lock     session               whether it was held, or nil
    expire               session               the index in the log at which it ended, or nil
    increment   counter  [lock token]          the value after it
    total       counter                        the value in the end

A lock says who may go on, not who does: a holder that was paused past its session's end is still
running when the next one is let in. So the moment from which a holder *may* have lost its lock is
what counts here: when it asked for the release, or when its session began to end. Whoever pauses
clients must put the ends of their sessions into the history, as ``expire``. And a session whose
release has an unknown outcome is best not used again: the release may come at any time.

With tokens the order of grants is known without a search, so all of this is linear, and says more
than a model of the lock could:

1. *Growing tokens* (I12). Whoever asked after another had been told a token gets a larger one.
   Equal tokens on one lock are for shared holders only, let in by one entry of the log.
2. *Exclusion*. A grant with a larger token cannot have been told before an earlier, incompatible
   holder may have lost its lock.
3. *Living holders*. No session is given a lock after its end, by the log's order or by time.
4. *Nothing lost*. Increments under the lock, each read, add and write with the token as a fence,
   give every value once; in the order of values tokens never go down; and the total is what was
   acknowledged, plus at most what nobody knows.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import msgspec

from stele.sim.checkers.history import NEVER, Operation, Outcome
from stele.sim.checkers.models import EXCLUSIVE, SHARED
from stele.sim.checkers.violations import PromiseReport

KINDS = frozenset({"acquire", "release", "expire", "increment", "total"})


class Grant(NamedTuple):
    """A lock that was given to a session; ordered by token."""

    token: int
    start: int
    end: int
    session: str
    mode: str

    def __str__(self) -> str:
        return f"{self.session} ({self.mode}, token {self.token}, {self.start} to {self.end})"


class _Session:
    """When and where a session ended, if it did."""

    __slots__ = ("ended_by", "ends_from", "index")

    def __init__(self, expiries: Iterable[Operation]) -> None:
        known = list(expiries)
        self.ends_from = min((o.start for o in known), default=NEVER)
        self.ended_by = min((o.end for o in known), default=NEVER)
        indexes = [cast("int", o.answer) for o in known if o.answer is not None]
        self.index = min(indexes, default=NEVER)


def check_locks(operations: Iterable[Operation]) -> PromiseReport:
    """Judge everything that a history says of locks and of what was done under them."""
    by_kind: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.kind in KINDS and operation.outcome is not Outcome.FAILED:
            by_kind[operation.kind].append(operation)
    report = PromiseReport()
    sessions = _sessions(by_kind["expire"])
    grants = _grants(by_kind["acquire"])
    releases = _releases(by_kind["release"])
    for lock, given in grants.items():
        report.checked["grants"] += len(given)
        _check_tokens(report, lock, given)
        _check_exclusion(report, lock, given, releases, sessions)
        _check_living(report, lock, given, sessions)
    _check_increments(report, by_kind["increment"], by_kind["total"])
    return report


def with_expiries_on_each_lock(operations: Iterable[Operation]) -> list[Operation]:
    """The same with the end of a session noted on every lock that it asked for.

    For the model of a lock, which knows one key only: `stele.sim.checkers.models.FencedLock`.
    """
    operations = list(operations)
    asked: dict[str, dict[str, None]] = defaultdict(dict)
    for operation in operations:
        if operation.kind == "acquire":
            session, _ = cast("tuple[str, str]", operation.argument)
            asked[session][operation.key] = None
    spread = []
    for operation in operations:
        if operation.kind == "expire" and not operation.key:
            locks = asked.get(cast("str", operation.argument), {})
            spread += [msgspec.structs.replace(operation, key=lock) for lock in locks]
        else:
            spread.append(operation)
    return spread


def _sessions(expiries: Sequence[Operation]) -> dict[str, _Session]:
    grouped: dict[str, list[Operation]] = defaultdict(list)
    for operation in expiries:
        grouped[cast("str", operation.argument)].append(operation)
    return {session: _Session(of_session) for session, of_session in grouped.items()}


def _grants(acquisitions: Sequence[Operation]) -> dict[str, list[Grant]]:
    """Of each lock, those that were told a token."""
    grants: dict[str, list[Grant]] = defaultdict(list)
    for operation in acquisitions:
        if operation.outcome is Outcome.OK:
            session, mode = cast("tuple[str, str]", operation.argument)
            token = cast("int", operation.answer)
            grants[operation.key].append(
                Grant(token, operation.start, operation.end, session, mode)
            )
    return grants


class _Releases:
    """The releases that a session asked for, of one lock."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, operations: Iterable[Operation]) -> None:
        known = sorted(operations, key=lambda operation: operation.end)
        self._ends = [operation.end for operation in known]
        self._starts = [operation.start for operation in known]
        for place in range(len(known) - 2, -1, -1):
            self._starts[place] = min(self._starts[place], self._starts[place + 1])

    def effective_from(self, grant: Grant) -> int:
        """When one that was not over before the grant was asked for may have had its effect.

        One of unknown outcome may have it at any time, also on a later grant of the session.
        """
        place = bisect_left(self._ends, grant.start)
        return max(grant.start, self._starts[place]) if place < len(self._starts) else NEVER


def _releases(operations: Sequence[Operation]) -> dict[tuple[str, str], _Releases]:
    """By lock and session; those that were told that they held nothing are void."""
    grouped: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.answer is not False:
            grouped[operation.key, cast("str", operation.argument)].append(operation)
    return {identity: _Releases(asked) for identity, asked in grouped.items()}


def _check_tokens(report: PromiseReport, lock: str, grants: Sequence[Grant]) -> None:
    by_token: dict[int, Grant] = {}
    for grant in grants:
        other = by_token.setdefault(grant.token, grant)
        if other is not grant and not grant.mode == other.mode == SHARED:
            report.add("growing tokens", lock, f"one token for {other} and {grant}")
    told: list[tuple[int, Grant]] = []
    largest: Grant | None = None
    for grant in sorted(grants, key=lambda grant: grant.start):
        while told and told[0][0] < grant.start:
            over = heapq.heappop(told)[1]
            if largest is None or over.token > largest.token:
                largest = over
        if largest is not None and grant.token <= largest.token:
            report.add("growing tokens", lock, f"{largest} was told before {grant} asked")
        heapq.heappush(told, (grant.end, grant))


def _check_exclusion(
    report: PromiseReport,
    lock: str,
    grants: Sequence[Grant],
    releases: dict[tuple[str, str], _Releases],
    sessions: dict[str, _Session],
) -> None:
    longest: dict[str, tuple[int, Grant] | None] = {SHARED: None, EXCLUSIVE: None}
    for grant in sorted(grants):
        for mode, holding in longest.items():
            if holding is None or EXCLUSIVE not in (mode, grant.mode):
                continue
            # One who asked only after this grant was told has no claim: its token is wrong.
            if holding[1].start <= grant.end < holding[0]:
                when = "for ever" if holding[0] == NEVER else f"until {holding[0]} at least"
                report.add("exclusion", lock, f"{holding[1]} held it {when}, {grant} got it too")
        lost_from = _may_be_lost_from(lock, grant, releases, sessions)
        before = longest[grant.mode]
        if before is None or lost_from > before[0]:
            longest[grant.mode] = (lost_from, grant)


def _may_be_lost_from(
    lock: str,
    grant: Grant,
    releases: dict[tuple[str, str], _Releases],
    sessions: dict[str, _Session],
) -> int:
    asked = releases.get((lock, grant.session))
    session = sessions.get(grant.session)
    released = NEVER if asked is None else asked.effective_from(grant)
    return released if session is None else min(released, session.ends_from)


def _check_living(
    report: PromiseReport, lock: str, grants: Sequence[Grant], sessions: dict[str, _Session]
) -> None:
    for grant in grants:
        session = sessions.get(grant.session)
        if session is None:
            continue
        if grant.token >= session.index:
            told = f"{grant} was given it after its session had ended at index {session.index}"
            report.add("living holders", lock, told)
        elif session.ended_by < grant.start:
            told = f"{grant} was given it after its session had ended by {session.ended_by}"
            report.add("living holders", lock, told)


def _check_increments(
    report: PromiseReport, increments: Sequence[Operation], totals: Sequence[Operation]
) -> None:
    grouped: dict[str, list[Operation]] = defaultdict(list)
    for operation in increments:
        grouped[operation.key].append(operation)
    finals = {total.key: total for total in totals if total.outcome is Outcome.OK}
    for counter in dict.fromkeys([*grouped, *finals]):
        of_counter = grouped.get(counter, [])
        done = [operation for operation in of_counter if operation.outcome is Outcome.OK]
        report.checked["increments"] += len(done)
        _check_values(report, counter, done)
        if counter in finals:
            _check_total(report, finals[counter], len(done), len(of_counter) - len(done))


def _check_values(report: PromiseReport, counter: str, done: Sequence[Operation]) -> None:
    """Every value once, growing in time, and under tokens that never go down."""
    last: Operation | None = None
    for operation in sorted(done, key=_value):
        if last is not None:
            pair = f"{_shown(last)} and {_shown(operation)}"
            if _value(last) == _value(operation):
                report.add("nothing lost", counter, f"one value for {pair}")
            elif _fence(operation) < _fence(last):
                report.add("nothing lost", counter, f"an old token came through: {pair}")
        last = operation
    latest = NEVER
    for operation in sorted(done, key=_value, reverse=True):
        if latest < operation.start:
            told = f"{_shown(operation)} began after a larger value had been told at {latest}"
            report.add("nothing lost", counter, told)
        latest = min(latest, operation.end)


def _check_total(report: PromiseReport, total: Operation, done: int, unknown: int) -> None:
    found = cast("int", total.answer)
    report.checked["totals"] += 1
    if not done <= found <= done + unknown:
        told = f"the total is {found}; acknowledged are {done}, unknown {unknown}"
        report.add("nothing lost", total.key, told)


def _value(operation: Operation) -> int:
    return cast("int", operation.answer)


def _fence(operation: Operation) -> int:
    return cast("tuple[str, int]", operation.argument)[1]


def _shown(operation: Operation) -> str:
    client, token = operation.client, _fence(operation)
    span = f"{operation.start} to {operation.end}"
    return f"client {client} made it {_value(operation)} under token {token}, {span}"
