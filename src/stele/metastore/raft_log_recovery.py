"""Reading a member's log back after any kind of end.

Segments are read in the order of their numbers, back to the first gap: a file that was deleted may
reappear after a power failure, one that is needed cannot be missing without the entries telling.
Each segment says how much of its predecessor counts; only the last one may have a torn tail, and a
last one without a single sound frame was begun in vain.

A process that was killed leaves bytes that are visible but not durable. Whoever speaks of what it
read must be able to read it again after a power failure, so the last segment and the directory are
synced first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stele.env.paths import join
from stele.env.ports import FileSystem
from stele.errors import Corruption, NotFound
from stele.metastore.raft_log_format import (
    HOW_TO_REJOIN,
    Frame,
    LogIdentity,
    LogWrite,
    SegmentHead,
    damaged,
    read_segment,
    segment_name,
    segment_number,
)
from stele.raft import Entry, HardState, Snapshot, StoredState


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """What was found."""

    identity: LogIdentity
    stored: StoredState
    segments: tuple[tuple[int, int], ...]
    """Number, and the last entry that may still count, of each segment that is kept."""

    segment_next: int
    end: int
    """Where the last segment ends, as far as it counts."""

    sequence: int = 0
    """Of the last frame."""

    useless: tuple[str, ...] = ()
    """Files that may be deleted."""


@dataclass(slots=True)
class _Replay:
    """The log as it becomes, record by record."""

    base: Snapshot
    hard_state: HardState
    entries: list[Entry] = field(default_factory=list)

    def apply(self, write: LogWrite, file: str) -> None:
        if write.reset is not None:
            self.entries.clear()
            self.base = write.reset
        if write.entries:
            self._override(write.entries, file)
        if write.hard_state is not None:
            self.hard_state = write.hard_state
        if write.base is not None and write.base.index > self.base.index:
            self.base = write.base

    def _override(self, entries: tuple[Entry, ...], file: str) -> None:
        if self.entries:
            keep = entries[0].index - self.entries[0].index
            if keep > len(self.entries):
                last, first = self.entries[-1].index, entries[0].index
                raise damaged(f"entry {first} follows {last}", file, 0)
            del self.entries[max(keep, 0) :]
        self.entries.extend(entries)

    def finish(self, directory: str) -> StoredState:
        kept = [entry for entry in self.entries if entry.index > self.base.index]
        expected = self.base.index + 1
        if kept and kept[0].index != expected:
            reason = f"entries {expected} to {kept[0].index - 1} are gone"
            raise Corruption(f"{reason}; {HOW_TO_REJOIN}", file=directory)
        return StoredState(self.hard_state, self.base, tuple(kept))


def recover(files: FileSystem, directory: str) -> RecoveredLog:
    """Read the whole log. ``NotFound`` when there is none."""
    present = sorted(
        number for name in files.list(directory) if (number := segment_number(name)) is not None
    )
    if not present:
        raise nothing_found(directory)
    files.sync_dir(directory)
    row = [present[-1]]
    while row[0] - 1 in present:
        row.insert(0, row[0] - 1)
    return _recover_row(files, directory, row, [n for n in present if n < row[0]])


def _recover_row(
    files: FileSystem, directory: str, row: list[int], beside: list[int]
) -> RecoveredLog:
    useless = [segment_name(number) for number in beside]
    segments: list[tuple[int, list[Frame]]] = []
    end: int | None = None
    end_of_last = 0
    for number in reversed(row):
        file = join(directory, segment_name(number))
        if end is None:
            files.sync_file(file)
        frames, reached = read_segment(files.read_all(file), file, end)
        if not frames:
            if end is not None:
                raise damaged("the segment is empty", file, 0)
            useless.append(segment_name(number))
            continue
        if not segments:
            end_of_last = reached
        segments.insert(0, (number, frames))
        end = _head_of(frames).previous_end
    if not segments and row == [1]:
        raise nothing_found(directory)  # Creating it was cut short; it never promised anything.
    if not segments:
        raise Corruption(f"no segment can be read; {HOW_TO_REJOIN}", file=directory)
    return _replay(directory, segments, end_of_last, tuple(useless))


def nothing_found(directory: str) -> NotFound:
    """The error where no member has lived."""
    return NotFound(f"no raft log in {directory!r}: bootstrap a group or join one")


def _head_of(frames: list[Frame]) -> SegmentHead:
    head = frames[0].payload.head
    assert head is not None
    return head


def _replay(
    directory: str,
    segments: list[tuple[int, list[Frame]]],
    end: int,
    useless: tuple[str, ...],
) -> RecoveredLog:
    head = _head_of(segments[0][1])
    replay = _Replay(head.base, head.hard_state)
    last_indices: list[tuple[int, int]] = []
    sequence = segments[0][1][0].sequence - 1
    for number, frames in segments:
        file = join(directory, segment_name(number))
        _check_head(_head_of(frames), head.identity, number, file)
        if frames[0].sequence != sequence + 1:
            raise damaged(f"frame {frames[0].sequence} follows {sequence}", file, 0)
        highest = 0
        for frame in frames:
            for write in frame.payload.writes:
                replay.apply(write, file)
                highest = max([highest, *(entry.index for entry in write.entries[-1:])])
        sequence = frames[-1].sequence
        last_indices.append((number, highest))
    stored = replay.finish(directory)
    # A last segment that was begun in vain gives its number to the next: no gap may come about.
    following = segments[-1][0] + 1
    return RecoveredLog(
        head.identity, stored, tuple(last_indices), following, end, sequence, useless
    )


def _check_head(head: SegmentHead, identity: LogIdentity, number: int, file: str) -> None:
    if head.identity != identity or head.segment != number:
        raise damaged(
            f"segment {head.segment} of node {head.identity.node} of cluster "
            f"{head.identity.cluster!r} lies where segment {number} of node {identity.node} of "
            f"cluster {identity.cluster!r} belongs",
            file,
            0,
        )
