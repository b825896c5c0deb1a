"""What an engine does by itself: flush, compact, split and join.

Every decision is a policy's, a pure function of facts gathered here. Things are looked at when
something happened that may make them due: a commit, a finished flush, a finished compaction.
Nothing polls, but for tablets of a busy table, which are looked at now and then until it is calm.

When memory is flushed is in ``stele.tablet.memory_pressure``.

Tablets to look at wait in a queue, each once. One job at a time takes them out, so whoever reports
that something happened, often the thread that leads META's log, is not held up by it; and it stops
taking while as many compactions run as may, because each costs memory and disk. When one of them
ends, the job goes on. If files come faster than they are merged, flushes wait for compactions, and
writers, in the end, for flushes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from stele.env.ports import Timer
from stele.errors import OutOfSpace, SteleError
from stele.model.operations import OperationKind
from stele.storage.references import Reference
from stele.tablet.changes import JoinTablets, Refused, SplitTablet
from stele.tablet.compaction import Compaction, plan_compaction
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.config_writer import Answer
from stele.tablet.engine import Engine
from stele.tablet.flush import Flush
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.memory_pressure import MemoryPressure
from stele.tablet.meta_rows import BORDER_BYTES_MAX
from stele.tablet.split_policy import (
    JoinFacts,
    RowSample,
    choose_join,
    choose_split_row,
    wants_split,
)
from stele.tablet.table_state import TableState
from stele.tablet.tablet_sizes import row_samples, tablet_bytes

LOOK_AFTER_START_US = 200_000
"""When to begin with what earlier owners left undone: not before short commands have ended."""

BUSY_US = 2_000_000
"""How long after a flush a table whose memory fills again counts as busy; then it is looked at
again."""

COMPACTIONS_MAX = 2
"""Compactions that are started while so many run: none. Each writes with up to two threads."""


Ended = Callable[[SteleError | None], None]
"""Hears how a job has ended."""


def _nothing(_error: SteleError | None) -> None:
    pass


class Maintenance:
    """Attaches itself to an engine. ``horizon_of`` gives a table's horizon, made durable."""

    def __init__(
        self,
        engine: Engine,
        horizon_of: Callable[[TableState], int],
        new_tablet_id: Callable[[TableState], str],
    ):
        self.engine = engine
        self.horizon_of = horizon_of
        self.new_tablet_id = new_tablet_id
        self._errors: dict[str, SteleError] = {}
        """What the last job of each kind failed with, if it failed."""
        self._stopped = False
        self._running = 0
        self._compacting = 0
        self._due: dict[tuple[TableState, bytes], None] = {}
        """Tablets to look at, by their first row, in the order in which they came."""
        self._put_off: dict[tuple[TableState, bytes], None] = {}
        """Those whose table was changing its layout when their turn came."""
        self._busy: dict[tuple[TableState, bytes], None] = {}
        """Those whose table was busy when they could have been compacted."""
        self._looked_at: set[TableState] = set()
        """Tables some tablets of which were looked at since pairs to join were."""
        self._looking = False
        self._idle = threading.Condition()
        self._first_look: Timer | None = None
        self._next_look: Timer | None = None
        """At those of busy tables: no event may bring them up."""
        self._pressure = MemoryPressure(
            engine, self.flush, self._is_behind, lambda error: self.report("flush", error)
        )
        if engine.options.background:
            tasks = engine.world.tasks
            self._first_look = tasks.call_later(LOOK_AFTER_START_US, self.look_after_everything)

    def stop(self) -> None:
        """Start nothing new, give up compactions, and return when what runs has ended."""
        self._stopped = True
        self._pressure.stop()
        if self._first_look is not None:
            self._first_look.cancel()
        with self._idle:
            if self._next_look is not None:
                self._next_look.cancel()
            self._idle.wait_for(lambda: self._running == 0)

    @property
    def last_error(self) -> SteleError | None:
        """What went wrong last, of all that has not gone well since."""
        return next(reversed(list(self._errors.values())), None)

    def report(self, kind: str, error: SteleError | None) -> None:
        """How a job of some kind has ended."""
        with self._idle:
            self._errors.pop(kind, None)
            if error is not None:
                self._errors[kind] = error
        if isinstance(error, OutOfSpace):
            self.engine.on_disk_full()

    # Memory.

    def _is_behind(self, state: TableState) -> bool:
        """Whether more files would only make reads slower: first those that are there are merged.

        While nothing is merged, waiting for it makes no sense.
        """
        sources_max = self.engine.options.compaction.sources_behind
        return self._compacting > 0 and state.layout.sources_max > sources_max

    def flush(self, state: TableState, done: Ended = _nothing) -> bool:
        """Start a flush of a table; False when there is nothing to do or one is under way."""

        def ended(error: SteleError | None) -> None:
            done(error)
            self._flushed(state, error)

        self._begin()
        started = Flush.start(self.engine, state, ended)
        if not started:
            self._end()
        return started

    def _flushed(self, state: TableState, error: SteleError | None) -> None:
        self.report("flush", error)
        if error is None:
            state.flushed_us = self.engine.world.clock.monotonic_us()
        if self.engine.options.background:
            self._pressure.flushed(error)
            if error is None:
                self.look_after(state, state.layout.tablets)
        self._end()

    # Tablets.

    def look_after(self, state: TableState, tablets: Iterable[TabletConfig]) -> None:
        """Compact, split and join what is due among some tablets of a table, in a job."""
        self._look_soon((state, config.rows.start) for config in tablets)

    def _look_soon(self, places: Iterable[tuple[TableState, bytes]]) -> None:
        with self._idle:
            self._due.update(dict.fromkeys(places))
            self._due.update(self._put_off)
            self._put_off.clear()
            if self._looking or self._stopped:
                return
            self._looking = True
            self._running += 1
        self.engine.world.tasks.spawn("maintenance", self._look)

    def go_on(self, state: TableState) -> None:
        """A change of layout has ended: begin what it kept away."""
        if not self.engine.options.background:
            return
        self._pressure.room_may_be_made()
        if self._put_off:
            self.look_after(state, ())

    def look_after_everything(self) -> None:
        """All tablets of all tables, as after a load (T16, T17)."""
        for state in self.engine.tables():
            self.look_after(state, state.layout.tablets)

    def _look_later(self, state: TableState, config: TabletConfig) -> None:
        """At a tablet whose table is busy: when that may be over."""
        with self._idle:
            self._busy[state, config.rows.start] = None
            if self._next_look is None and not self._stopped:
                tasks = self.engine.world.tasks
                self._next_look = tasks.call_later(BUSY_US, self._look_again)

    def _look_again(self) -> None:
        with self._idle:
            self._next_look = None
            places, self._busy = self._busy, {}
        self._look_soon(places)

    def _look(self) -> None:
        """Go through the queue."""
        error: SteleError | None = None
        try:
            while (due := self._next_due()) is not None:
                error = _attempt(lambda: self._look_at(*due)) or error
            for state in self._take_looked_at():
                error = _attempt(lambda: self.join_if_due(state)) or error  # noqa: B023
            self.report("look", error)
        except BaseException:  # a defect: whoever closes the store must not wait for this job
            self._looking = False
            raise
        finally:
            self._end()

    def _next_due(self) -> tuple[TableState, bytes] | None:
        with self._idle:
            if self._stopped or not self._due or self._compacting >= COMPACTIONS_MAX:
                self._looking = False
                return None
            due = next(iter(self._due))
            del self._due[due]
            self._looked_at.add(due[0])
            return due

    def _take_looked_at(self) -> set[TableState]:
        """Tables whose pairs of neighbours are to be looked at, now that no tablet waits."""
        with self._idle:
            if self._stopped or self._due:
                return set()
            tables, self._looked_at = self._looked_at, set()
            return tables

    def _look_at(self, state: TableState, first_row: bytes) -> None:
        config = state.layout.tablets.find(first_row)
        if config is None or not state.is_served:
            return
        if state.changing_layout or state.line.layout_is_next:
            with self._idle:
                self._put_off[state, first_row] = None
        elif not self.split_if_due(state, config):
            self.compact_if_due(state, config)

    def compact_if_due(self, state: TableState, config: TabletConfig) -> bool:
        """Start the best compaction of a tablet, if one is worth it."""
        if config.id in state.compacting:
            return False
        plan = plan_compaction(self.engine, state, config)
        if plan is not None and self._is_busy(state):
            plan = plan_compaction(self.engine, state, config, busy=True)
            if plan is None and self.engine.options.background:
                self._look_later(state, config)
        return plan is not None and self.compact(state, config, *plan)

    def _is_busy(self, state: TableState) -> bool:
        """Whether writers fill a table's memory about as quickly as it is flushed."""
        if state.flushing or state.flushed_us is None:
            return state.flushing
        since_us = self.engine.world.clock.monotonic_us() - state.flushed_us
        return (
            since_us < BUSY_US
            and state.counted_bytes >= self.engine.options.flush.memory_bytes // 2
        )

    def compact(
        self,
        state: TableState,
        config: TabletConfig,
        group: str,
        inputs: tuple[Reference, ...],
        done: Ended = _nothing,
    ) -> bool:
        """Start a compaction of some references of a tablet."""

        def ended(error: SteleError | None) -> None:
            done(error)
            self._compacted(state, config, error)

        self._begin(compactions=1)
        compaction = Compaction(
            self.engine,
            state,
            config,
            group,
            inputs,
            horizon_of=lambda: self.horizon_of(state),
            done=ended,
            is_cancelled=lambda: self._stopped,
        )
        started = compaction.start()
        if not started:
            self._end(compactions=1)
        return started

    def _compacted(self, state: TableState, config: TabletConfig, error: SteleError | None) -> None:
        self.report("compaction", error)
        self._end(compactions=1)
        if self.engine.options.background:
            self._pressure.room_may_be_made()
            self.look_after(state, [config] if error is None else [])

    def split_if_due(self, state: TableState, config: TabletConfig) -> bool:
        """Split a tablet that has grown too large, at an existing row near its middle."""
        limits = self.engine.options.sizes
        store = self.engine.fragments
        if not wants_split(tablet_bytes(store, config), limits):
            return False
        row = choose_split_row(config.rows, self._samples(store, config), limits)
        if row is None:
            return False
        lower, upper = self.new_tablet_id(state), self.new_tablet_id(state)
        return self._change_layout(
            state, SplitTablet(config.id, row, lower, upper, protected=False)
        )

    @staticmethod
    def _samples(store: FragmentStore, config: TabletConfig) -> list[RowSample]:
        samples = (sample for ref in config.references for sample in row_samples(store, ref))
        return [sample for sample in samples if len(sample.row) <= BORDER_BYTES_MAX]

    def join_if_due(self, state: TableState) -> bool:
        """Join the smallest pair of neighbours, if they are small enough."""
        store = self.engine.fragments
        facts = [
            JoinFacts(config.id, config.rows, tablet_bytes(store, config), config.protected)
            for config in state.layout.tablets
        ]
        chosen = choose_join(facts, self.engine.options.sizes)
        if chosen is None:
            return False
        return self._change_layout(state, JoinTablets(*chosen, self.new_tablet_id(state)))

    def _change_layout(self, state: TableState, change: SplitTablet | JoinTablets) -> bool:
        with self.engine.lock:
            if state.changing_layout or state.line.layout_is_next or not state.is_served:
                return False
            state.changing_layout = True
        self._begin()
        kind, tablet = _known_as(change)
        operation = self.engine.operations.begin(kind, state.name, tablet, detail="by its size")

        def done(answer: Answer) -> None:
            if isinstance(answer, SteleError):
                operation.failed(answer)
            elif isinstance(answer, Refused):
                operation.cancelled(answer.reason)
            operation.done()
            with self.engine.lock:
                state.changing_layout = False
                self.engine.work_ended.notify_all()
            self.engine.admissions.look()
            if isinstance(answer, ConfigEdit) and self.engine.options.background:
                self.look_after(state, answer.written)
            self.report("layout", answer if isinstance(answer, SteleError) else None)
            self._end()

        self.engine.change(state, change, done)
        return True

    # Who is running.

    def _begin(self, *, compactions: int = 0) -> None:
        with self._idle:
            self._running += 1
            self._compacting += compactions

    def _end(self, *, compactions: int = 0) -> None:
        with self._idle:
            self._running -= 1
            self._compacting -= compactions
            self._idle.notify_all()


def _known_as(change: SplitTablet | JoinTablets) -> tuple[OperationKind, str]:
    """What kind of operation a change is, and the tablet that it begins with."""
    if isinstance(change, SplitTablet):
        return OperationKind.SPLIT, change.tablet
    return OperationKind.JOIN, change.lower


def _attempt(work: Callable[[], object]) -> SteleError | None:
    """Look for what is due, on the heels of something else: failing is no harm to that."""
    try:
        work()
    except SteleError as error:
        return error
    return None
