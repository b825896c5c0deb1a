"""Groups on their way to the disk: what piles up while a sync runs goes out with the next one.

The worker decides what is written together; a ``LogJob`` does the writing, in a thread if need be,
one job at a time. ``finish`` then says what the node is to be told:

    add ──▶ waiting ──next_job──▶ job.run() ──finish──▶ Persisted
                ▲                    │
                └── the disk is full ┘  (all or nothing was written: tried again after a tick)

A group that carries a snapshot begins the log anew. The image is made the state *after* that is
durable and before anything is reported; a crash in between leaves a log that begins behind the
state, and the image to bring it up (``snapshots.recover_state``). The job puts the image beside the
state, however long that takes; ``finish`` only switches to it, and the next job removes what was
before. Until then nothing else is written, so the node neither votes nor acknowledges, but hears
and answers heartbeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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
from stele.metastore.snapshots import Installation
from stele.raft import Snapshot


class Installer(Protocol):
    """Who makes images the state."""

    def stage(self, snapshot: Snapshot) -> Installation:
        """Put an image beside the state; in the job's thread."""

    def adopt(self, installation: Installation) -> StateReplaced:
        """Make it the state; in the node's thread."""


class LogJob:
    """One frame. ``run`` never raises for what the disk does; ``finish`` reads the outcome."""

    __slots__ = (
        "_installer",
        "_log",
        "_retires",
        "base",
        "entries",
        "groups",
        "has_slow_work",
        "installation",
        "is_disk_full",
        "lost",
        "restores_reserve",
    )

    def __init__(
        self,
        log: RaftLog,
        installer: Installer,
        groups: list[Group],
        base: Snapshot | None,
        *,
        restores_reserve: bool,
        retires: Installation | None,
    ) -> None:
        self._log = log
        self._installer = installer
        self.groups = groups
        self.base = base
        self.restores_reserve = restores_reserve
        self._retires = retires
        self.installation: Installation | None = None
        """The last image of the groups, once it lies beside the state."""
        self.is_disk_full = False
        self.lost: str | None = None
        self.entries = sum([len(group.entries) for group in groups])
        self.has_slow_work = retires is not None or _last_snapshot(groups) is not None
        """Whether there is more to do than to write and to sync: an image may take minutes."""

    def run(self) -> None:
        """Write and sync. Takes as long as the disk takes."""
        self.write()
        self.sync()
        if self.has_slow_work:
            self.do_slow_work()

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

    def do_slow_work(self) -> None:
        """Images: remove what the last one replaced, then put the next one beside the state."""
        try:
            if self._retires is not None:
                self._retires.retire()
                self._retires = None
            if self.is_disk_full or self.lost is not None:
                return
            snapshot = _last_snapshot(self.groups)
            if snapshot is not None:
                self.installation = self._installer.stage(snapshot)
        except SteleError as error:
            # The log has begun anew already, the state has not: the next start brings it up.
            self.lost = f"an image could not be installed: {error}"


def _last_snapshot(groups: Sequence[Group]) -> Snapshot | None:
    found: Snapshot | None = None
    for group in groups:
        found = group.snapshot or found
    return found


class LogWorker:
    """``installer`` makes the image of a snapshot the state."""

    __slots__ = (
        "_base",
        "_installer",
        "_log",
        "_node",
        "_retires",
        "_running",
        "_said_short",
        "_waiting",
        "_waits_for_tick",
        "_wants_reserve",
    )

    def __init__(self, node: int, log: RaftLog, installer: Installer) -> None:
        self._node = node
        self._log = log
        self._installer = installer
        self._retires: Installation | None = None
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
        retires, self._retires = self._retires, None
        job = LogJob(
            self._log,
            self._installer,
            self._waiting,
            self._base,
            restores_reserve=wants_reserve,
            retires=retires,
        )
        self._waiting, self._base, self._running = [], None, job
        return job

    def _is_due(self) -> bool:
        if self._wants_reserve or self._base is not None or self._retires is not None:
            return True
        for group in self._waiting:  # noqa: SIM110 - asked for every turn
            if group.needs_sync:
                return True
        return False

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
        events: list[Event] = []
        if job.installation is not None:
            events.append(self._installer.adopt(job.installation))
            self._retires = job.installation
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
