"""A stream of changes, but for Spark: where it stands, how far it goes next, and what it holds.

Its offset is a txn of one table: everything at or below it was told. Spark asks one object for the
next offset again and again; the tasks of a batch may be asked of another one, after a failure,
which knows nothing but both offsets. So a range is always pinned by its offsets alone:

* a range is pinned once, up to what is durable, and cut into as many batches as limits ask for;
* a pin is let go only when a later one is held and its range was committed: Spark has said so, or
  it asks for what comes after and there is nothing. So history is held from the last committed
  offset on, and no longer than from there;
* when the stream ends, its last pin runs out by itself: until then it can go on where it stopped.

While nothing changes the offset stays, so that Spark makes no empty batches; but it moves on from
time to time, or an idle table's history would leave a stopped stream behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from stele.client.table import Table
from stele.client.waiting import pause_thread
from stele.env.ports import Clock
from stele.errors import Conflict, InvalidArgument, SteleError
from stele.spark.change_options import ChangeOptions
from stele.spark.pinning import PinKeeper
from stele.spark.reading import held_pin
from stele.spark.world import files_at
from stele.storage.change_counts import ChangeCounts, ChangeLimits, count_changes
from stele.storage.change_reader import FROM_NOTHING
from stele.storage.read_plan import ReadPlan

IDLE_STEP_US = 60_000_000
"""How far the clock runs ahead before the offset of an idle table follows it."""

LOOK_PERIOD_US = 100_000
LOOK_SHARE = 5
"""Between two looks at the table: a tenth of a second, and longer where looking takes long, as
where nobody has the database open."""

_ANEW = "begin again with a new checkpoint from 'earliest', into an empty target"


@dataclass(slots=True)
class HeldRange:
    """A pinned range of txns, and how much is in it."""

    since: int
    plan: ReadPlan
    _counts: ChangeCounts | None = field(default=None)

    def covers(self, start: int, end: int) -> bool:
        """Whether the changes after one txn up to another can be told from it."""
        return self.since <= start and end <= self.plan.txn

    def admit(self, start: int, limits: ChangeLimits) -> int:
        """How far a batch that begins after ``start`` may go."""
        if limits.is_open:
            return self.plan.txn
        if self._counts is None:
            files = files_at(self.plan.location, self.plan.name)
            self._counts = count_changes(files, "", self.plan, self.since, self.plan.txn)
        end = self._counts.admit(start, limits)
        if end is None:
            return self.plan.txn
        if start == FROM_NOTHING and self.plan.first_txn is not None:
            # What history has forgotten cannot be told in parts.
            end = max(end, self.plan.first_txn)
        return min(end, self.plan.txn)


class ChangeStream:
    """One run of a stream. For one thread, but for the keeper's."""

    def __init__(
        self,
        options: ChangeOptions,
        keeper: PinKeeper,
        clock: Clock,
        pause: Callable[[int], None] = pause_thread,
    ):
        self._options = options
        self._keeper = keeper
        self._clock = clock
        self._pause = pause
        self._initial: int | None = None
        self._target: int | None = None
        self._committed = 0
        self._held: list[HeldRange] = []
        self._next_look_us = 0
        self.reached = 0
        """How far the table was when it was last looked at."""
        self.table: str | None = None
        """The id of the table that is followed, once it is known."""

    def follow(self, table: str | None) -> None:
        """Go on where an offset of a table is; it must be the table that has the name now."""
        if table is None:
            raise InvalidArgument(
                f"the checkpoint of this stream does not say which table it is of, so nobody knows "
                f"whether {self._name} is still the same: {_ANEW}"
            )
        if self.table is None:
            self.table = table
        self._check(table)

    def _check(self, table: str) -> None:
        if table != self.table:
            raise Conflict(
                f"{self._name} is another table than the one this stream has followed, which was "
                f"dropped or renamed: its changes do not follow from what was told, and what the "
                f"old one had stays in the target: {_ANEW}"
            )

    @property
    def _name(self) -> str:
        return f"table {self._options.address.table!r}"

    @contextmanager
    def _opened(self) -> Iterator[Table]:
        """The table, for a moment, if it still is the one that is followed."""
        with self._options.address.open() as table:
            if self.table is None:
                self.table = table.id
            self._check(table.id)
            yield table

    def initial(self) -> int:
        """Where a new stream begins. Spark asks twice, and must get the same answer."""
        if self._initial is None:
            with self._opened() as table:
                self._initial = self._options.since(table)
        return self._initial

    def stop_at_present(self) -> None:
        """Go no further than what is there now."""
        with self._opened() as table:
            self._target = table.core.backend.look_for_changes(0)[0]

    def next(self, start: int, limits: ChangeLimits) -> int:
        """Where a batch that begins after ``start`` ends; ``start`` if there is nothing to tell."""
        held = next((one for one in self._held if one.covers(start, start + 1)), None)
        held = held or self._look(start)
        return start if held is None else held.admit(start, limits)

    def _look(self, start: int) -> HeldRange | None:
        """Pin what has come since, if anything has."""
        began_us = self._clock.monotonic_us()
        if began_us < self._next_look_us:
            self._pause(self._next_look_us - began_us)
            began_us = self._next_look_us
        with self._opened() as table:
            self.reached, changed = table.core.backend.look_for_changes(start)
            end = self.reached if self._target is None else min(self.reached, self._target)
            is_idle = not changed and self._target is None and end - start < IDLE_STEP_US
            if end > start and not is_idle:
                return self._pin(table, start, end)
            if start and any(one.since < start for one in self._held):
                self.commit(start)
                self._pin(table, start, start)
        took_us = self._clock.monotonic_us() - began_us
        self._next_look_us = began_us + max(LOOK_PERIOD_US, LOOK_SHARE * took_us)
        return None

    def _pin(self, table: Table, start: int, end: int) -> HeldRange:
        """Hold a range, then let go of those that are done."""
        options, backend = self._options, table.core.backend
        plan = backend.pin_changes(start, end, options.lease_us)
        self._keeper.hold(held_pin(table, options.address, plan, options.lease_us))
        done = [one for one in self._held if one.plan.txn <= self._committed]
        self._held = [one for one in self._held if one not in done]
        self._held.append(HeldRange(start, plan))
        for one in done:
            self._keeper.forget(one.plan.lease)
            with suppress(SteleError):  # it runs out by itself
                backend.release_pin(one.plan.lease)
        return self._held[-1]

    def plan(self, start: int, end: int) -> ReadPlan:
        """What holds the changes of a batch; of one that another object has chosen, too."""
        held = next((one for one in self._held if one.covers(start, end)), None)
        if held is None:
            with self._opened() as table:
                held = self._pin(table, start, end)
        return held.plan

    def commit(self, end: int) -> None:
        """Everything up to a txn was told for good."""
        self._committed = max(self._committed, end)

    def stop(self) -> None:
        """Renew nothing any more. What is held stays for as long as its lease says."""
        for one in self._held:
            self._keeper.forget(one.plan.lease)
        self._held.clear()
