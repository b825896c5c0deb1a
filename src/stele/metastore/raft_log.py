"""The durable log of one member: entries, hard state, and where the log begins.

Segments are files that are written once, from their start to their end. A conflict is not cut out
of them: a later record overrides the entries from its first index on. ``append`` writes any number
of groups as one frame, ``sync`` makes it durable; they are apart so that a thread can do the
waiting, and they alternate: a frame is never begun before the one before it is durable. A log that
was opened continues in a new segment, which says how much of the last one counts, so a torn tail is
settled once and for all. A segment is longer than what is in it while it is written: its place is
taken some way ahead and filled with zeros, so that a sync has nothing to write down but the frame.
The zeros are no frame, and count for nothing.

A full disk: ``append`` leaves everything as it was and raises ``OutOfSpace``, and may be called
again with the same groups. Before it does so it gives up the reserve, a file whose only purpose is
to take up room: what is appended then are the entries that raise the alarm and free space. After
``StorageFailed`` nothing may be tried again.

One thread at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from stele.env.failpoints import declare, failpoint
from stele.env.paths import join
from stele.env.ports import TEMPORARY_SUFFIX, FileSystem, Random, WritableFile
from stele.errors import AlreadyExists, NotFound, OutOfSpace, SteleError, StorageFailed
from stele.metastore.events import Group
from stele.metastore.raft_log_format import (
    LogIdentity,
    LogWrite,
    Payload,
    SegmentHead,
    decode_frame,
    encode_frame,
    segment_name,
    segment_number,
)
from stele.metastore.raft_log_recovery import RecoveredLog, nothing_found, recover
from stele.raft import Snapshot, StoredState

MIB: Final = 1 << 20
MARK_BITS: Final = 64
JOINED_BYTES_MAX: Final = 16 * 1024
"""A body up to this size is copied behind its header: one buffer passes the kernel more quickly."""

RESERVE_FILE: Final = "reserve"

AFTER_SEGMENT_CREATE = declare("metastore.raft_log.after_segment_create")
AFTER_GO_AHEAD = declare("metastore.raft_log.after_go_ahead")
AFTER_WRITE = declare("metastore.raft_log.after_write")
AFTER_SYNC = declare("metastore.raft_log.after_sync")
AFTER_SYNC_DIR = declare("metastore.raft_log.after_sync_dir")
AFTER_SEGMENT_DELETE = declare("metastore.raft_log.after_segment_delete")
AFTER_RESERVE_DELETE = declare("metastore.raft_log.after_reserve_delete")


@dataclass(frozen=True, slots=True)
class RaftLogOptions:
    """Sizes in bytes."""

    segment_bytes: int = 16 * MIB
    """A segment that has reached this is closed. Smaller ones are freed sooner after a cut, larger
    ones cost fewer syncs of the directory."""

    reserve_bytes: int = 16 * MIB
    """Room for some thousand small entries on a disk that is full otherwise."""

    ahead_bytes: int = MIB // 2
    """So much of a segment is taken ahead of what is written, up to its end; with 0, nothing."""


@dataclass(slots=True)
class _Segment:
    number: int
    last_index: int
    """The last entry in it that may still count."""


class RaftLog:
    """Made by ``create`` or ``open``."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        random: Random,
        options: RaftLogOptions,
        recovered: RecoveredLog,
    ) -> None:
        self._files = files
        self._directory = directory
        self._random = random
        self._options = options
        self.identity = recovered.identity
        self.stored = recovered.stored
        """What the log held when it was opened; ``applied`` is the state machine's to say."""

        self.space_is_short = False
        """The reserve had to be given up."""

        self._hard_state = recovered.stored.hard_state
        self._base = recovered.stored.snapshot
        self._segments = [_Segment(*known) for known in recovered.segments]
        self._segment_next = recovered.segment_next
        self._previous_end = recovered.end
        self._sequence = recovered.sequence
        self._mark = 0
        self._file: WritableFile | None = None
        self._is_name_unsynced = False
        self._is_unsynced = False
        self._taken_bytes = 0
        """How long the present segment was made."""
        self._tail = ""
        """The last segment that was read, until one of our own follows it."""

    @classmethod
    def create(
        cls,
        files: FileSystem,
        directory: str,
        random: Random,
        identity: LogIdentity,
        stored: StoredState,
        options: RaftLogOptions | None = None,
    ) -> RaftLog:
        """A new member's log; ``AlreadyExists`` over any other. Durable on return."""
        files.mkdir(directory)
        _refuse_to_overwrite(files, directory)
        fresh = RecoveredLog(identity, StoredState(), segments=(), segment_next=1, end=0)
        log = cls(files, directory, random, options or RaftLogOptions(), fresh)
        log.stored = stored
        group = Group(0, stored.snapshot, stored.entries, stored.hard_state, needs_sync=True)
        log.append([group])
        log.sync()
        log.restore_reserve()
        return log

    @classmethod
    def open(
        cls,
        files: FileSystem,
        directory: str,
        random: Random,
        options: RaftLogOptions | None = None,
    ) -> RaftLog:
        """The log of a member that lived before. ``NotFound`` if none did; ``Corruption`` if its
        log cannot be trusted, and then it must not take part again."""
        if not files.exists(directory):
            raise nothing_found(directory)
        recovered = recover(files, directory)
        log = cls(files, directory, random, options or RaftLogOptions(), recovered)
        log._tidy(recovered.useless)
        log._tail = segment_name(recovered.segment_next - 1)
        log.restore_reserve()
        return log

    def _tidy(self, useless: Sequence[str]) -> None:
        leftovers = [n for n in self._files.list(self._directory) if n.endswith(TEMPORARY_SUFFIX)]
        for name in (*useless, *leftovers):
            self._files.delete(join(self._directory, name))

    # Writing.

    def append(self, groups: Sequence[Group], base: Snapshot | None = None) -> None:
        """Write the groups, and that the log up to ``base`` is dispensable, as one frame."""
        assert not self._is_unsynced, "the frame before must be durable first"
        writes = [LogWrite(g.snapshot, g.entries, g.hard_state) for g in groups]
        if base is not None:
            writes.append(LogWrite(base=base))
        try:
            self._write_frame(tuple(writes))
        except OutOfSpace:
            if not self._give_up_reserve():
                raise
            self._write_frame(tuple(writes))
        self._is_unsynced = True
        self._sequence += 1
        for write in writes:
            self._note(write)
        failpoint(AFTER_WRITE)

    def _write_frame(self, writes: tuple[LogWrite, ...]) -> None:
        file = self._file
        if file is None or file.position >= self._options.segment_bytes:
            self._begin_segment(writes)
            return
        header, body = encode_frame(Payload(writes), self._mark, self._sequence + 1)
        end = file.position + len(header) + len(body)
        if end > self._taken_bytes and self._options.ahead_bytes:
            self._go_ahead(file, end)
        if len(body) <= JOINED_BYTES_MAX:
            file.write(header + body)
        else:
            file.write(header, body)

    def _go_ahead(self, file: WritableFile, needed: int) -> None:
        """Make the segment long enough for the next frame, and for more."""
        end = min(needed + self._options.ahead_bytes, self._options.segment_bytes)
        self._taken_bytes = max(end, needed)
        file.reserve(self._taken_bytes, filled=True)
        failpoint(AFTER_GO_AHEAD)

    def _begin_segment(self, writes: tuple[LogWrite, ...]) -> None:
        number = self._segment_next
        old = self._file
        end = self._previous_end if old is None else old.position
        head = SegmentHead(self.identity, number, end, self._base, self._hard_state)
        path = join(self._directory, segment_name(number))
        mark = self._random.below(1 << MARK_BITS)
        file = self._files.create(path)
        failpoint(AFTER_SEGMENT_CREATE)
        if self._tail_has_grown():
            file.close()
            self._files.delete(path)
            raise _second_owner(self._tail)
        try:
            file.write(*encode_frame(Payload(writes, head), mark, self._sequence + 1))
        except OutOfSpace:
            file.close()
            self._files.delete(path)
            raise
        self._close_segment()
        self._file, self._mark = file, mark
        self._segment_next += 1
        self._segments.append(_Segment(number, self._base.index))
        self._is_name_unsynced = True

    def _note(self, write: LogWrite) -> None:
        if write.reset is not None:
            self._base = write.reset
            for segment in self._segments:
                segment.last_index = 0
        if write.entries:
            kept = write.entries[0].index - 1
            for segment in self._segments:
                segment.last_index = min(segment.last_index, kept)
            self._segments[-1].last_index = write.entries[-1].index
        if write.hard_state is not None:
            self._hard_state = write.hard_state
        if write.base is not None and write.base.index > self._base.index:
            self._base = write.base

    def sync(self) -> None:
        """Make durable what was appended. Leaves the GIL to others while it waits."""
        if self._file is None or not self._is_unsynced:
            return
        self._file.sync()
        failpoint(AFTER_SYNC)
        if self._is_name_unsynced:
            self._files.sync_dir(self._directory)
            self._is_name_unsynced = False
            failpoint(AFTER_SYNC_DIR)
        self._check_last()
        self._is_unsynced = False

    # A directory has one owner, by a lock. Should a file system lose that, two write here. Each
    # looks for the other behind its own step: the newcomer, once its segment has a name, whether
    # what it has read has grown; the old one, once its frame is durable, whether a segment follows.
    # Whatever the order, one of them sees the other before it speaks of what would be lost.

    def _tail_has_grown(self) -> bool:
        if self._file is not None or not self._tail:
            return False
        path = join(self._directory, self._tail)
        with self._files.open_read(path) as file:
            behind = file.pread(self._previous_end, max(file.size() - self._previous_end, 0))
        return decode_frame(memoryview(behind), 0, path) is not None

    def _check_last(self) -> None:
        name = segment_name(self._segment_next)
        if self._files.exists(join(self._directory, name)):
            raise _second_owner(name)

    def drop_dead_segments(self) -> int:
        """Delete the files nothing of which is needed any more; how many that were."""
        assert not self._is_unsynced, "what makes them dispensable must be durable first"
        dead = [s for s in self._segments[:-1] if s.last_index <= self._base.index]
        # Oldest first and without holes: recovery reads a row of numbers up to the last one.
        count = 0
        for segment, candidate in zip(self._segments[:-1], dead, strict=False):
            if segment is not candidate:
                break
            self._files.delete(join(self._directory, segment_name(segment.number)))
            failpoint(AFTER_SEGMENT_DELETE)
            count += 1
        del self._segments[:count]
        return count

    # Space.

    def _give_up_reserve(self) -> bool:
        path = join(self._directory, RESERVE_FILE)
        self.space_is_short = True
        if not self._files.exists(path):
            return False
        self._files.delete(path)
        failpoint(AFTER_RESERVE_DELETE)
        return True

    def restore_reserve(self) -> None:
        """Take the reserve (again) if the disk has twice the room; else leave it for later."""
        path = join(self._directory, RESERVE_FILE)
        wanted = self._options.reserve_bytes
        if self._files.exists(path):
            self.space_is_short = False
        elif self._files.free_bytes() >= 2 * wanted:
            with suppress(OutOfSpace):
                self._files.write_atomic(path, bytes(wanted))
                self.space_is_short = False

    def close(self) -> None:
        """Close without syncing. Idempotent."""
        self._close_segment()

    def _close_segment(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            if self._taken_bytes:
                with suppress(SteleError):  # what counts is durable; the rest only takes up room
                    file.trim()
            file.close()
        self._taken_bytes = 0


def _second_owner(name: str) -> StorageFailed:
    return StorageFailed(f"another process writes to this log, {name} shows: its lock was lost")


def _refuse_to_overwrite(files: FileSystem, directory: str) -> None:
    try:
        recover(files, directory)
    except NotFound:
        for name in files.list(directory):
            if segment_number(name) is not None:
                files.delete(join(directory, name))
    else:
        raise AlreadyExists(f"{directory!r} holds a raft log already: a member lives there")
