"""A disk in memory that knows what a power failure may take.

The disk is a table of inodes. Each file keeps what is visible (``live``) apart from what is synced;
each directory keeps its visible entries apart from its synced ones. What lies between, the pending
changes, survives a power failure in part:

* of a file, any mixture of sector versions and any length it has had (see ``unsynced``);
* of a directory, any subset of the pending changes, applied in order. A rename inside one directory
  is one change, kept or lost as a whole; across two directories it is two changes, and each
  directory has to be synced for its own;
* a file that is synced but whose name is not: gone.

A failed sync leaves the disk lying. The kernel has marked the pages clean, so later syncs of that
file or directory succeed and do nothing: what is pending stays pending for ever, also after the
process has been restarted. Only a power failure tells.

``crash`` builds the disk found after a power failure, in which everything is synced. Contents are
shared, not copied, so that an image costs little more than its dirty files.

Every change can be recorded as a ``Step`` and replayed on a copy of the disk it started from: that
is how crash states are enumerated (``stele.sim.crash``).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Protocol

from stele.env.unsynced import Change, UnsyncedFile

ROOT = 1
COLLECT_AFTER_UNLINKS = 64

Entries = tuple[tuple[str, "int | None"], ...]
"""One change of a directory: names and the inode each now means, None for no longer."""


@dataclass(slots=True)
class File:
    """``live[:synced_length]`` is synced and never changes; ``changes`` made the rest.

    A file may be longer than what was written into it: up to its end follows what is ``stale``, in
    a file that is written once more, and then zeros. The first ``synced_behind`` bytes of that are
    synced.
    """

    live: bytes | bytearray = b""
    synced_length: int = 0
    written_length: int = 0
    synced_behind: int = 0
    stale: bytes = b""
    """What the file held when it was taken to be written once more, as far as it was not cut."""
    cut_length: int = 0
    """How long it was at its shortest since it was last synced, if that is less than is stale."""
    changes: list[Change] = dataclass_field(default_factory=list)
    lying: bool = False
    links: int = 0
    handles: int = 0
    frozen: bytes | None = None
    unsynced: UnsyncedFile | None = None

    def freeze(self) -> bytes:
        """The visible contents, as one object for as long as they stay the same."""
        if self.frozen is None:
            self.frozen = bytes(self.live)
        return self.frozen

    def pending(self) -> UnsyncedFile:
        """What may be left of this file."""
        if self.unsynced is None:
            end = self.synced_length + self.synced_behind
            synced = bytes(self.live[: self.synced_length]) + self.stale[self.synced_length : end]
            self.unsynced = UnsyncedFile(synced, self.changes, end - len(synced))
        return self.unsynced

    def copy(self) -> File:
        """A twin that nobody has open."""
        return File(
            self.freeze(),
            self.synced_length,
            self.written_length,
            self.synced_behind,
            self.stale,
            self.cut_length,
            [*self.changes],
            self.lying,
            self.links,
        )

    def reuse(self) -> None:
        """Begin again at the start; all that is in the file is stale."""
        assert not self.changes, "what is pending would be taken for what is written now"
        self.stale = self.freeze()
        self.cut_length = self.synced_behind = len(self.stale)
        self.synced_length = self.written_length = 0

    def change(self, change: Change) -> None:
        if isinstance(self.live, bytes):
            self.live = bytearray(self.live)
        if change.data:
            self.live[change.offset : change.offset + len(change.data)] = change.data
            self.written_length = max(self.written_length, change.offset + len(change.data))
        del self.live[change.end :]
        self.live.extend(bytes(change.end - len(self.live)))
        self.written_length = min(self.written_length, change.end)
        self.cut_length = min(self.cut_length, change.end)
        self.changes.append(change)
        self.frozen = self.unsynced = None

    def settle(self) -> None:
        if not self.lying:
            self.synced_length = self.written_length
            self.synced_behind = len(self.live) - self.written_length
            self.stale = self.stale[: self.cut_length]
            self.changes = []
            self.unsynced = None


@dataclass(slots=True)
class Directory:
    """``synced`` with all ``changes`` applied is ``live``."""

    live: dict[str, int] = dataclass_field(default_factory=dict)
    synced: dict[str, int] = dataclass_field(default_factory=dict)
    changes: list[Entries] = dataclass_field(default_factory=list)
    lying: bool = False

    def copy(self) -> Directory:
        return Directory(dict(self.live), dict(self.synced), [*self.changes], self.lying)

    def change(self, entries: Entries) -> None:
        _apply(self.live, entries)
        self.changes.append(entries)

    def settle(self) -> None:
        if not self.lying:
            self.synced = dict(self.live)
            self.changes = []

    def surviving(self, kept: int) -> dict[str, int]:
        """The entries after a power failure; bit ``i`` of ``kept`` keeps change ``i``."""
        if kept == (1 << len(self.changes)) - 1:
            return self.live
        entries = dict(self.synced)
        for number, change in enumerate(self.changes):
            if kept >> number & 1:
                _apply(entries, change)
        return entries


def _apply(entries: dict[str, int], change: Entries) -> None:
    for name, inode in change:
        if inode is None:
            entries.pop(name, None)
        else:
            entries[name] = inode


class Choice(Protocol):
    """Decides what a power failure leaves of each file and directory with unsynced changes."""

    def contents(self, inode: int, file: UnsyncedFile) -> bytes:
        """One of the contents the file may have."""

    def entries(self, inode: int, changes: int) -> int:
        """Which of that many changes of a directory are kept, as bits."""


class LoseUnsynced:
    """Everything that was not synced is gone."""

    def contents(self, inode: int, file: UnsyncedFile) -> bytes:  # noqa: ARG002
        return file.after(0)

    def entries(self, inode: int, changes: int) -> int:  # noqa: ARG002
        return 0


class KeepUnsynced:
    """Everything happened to be written back in time."""

    def contents(self, inode: int, file: UnsyncedFile) -> bytes:  # noqa: ARG002
        return file.after(-1)

    def entries(self, inode: int, changes: int) -> int:  # noqa: ARG002
        return (1 << changes) - 1


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded change of a disk: the method of ``Disk`` and its arguments."""

    name: str
    arguments: tuple[object, ...]
    path: str

    def __str__(self) -> str:
        data = next((a for a in self.arguments if isinstance(a, bytes)), None)
        size = "" if data is None else f" of {len(data)} bytes"
        return f"{self.name}{size} {self.path!r}"


