"""What watches promise: every change of the prefix, once, whole, in the order of the log.

    kind      key      argument              answer
    commit             index                 changes: what was really committed at that index
    watch     prefix   first index           (ignored) the watcher is the client
    watch_key key      first index           (ignored) the same for one key
    deliver   prefix   index                 changes
    progress  prefix   index                 (ignored) the watcher has been told all up to here

Changes are ``[[key value] …]``, a deleted key with nil. A watcher keeps its number when it loses
its connection and resumes elsewhere: that nothing is lost or repeated then is the point. Who has no
log to take ``commit`` from can take the deliveries of one watcher of everything for it, see
`deliveries_as_commits`; what was acknowledged with its index must be among them.

1. *Order*. Indexes grow from delivery to delivery. One index in two deliveries is either a
   *duplicate* or a transaction in pieces.
2. *No gap*. Every commit that touches the prefix, from the first index on up to the last that was
   delivered or promised by progress, is delivered.
3. *Whole transactions*. A delivery has exactly the changes of its commit under the prefix.
4. *Truth*. Nothing is delivered that was not committed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from stele.sim.checkers.history import Operation, Outcome, Value, brief, show
from stele.sim.checkers.violations import PromiseReport

Change: TypeAlias = tuple[str, Value]
Changes: TypeAlias = tuple[Change, ...]

KINDS = frozenset({"watch", "watch_key", "deliver", "progress"})


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction of the log."""

    index: int
    changes: Changes


@dataclass(slots=True)
class Watch:
    """A watcher and all that it was told, in the order in which it was told."""

    name: str
    prefix: str
    first_index: int
    exact: bool = False
    deliveries: list[Commit] = field(default_factory=list)
    told_up_to: int = 0
    """The last index of which the watcher knows that nothing before it is missing."""

    def shown(self, changes: Changes) -> Changes:
        """Those of the changes that it should be told, in one order."""
        return _ordered(change for change in changes if self._watches(change[0]))

    def _watches(self, key: str) -> bool:
        return key == self.prefix if self.exact else key.startswith(self.prefix)


def _ordered(changes: Iterable[Change]) -> Changes:
    return tuple(sorted(changes, key=lambda change: (change[0], show(change[1]))))


def check_watches(watches: Iterable[Watch], commits: Sequence[Commit]) -> PromiseReport:
    """Compare what watchers were told with what happened."""
    report = PromiseReport()
    truth = sorted(commits, key=lambda commit: commit.index)
    indexes = [commit.index for commit in truth]
    for watch in watches:
        report.checked["watches"] += 1
        report.checked["deliveries"] += len(watch.deliveries)
        _check_order(report, watch)
        _check_contents(report, watch, truth, indexes)
        _check_gaps(report, watch, truth, indexes)
    return report


def check_history(operations: Iterable[Operation]) -> PromiseReport:
    """The same for watchers and commits of one history."""
    operations = list(operations)
    return check_watches(watches_of(operations), commits_of(operations))


def watches_of(operations: Iterable[Operation]) -> list[Watch]:
    """The watchers of a history. Who delivers without a watch begins at the beginning."""
    watches: dict[tuple[int, str], Watch] = {}
    for operation in sorted(operations, key=lambda operation: operation.start):
        kind, identity = operation.kind, (operation.client, operation.key)
        if kind not in KINDS or operation.outcome is not Outcome.OK:
            continue
        index = cast("int", operation.argument)
        if identity not in watches:
            first = index if kind.startswith("watch") else 0
            name = f"watcher {operation.client} of {operation.key!r}"
            watches[identity] = Watch(name, operation.key, first, exact=kind == "watch_key")
        watch = watches[identity]
        if kind == "deliver":
            watch.deliveries.append(Commit(index, cast("Changes", operation.answer or ())))
        elif kind == "progress":
            watch.told_up_to = max(watch.told_up_to, index)
    return list(watches.values())


def commits_of(operations: Iterable[Operation]) -> list[Commit]:
    """The commits of a history; several of one index are one transaction."""
    changes: dict[int, list[Change]] = defaultdict(list)
    for operation in operations:
        if operation.kind == "commit" and operation.outcome is Outcome.OK:
            index = cast("int", operation.argument)
            changes[index] += cast("Changes", operation.answer or ())
    return [Commit(index, tuple(changes[index])) for index in sorted(changes)]


def deliveries_as_commits(watch: Watch, acknowledged: Iterable[Commit]) -> PromiseReport:
    """Whether one watcher of everything was told every acknowledged write, whole.

    With this and `check_watches` against its deliveries, one watcher stands for the log.
    """
    report = PromiseReport()
    told = {delivery.index: set(delivery.changes) for delivery in watch.deliveries}
    for commit in acknowledged:
        report.checked["acknowledged"] += 1
        missing = [change for change in commit.changes if change not in told.get(commit.index, ())]
        if missing and watch.first_index <= commit.index:
            shown = brief(tuple(missing))
            report.add("no gap", watch.name, f"{shown} was acknowledged at {commit.index}")
    return report


def _check_order(report: PromiseReport, watch: Watch) -> None:
    last: Commit | None = None
    seen: dict[int, Changes] = {}
    for delivery in watch.deliveries:
        index = delivery.index
        if index in seen:
            again = watch.shown(seen[index]) == watch.shown(delivery.changes)
            promise = "no duplicate" if again else "whole transactions"
            report.add(promise, watch.name, f"index {index} was delivered twice")
        elif last is not None and index < last.index:
            report.add("order", watch.name, f"index {index} came after {last.index}")
        if index < watch.first_index:
            told = f"index {index} is below {watch.first_index}, where it began"
            report.add("order", watch.name, told)
        seen.setdefault(index, delivery.changes)
        last = delivery


def _check_contents(
    report: PromiseReport, watch: Watch, truth: Sequence[Commit], indexes: Sequence[int]
) -> None:
    """Of an index in several deliveries, each is compared: pieces are wrong, one by one."""
    for delivery in watch.deliveries:
        place = bisect_left(indexes, delivery.index)
        committed: Changes = ()
        if place < len(truth) and indexes[place] == delivery.index:
            committed = watch.shown(truth[place].changes)
        delivered = _ordered(delivery.changes)
        if delivered == committed and delivered:
            continue
        shown = f"index {delivery.index} brought {show(delivered)}"
        if set(delivered) <= set(committed) and delivered:
            told = f"{shown} of {show(committed)}"
            report.add("whole transactions", watch.name, told)
        else:
            report.add("truth", watch.name, f"{shown}, committed is {show(committed)}")


def _check_gaps(
    report: PromiseReport, watch: Watch, truth: Sequence[Commit], indexes: Sequence[int]
) -> None:
    delivered = {delivery.index for delivery in watch.deliveries}
    last = max([watch.told_up_to, *delivered])
    for place in range(bisect_left(indexes, watch.first_index), bisect_left(indexes, last + 1)):
        commit = truth[place]
        if commit.index not in delivered and watch.shown(commit.changes):
            told = f"index {commit.index} is missing: {show(watch.shown(commit.changes))}"
            report.add("no gap", watch.name, told)
