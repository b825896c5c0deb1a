"""When an engine's memory is flushed or merged: after commits, and for those who wait for room.

Flushes are looked for when a table's memory, or all of it, has grown large. When somebody is
refused, or stands in the line (``stele.storage.admission_line``), whatever there is has to go,
table by table, until the first in the line fits. As long as it waits, one of these is under way,
and its end looks at the line again: a flush, a commit that a flush waits for, compactions that are
behind, or, when a flush failed or could not begin, a pause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from stele.env.ports import Timer
from stele.errors import SteleError
from stele.tablet.engine import Engine
from stele.tablet.flush_policy import LogFileFacts, TableMemory, choose_flush
from stele.tablet.memory_merge import start_memory_merge
from stele.tablet.table_state import TableState

RECENT_RUNS_MERGED = 16
"""Recent runs in a table's memory at which a look at its tiers is worth it, if there are reads."""

UNREAD_RUNS_MERGED = 1_024
"""All runs of a table's memory at which they are looked at while nobody reads. Before that a bulk
load is flushed, which merges everything anyway, and need not copy its cells again and again."""

FLUSH_AGAIN_US = 250_000
"""When to try a flush again that failed while somebody waits: a full disk may have room by then,
and it costs the disk little until it has."""


class MemoryPressure:
    """Attaches itself to an engine that works by itself."""

    def __init__(
        self,
        engine: Engine,
        flush: Callable[[TableState], bool],
        is_behind: Callable[[TableState], bool],
        report: Callable[[SteleError | None], None],
    ) -> None:
        """``flush`` starts one; tables whose compactions are ``behind`` are not flushed."""
        self._engine = engine
        self._flush = flush
        self._is_behind = is_behind
        self._report = report
        limits = engine.options.flush
        self._much, self._very_much = limits.memory_bytes, limits.budget_bytes * 3 // 4
        """Bytes in memory of one table, and of all, that a flush is looked for at."""
        self._lock = threading.Lock()
        self._stopped = False
        self._awaits_durable = False
        self._pressed = False
        self._again: Timer | None = None
        if engine.options.background:
            engine.on_memory_grown = self._memory_grown
            engine.on_memory_full = self._memory_full

    def stop(self) -> None:
        """Start nothing new."""
        with self._lock:
            self._stopped = True
            if self._again is not None:
                self._again.cancel()

    def _memory_grown(self, state: TableState) -> None:
        if state.counted_bytes >= self._much or self._engine.memory_bytes >= self._very_much:
            self._flush_when_durable()
        elif not state.merging and _has_many_runs(state):
            start_memory_merge(self._engine, state)

    def _memory_full(self) -> None:
        """Somebody is refused: if no room is being made, something has to go, however small.

        A flush may have failed, or been put off, and no commit comes now that would start another.
        Nor does anybody write the log, if those whose commits are queued wait for room now.
        """
        if not self._makes_room():
            self._pressed = True
            self._flush_when_durable()
            self._engine.log.start()

    def _makes_room(self) -> bool:
        return any(state.flushing or self._is_behind(state) for state in self._engine.tables())

    def _flush_when_durable(self) -> None:
        """What was committed last is in memory, and cannot be flushed before it is durable.

        Without waiting for it a flush that a large commit makes due would write the little that was
        there before, and then hold up the flush of the rest.
        """
        with self._lock:
            if self._awaits_durable:
                return
            self._awaits_durable = True
        if not self._engine.call_when_durable(self.flush_now):
            self.flush_now()

    def flush_now(self) -> None:
        """Look for a flush that is due, on the heels of something else, which hears of no error."""
        with self._lock:
            self._awaits_durable = False
        try:
            self._flush_if_due()
        except SteleError as error:
            self._report(error)
        self._see_to_the_line()

    def flushed(self, error: SteleError | None) -> None:
        """A flush has ended: there may be another one to make, and there may be room."""
        if error is None:
            self.flush_now()
            self._engine.admissions.look()
        else:
            self._see_to_the_line()

    def room_may_be_made(self) -> None:
        """What kept flushes away has ended."""
        self.flush_now()
        self._engine.admissions.look()

    def _flush_if_due(self) -> None:
        """Flush the table that the policy chooses, if it chooses any."""
        if self._stopped:
            return
        tables = [
            TableMemory(state.id, state.memory.size_bytes, oldest)
            for state in self._engine.tables()
            if not state.flushing and (oldest := state.memory.oldest_txn) is not None
            if not self._is_behind(state)
        ]
        log = [LogFileFacts(file.size_bytes, file.txn_max) for file in self._engine.log.files]
        pressed, self._pressed = self._pressed, False
        chosen = choose_flush(tables, log, self._engine.options.flush, pressed=pressed)
        if chosen is not None:
            self._flush(self._engine.table(chosen))

    def _see_to_the_line(self) -> None:
        """If somebody waits and nothing is under way, nothing would happen any more: look again."""
        if not self._engine.admissions.is_stuck or self._makes_room():
            return
        with self._lock:
            if self._again is None and not self._stopped and not self._awaits_durable:
                tasks = self._engine.world.tasks
                self._again = tasks.call_later(FLUSH_AGAIN_US, self._flush_again)

    def _flush_again(self) -> None:
        with self._lock:
            self._again = None
        self._engine.admissions.look()


def _has_many_runs(state: TableState) -> bool:
    """Whether it is worth a look what of a table's memory could be merged."""
    version = state.memory.version
    if state.was_read:
        return len(version.recent) >= RECENT_RUNS_MERGED
    return len(version.settled) + len(version.recent) >= UNREAD_RUNS_MERGED
