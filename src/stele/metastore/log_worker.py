"""Groups on their way to the disk: what piles up while a sync runs goes out with the next one.

The worker decides what is written together; a ``LogJob`` does the writing, in a thread if need be,
one job at a time. ``finish`` then says what the node is to be told:

    add ──▶ waiting ──next_job──▶ job.run() ──finish──▶ Persisted
                ▲                    │
                └── the disk is full ┘  (all or nothing was written: tried again after a tick)

A group that carries a snapshot begins the log anew. The image is made the state *after* that is
durable and before anything is reported; a crash in between leaves a log that begins behind the
state, and the staged image to bring it up (``snapshots.recover_state``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stele.errors import OutOfSpace, SteleError
from stele.metastore.events import (
    Event,
    Group,
    Persisted,
    SpaceShort,
    StateReplaced,
    StorageLost,
)
from stele.metastore.raft_log import RaftLog
from stele.raft import Snapshot


class LogJob:
    """One frame. ``run`` never raises for what the disk does; ``finish`` reads the outcome."""

    __slots__ = ("_log", "base", "groups", "is_disk_full", "lost", "restores_reserve")

    def __init__(
        self, log: RaftLog, groups: list[Group], base: Snapshot | None, *, restores_reserve: bool
    ) -> None:
        self._log = log
        self.groups = groups
        self.base = base
        self.restores_reserve = restores_reserve
        self.is_disk_full = False
        self.lost: str | None = None

    def run(self) -> None:
        """Write and sync. Takes as long as the disk takes."""
        self.write()
        self.sync()

    def write(self) -> None:
        """The first half: afterwards the kernel has it."""
        if not self.groups and self.base is None:
            return
        try:
            self._log.append(self.groups, self.base)
        except OutOfSpace:
            self.is_disk_full = True
        except SteleError as error:
            self.lost = str(error)

    def sync(self) -> None:
        """The second half: afterwards the disk has it."""
        if self.is_disk_full or self.lost is not None:
            return
        try:
            self._log.sync()
            if self.base is not None:
                self._log.drop_dead_segments()
            if self.restores_reserve:
                self._log.restore_reserve()
        except SteleError as error:
            self.lost = str(error)


class LogWorker:
    """``install`` makes the image of a snapshot the state, in the node's own thread."""

    __slots__ = (
        "_base",
        "_install",
        "_log",
        "_node",
        "_running",
        "_said_short",
        "_waiting",
        "_waits_for_tick",
        "_wants_reserve",
    )

    def __init__(
        self, node: int, log: RaftLog, install: Callable[[Snapshot], StateReplaced]
    ) -> None:
        self._node = node
        self._log = log
        self._install = install
        self._waiting: list[Group] = []
        self._base: Snapshot | None = None
        self._running: LogJob | None = None
        self._waits_for_tick = False
        self._said_short = False
        self._wants_reserve = False

    @property
    def is_idle(self) -> bool:
        """Nothing is being written, and nothing that would have to be."""
        return self._running is None and not self._is_due()

    def add(self, groups: Sequence[Group], base: Snapshot | None = None) -> None:
        """Behind everything added before."""
        self._waiting.extend(groups)
        if base is not None:
            self._base = base

    def next_job(self) -> LogJob | None:
        """All that waits, if it is worth a sync and the disk is free."""
        if self._running is not None or self._waits_for_tick or not self._is_due():
            return None
        wants_reserve, self._wants_reserve = self._wants_reserve, False
        job = LogJob(self._log, self._waiting, self._base, restores_reserve=wants_reserve)
        self._waiting, self._base, self._running = [], None, job
        return job

    def _is_due(self) -> bool:
        if self._wants_reserve or self._base is not None:
            return True
        return any(group.needs_sync for group in self._waiting)

    def finish(self, job: LogJob) -> list[Event]:
        """The job has run: what the node has to hear, in this order."""
        assert job is self._running, "one job at a time"
        self._running = None
        if job.lost is not None:
            return [StorageLost(job.lost)]
        if job.is_disk_full:
            self._waiting[:0] = job.groups
            self._base = self._base or job.base
            self._waits_for_tick = True
            return self._report_space()
        try:
            events: list[Event] = [
                self._install(group.snapshot) for group in job.groups if group.snapshot is not None
            ]
        except SteleError as error:
            # The log has begun anew already, the state has not: the next start brings it up.
            return [StorageLost(f"an image could not be installed: {error}")]
        if job.groups:
            events.append(Persisted(job.groups[-1].number))
        return events + self._report_space()

    def _report_space(self) -> list[Event]:
        was_said, self._said_short = self._said_short, self._log.space_is_short
        return [SpaceShort(self._node)] if self._said_short and not was_said else []

    def tick(self) -> None:
        """Time has passed: perhaps somebody has made room. The next job tries to take the reserve
        again, which is more writing than a loop should do by itself."""
        self._waits_for_tick = False
        self._wants_reserve = self._said_short
