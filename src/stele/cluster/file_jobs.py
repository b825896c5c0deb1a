"""Flushes and compactions that somebody waits for, and changes of layout, which want to be alone.

The two keep each other away from a table. Whoever has to wait stands in line
(``stele.tablet.waiting_line``), so that neither keeps the other away for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stele.cluster.turns import Turn
from stele.env.interrupts import Uninterrupted
from stele.errors import SteleError
from stele.storage.references import Reference
from stele.tablet.config import TabletConfig
from stele.tablet.engine import Engine
from stele.tablet.maintenance import Ended, Maintenance
from stele.tablet.table_state import TableState
from stele.tablet.waiting_line import Place


class FileJobs:
    """The jobs of the tables of one engine. Threads share it."""

    def __init__(self, engine: Engine, maintenance: Maintenance) -> None:
        self._engine = engine
        self._maintenance = maintenance

    @contextmanager
    def layout_changes(self, state: TableState, turn: Turn | None = None) -> Iterator[None]:
        """Alone with a table's layout: no flush, compaction, split or join is under way."""
        engine = self._engine
        turn = turn or Turn(engine.world.clock)

        def is_free() -> bool:
            is_busy = state.changing_layout or state.flushing or state.compacting
            return not is_busy and state.line.is_turn_of(place)

        place = Place(is_layout=True)
        has_begun = False
        try:
            with engine.lock, self._in_line(state, place):
                why = f"table {state.name!r} has been busy with its files"
                turn.wait_for(engine.work_ended, is_free, why)
                state.check_served()  # it may have been dropped while we waited
                has_begun = state.changing_layout = True
            yield
        finally:
            with Uninterrupted():  # nobody else would let the next one begin
                if has_begun:
                    with engine.lock:
                        state.changing_layout = False
                        engine.work_ended.notify_all()
                self._maintenance.go_on(state)

    @contextmanager
    def _in_line(self, state: TableState, place: Place) -> Iterator[None]:
        """Stand in the line. The lock is held."""
        try:
            state.line.join(place)
            yield
        finally:
            with Uninterrupted():
                state.line.leave(place)
                self._engine.work_ended.notify_all()

    def flush_all(self, state: TableState, turn: Turn | None = None) -> None:
        """Flush all that a table has in memory now."""
        engine = self._engine
        target = engine.committed_txn
        if target > engine.durable_txn:
            engine.advance_clock().wait(None if turn is None else turn.left_us)
        while (oldest := state.memory.oldest_txn) is not None and oldest <= target:
            self.flush(state, turn)

    def flush(self, state: TableState, turn: Turn | None = None) -> None:
        """Flush a table and return when it is done; another flush that ends is as good."""
        self._run(
            "a flush",
            state,
            lambda ended: self._maintenance.flush(state, ended),
            lambda: state.keeps_flushes_away,
            turn,
        )

    def compact(
        self,
        state: TableState,
        config: TabletConfig,
        group: str,
        inputs: tuple[Reference, ...],
        turn: Turn | None = None,
    ) -> None:
        """Compact references of a tablet and return when it is done."""
        self._run(
            "a compaction",
            state,
            lambda ended: self._maintenance.compact(state, config, group, inputs, ended),
            lambda: state.keeps_compactions_away(config.id),
            turn,
        )

    def _run(
        self,
        what: str,
        state: TableState,
        start: Callable[[Ended], bool],
        busy: Callable[[], bool],
        turn: Turn | None = None,
    ) -> None:
        """Start a job, when what is in its way has ended, and wait for its end.

        It may be that there is nothing to do any more then. With a turn it is waited for no longer
        than that: the job goes on.
        """
        errors: list[SteleError | None] = []
        over = threading.Event()

        def ended(error: SteleError | None) -> None:
            errors.append(error)
            over.set()

        def begun() -> bool:
            with Uninterrupted():  # a job that is marked as running runs
                return start(ended)

        if begun() or self._start_when_free(state, begun, busy, turn):
            if not over.wait(None if turn is None else turn.left_s):
                assert turn is not None
                raise turn.late(f"{what} has been under way")
            if errors[0] is not None:
                raise errors[0]

    def _start_when_free(
        self,
        state: TableState,
        start: Callable[[], bool],
        busy: Callable[[], bool],
        turn: Turn | None,
    ) -> bool:
        """Start a job when what is in its way has ended, and it is its turn."""
        engine, place = self._engine, Place(is_layout=False)

        def is_free() -> bool:
            return state.line.is_turn_of(place) and not busy()

        try:
            with engine.lock:
                state.line.join(place)
                if turn is None:
                    engine.work_ended.wait_for(is_free)
                else:
                    turn.wait_for(engine.work_ended, is_free, "its files have been busy")
                state.check_served()  # it may have been dropped while we waited
            return start()
        finally:
            with Uninterrupted(), engine.lock:
                state.line.leave(place)
                engine.work_ended.notify_all()