class Disk:
    """Inodes and their pending changes. Knows no paths but those its steps are labelled with."""

    def __init__(self) -> None:
        self.inodes: dict[int, File | Directory] = {ROOT: Directory()}
        self.used_bytes = 0
        self.steps: list[Step] | None = None
        self.mutex = threading.RLock()
        self.locks: dict[int, tuple[int, int]] = {}
        self._inode_next = ROOT + 1
        self._unlinks = 0

    def file(self, inode: int) -> File:
        file = self.inodes[inode]
        assert isinstance(file, File), inode
        return file

    def directory(self, inode: int) -> Directory:
        directory = self.inodes[inode]
        assert isinstance(directory, Directory), inode
        return directory

    # The steps. Each is recorded, and deterministic given the steps before it.

    def make(self, directory: int, name: str, is_dir: bool, path: str) -> int:
        """A new file or directory under a new name."""
        self._record("make", (directory, name, is_dir), path)
        inode, self._inode_next = self._inode_next, self._inode_next + 1
        self.inodes[inode] = Directory() if is_dir else File()
        self._set_entries(directory, ((name, inode),))
        return inode

    def write(self, inode: int, offset: int, data: bytes, path: str) -> None:
        """Put bytes at an offset at or behind the synced end."""
        self._record("write", (inode, offset, data), path)
        file = self.file(inode)
        assert file.synced_length <= offset <= file.written_length, "files are only appended to"
        end = max(len(file.live), offset + len(data))
        self.used_bytes += end - len(file.live)
        file.change(Change(offset, data, end))

    def reuse(self, inode: int, path: str) -> None:
        """Write a file from its start once more; what is in it stays behind what is written."""
        self._record("reuse", (inode,), path)
        self.file(inode).reuse()

    def grow(self, inode: int, length: int, path: str) -> None:
        """Lengthen a file by zeros."""
        self._record("grow", (inode, length), path)
        file = self.file(inode)
        assert length >= len(file.live), "growing does not shorten"
        self.used_bytes += length - len(file.live)
        file.change(Change(len(file.live), b"", length))

    def cut(self, inode: int, length: int, path: str) -> None:
        """Shorten a file, but not below what is synced."""
        self._record("cut", (inode, length), path)
        file = self.file(inode)
        assert file.synced_length <= length <= len(file.live), "synced bytes are never cut"
        self.used_bytes -= len(file.live) - length
        file.change(Change(length, b"", length))

    def sync(self, inode: int, path: str) -> None:
        """Make all pending changes of a file or directory durable."""
        self._record("sync", (inode,), path)
        self.inodes[inode].settle()

    def fail_sync(self, inode: int, path: str) -> None:
        """A sync that failed: nothing pending will ever be made durable by another."""
        self._record("fail_sync", (inode,), path)
        self.inodes[inode].lying = True

    def link(self, directory: int, name: str, inode: int, path: str) -> None:
        """Another name for a file, replacing whatever had it."""
        self._record("link", (directory, name, inode), path)
        self._set_entries(directory, ((name, inode),))

    def unlink(self, directory: int, name: str, path: str) -> None:
        """Take a name away, of a file or an empty directory."""
        self._record("unlink", (directory, name), path)
        self._set_entries(directory, ((name, None),))
        self._collect_sometimes()

    def rename(self, source: int, old: str, target: int, new: str, path: str) -> None:
        """Move a name, replacing whatever had the new one."""
        self._record("rename", (source, old, target, new), path)
        inode = self.directory(source).live[old]
        if source == target:
            self._set_entries(source, ((old, None), (new, inode)) if old != new else ())
        else:
            self._set_entries(target, ((new, inode),))
            self._set_entries(source, ((old, None),))
        self._collect_sometimes()

    def _record(self, name: str, arguments: tuple[object, ...], path: str) -> None:
        if self.steps is not None:
            self.steps.append(Step(name, arguments, path))

    def replay(self, step: Step) -> None:
        """Take a recorded step again, on a copy of the disk it was recorded on."""
        self._unlinks = 0  # handles are not recorded, so nothing may be collected here
        getattr(self, step.name)(*step.arguments, step.path)

    # Links, handles and space.

    def _set_entries(self, inode: int, entries: Entries) -> None:
        directory = self.directory(inode)
        before = [directory.live.get(name) for name, _inode in entries]
        directory.change(entries)
        for _name, new in entries:
            if new is not None:
                self._hold(new, links=1)
        for old in before:
            if old is not None:
                self._hold(old, links=-1)

    def open(self, inode: int) -> None:
        """A handle keeps the space of a file whose last name is deleted."""
        self._hold(inode, handles=1)

    def close(self, inode: int) -> None:
        self._hold(inode, handles=-1)

    def _hold(self, inode: int, links: int = 0, handles: int = 0) -> None:
        file = self.inodes[inode]
        if isinstance(file, File):
            was_held = file.links + file.handles > 0
            file.links += links
            file.handles += handles
            if was_held and file.links + file.handles == 0:
                self.used_bytes -= len(file.live)

    def _collect_sometimes(self) -> None:
        """Forget now and then the inodes that no name, synced or pending, leads to."""
        self._unlinks += 1
        if self._unlinks >= COLLECT_AFTER_UNLINKS:
            self._unlinks = 0
            reachable = {ROOT}
            for inode, entry in self.inodes.items():
                if isinstance(entry, Directory):
                    reachable.update(entry.live.values(), entry.synced.values())
                    reachable.update(i for change in entry.changes for _, i in change if i)
                elif entry.handles:
                    reachable.add(inode)
            self.inodes = {i: entry for i, entry in self.inodes.items() if i in reachable}

    # Power failure.

    def copy(self) -> Disk:
        """An independent disk with the same contents and the same pending changes."""
        twin = Disk()
        twin.inodes = {inode: entry.copy() for inode, entry in self.inodes.items()}
        twin.used_bytes = self.used_bytes
        twin._inode_next = self._inode_next
        return twin

    def crash(self, choice: Choice) -> Disk:
        """The disk found after a power failure now. This one is not changed."""
        image = Disk()
        image.inodes = {}
        image._inode_next = self._inode_next
        self._survive(ROOT, choice, image)
        return image

    def _survive(self, inode: int, choice: Choice, image: Disk) -> None:
        entry = self.inodes[inode]
        if isinstance(entry, File):
            content = choice.contents(inode, entry.pending()) if entry.changes else entry.freeze()
            image.inodes[inode] = File(content, len(content), len(content), frozen=content, links=1)
            image.used_bytes += len(content)
            return
        kept = choice.entries(inode, len(entry.changes)) if entry.changes else 0
        entries = entry.surviving(kept)
        image.inodes[inode] = Directory(dict(entries), dict(entries))
        for child in entries.values():
            known = image.inodes.get(child)
            if known is None:
                self._survive(child, choice, image)
            elif isinstance(known, File):
                known.links += 1

    def dirty(self) -> list[int]:
        """The inodes with unsynced changes, in order of their making."""
        return [inode for inode, entry in self.inodes.items() if entry.changes]

    def fingerprint(self, inode: int = ROOT) -> int:
        """A hash of all visible names and contents; equal disks have equal ones."""
        entry = self.inodes[inode]
        if isinstance(entry, File):
            return hash(entry.freeze())
        return hash(
            frozenset((name, self.fingerprint(child)) for name, child in entry.live.items())
        )
