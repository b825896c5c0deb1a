"""A simulated machine that runs one Raft node: its disk, its state machine, its crashes.

The disk keeps what was synced. Writes that were handed over but not synced are lost in a crash from
some point on: a prefix of them may survive, as on a real device. Each survives whole or not at all,
because the log keeps it in one frame under a checksum; that a torn frame is taken for none is what
whole nodes show, on a disk that tears (``stele.sim.metastore_host``).

The state machine is a rolling digest of what was applied; it reaches the disk only with a
checkpoint or by luck, so that a restarted node often has to apply entries again, and sometimes
finds its state ahead of the commit index on disk.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from stele.raft import Entry, HardState, RaftConfig, RaftNode, Ready, Role, Snapshot, StoredState


@dataclass(frozen=True, slots=True)
class Image:
    """The whole state of the state machine after applying ``index``."""

    index: int
    digest: int

    def apply(self, entry: Entry) -> Image:
        """The state after one more entry."""
        assert entry.index == self.index + 1, f"applied {entry.index} after {self.index}"
        return Image(entry.index, zlib.crc32(entry.data, self.digest ^ entry.index))


EMPTY_IMAGE = Image(0, 0)


@dataclass(slots=True)
class Disk:
    """What a crash leaves."""

    hard: HardState
    snapshot: Snapshot
    entries: list[Entry]
    image: Image = EMPTY_IMAGE

    def write(self, ready: Ready, staged: dict[int, Image]) -> None:
        """Carry out the write of one Ready, as a whole."""
        if ready.snapshot is not None:
            self.snapshot = ready.snapshot
            self.entries.clear()
            self.image = staged.pop(ready.snapshot.index)
        if ready.entries:
            keep = ready.entries[0].index - self.snapshot.index - 1
            assert 0 <= keep <= len(self.entries), "a write leaves a hole in the log"
            self.entries[keep:] = ready.entries
        if ready.hard_state is not None:
            self.hard = ready.hard_state

    def checkpoint(self, snapshot: Snapshot, image: Image) -> None:
        """Make the state durable, then drop the log up to ``snapshot``."""
        del self.entries[: snapshot.index - self.snapshot.index]
        self.snapshot = snapshot
        self.image = image

    def holds(self, index: int, term: int) -> bool:
        """Whether this very entry is durable here, in the log or within the checkpoint."""
        offset = index - self.snapshot.index - 1
        if offset < 0:
            return True
        return offset < len(self.entries) and self.entries[offset].term == term


@dataclass(slots=True)
class Host:
    """One machine. ``core`` is None while it is down."""

    id: int
    disk: Disk
    core: RaftNode | None = None
    image: Image = EMPTY_IMAGE
    writes: deque[Ready] = field(default_factory=deque)
    syncing: bool = False
    staged: dict[int, Image] = field(default_factory=dict)
    life: int = 0
    """Counts the starts; events of an earlier life are void."""

    tick_ms: int = 10
    resumes_at_ms: int = 0
    """The process stands still until then."""

    @property
    def is_up(self) -> bool:
        return self.core is not None

    @property
    def leads(self) -> bool:
        """Whether it is up and thinks so."""
        return self.core is not None and self.core.state.role is Role.LEADER

    def start(self, config: RaftConfig, draw: Callable[[int], int]) -> None:
        """Begin a new life from the disk."""
        disk = self.disk
        self.image = disk.image
        stored = StoredState(disk.hard, disk.snapshot, tuple(disk.entries), disk.image.index)
        self.core = RaftNode(self.id, config, stored, draw)
        self.life += 1

    def crash(self, surviving_writes: int, *, state_survives: bool) -> int:
        """Lose everything in memory; how many writes were lost on the way to the disk."""
        lost = len(self.writes) - surviving_writes
        for _ in range(surviving_writes):
            self.disk.write(self.writes.popleft(), self.staged)
        if state_survives and self.image.index > self.disk.image.index:
            self.disk.image = self.image
        self.core = None
        self.writes.clear()
        self.staged.clear()
        self.syncing = False
        return lost

    def sync(self, count: int) -> list[Ready]:
        """The oldest ``count`` writes are durable now."""
        done = [self.writes.popleft() for _ in range(count)]
        for ready in done:
            self.disk.write(ready, self.staged)
            if ready.snapshot is not None:
                self.image = self.disk.image
        return done
