"""The in-memory file system: the same code as the real one, over a kernel that can crash and fail.

``MemoryFileSystem`` is ``KernelFileSystem`` over ``MemoryKernel``, which resolves paths, hands out
descriptors, injects faults and keeps its state in a ``Disk``.

    fs.crash_image(choice)   the file system found after a power failure (a new one)
    fs.restarted()           the file system as the next process sees it, this one being killed: all
                             bytes visible so far are still visible, synced or not
    fs.attached()            the file system as another living process sees it
    fs.disk                  what is synced and what is not, and the recorder of steps
    MemoryFileSystem(faults=…, capacity_bytes=…)
                             failing calls (``faults``), and a disk that is full at some point
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stele.env import paths
from stele.env.disk import ROOT, Choice, Directory, Disk, LoseUnsynced
from stele.env.failpoints import SimulatedCrash
from stele.env.faults import Call, Failure, Faults
from stele.env.files import KernelFileSystem
from stele.env.memory import SeededRandom

Result = TypeVar("Result")

UNLIMITED_BYTES = 1 << 50
_FIRST_DESCRIPTOR = 3

_REFUSALS = {
    Failure.EIO: errno.EIO,
    Failure.ENOSPC: errno.ENOSPC,
    Failure.EMFILE: errno.EMFILE,
}
"""Failures of calls that leave everything as it was."""


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@dataclass(frozen=True, slots=True)
class _Open:
    inode: int
    path: str


class MemoryKernel:
    """``Kernel`` of one process over a ``Disk``; threads and processes take turns on the disk.

    Once killed, it refuses every call with ``SimulatedCrash``: a dead process does nothing.
    """

    def __init__(self, disk: Disk, faults: Faults, capacity_bytes: int) -> None:
        self.disk = disk
        self.faults = faults
        self.capacity_bytes = capacity_bytes
        self._open: dict[int, _Open] = {}
        self._alive = True
        self._descriptor_next = _FIRST_DESCRIPTOR

    def kill(self) -> None:
        """End the process: its files are closed, its locks released."""
        with self.disk.mutex:
            self._alive = False
            for descriptor in list(self._open):
                self.close(descriptor)

    def _begin(self, call: Call) -> Failure | None:
        self._require_alive()
        return self.faults.next(call)

    def _require_alive(self) -> None:
        if not self._alive:
            raise SimulatedCrash("this process was killed")

    # Paths.

    def _find(self, path: str) -> int:
        inode = ROOT
        for name in path.split("/") if path else ():
            entry = self.disk.inodes[inode]
            if not isinstance(entry, Directory):
                raise _error(errno.ENOTDIR)
            if name not in entry.live:
                raise _error(errno.ENOENT)
            inode = entry.live[name]
        return inode

    def _find_parent(self, path: str) -> tuple[int, str]:
        inode = self._find(paths.parent(path))
        if not isinstance(self.disk.inodes[inode], Directory):
            raise _error(errno.ENOTDIR)
        return inode, paths.basename(path)

    def _find_file(self, path: str) -> int:
        inode = self._find(path)
        if isinstance(self.disk.inodes[inode], Directory):
            raise _error(errno.EISDIR)
        return inode

    def _find_free_name(self, path: str) -> tuple[int, str]:
        directory, name = self._find_parent(path)
        if path == "" or name in self.disk.directory(directory).live:
            raise _error(errno.EEXIST)
        return directory, name

    # Faults.

    def _perform(self, call: Call, effect: Callable[[], Result]) -> Result:
        """Take one call, or fail it as planned."""
        with self.disk.mutex:
            failure = self._begin(call)
            if failure is not None and failure in _REFUSALS:
                raise _error(_REFUSALS[failure])
            result = effect()
            if failure is Failure.EIO_AFTER:
                raise _error(errno.EIO)
            return result

    # Open files.

    def _descriptor(self, inode: int, path: str) -> int:
        descriptor, self._descriptor_next = self._descriptor_next, self._descriptor_next + 1
        self._open[descriptor] = _Open(inode, path)
        self.disk.open(inode)
        return descriptor

    def create(self, path: str) -> int:
        def effect() -> int:
            directory, name = self._find_free_name(path)
            return self.disk.make(directory, name, False, path)

        with self.disk.mutex:
            return self._descriptor(self._perform(Call.CREATE, effect), path)

    def open_read(self, path: str) -> int:
        return self._perform(Call.OPEN, lambda: self._descriptor(self._find_file(path), path))

    def open_write(self, path: str) -> int:
        def effect() -> int:
            inode = self._find_file(path)
            self.disk.reuse(inode, path)
            return self._descriptor(inode, path)

        return self._perform(Call.OPEN, effect)

    def open_dir(self, path: str) -> int:
        def effect() -> int:
            inode = self._find(path)
            if not isinstance(self.disk.inodes[inode], Directory):
                raise _error(errno.ENOTDIR)
            return self._descriptor(inode, path)

        return self._perform(Call.OPEN, effect)

    def close(self, descriptor: int) -> None:
        with self.disk.mutex:
            closing = self._open.pop(descriptor, None)
            if closing is not None:
                self.disk.close(closing.inode)
                if self.disk.locks.get(closing.inode) == (id(self), descriptor):
                    del self.disk.locks[closing.inode]

    def size(self, descriptor: int) -> int:
        with self.disk.mutex:
            self._require_alive()
            return len(self.disk.file(self._open[descriptor].inode).live)

    def write(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        with self.disk.mutex:
            failure = self._begin(Call.WRITE)
            target = self._open[descriptor]
            data = b"".join(buffers)
            wanted = len(data) if failure in (None, Failure.EIO_AFTER) else (len(data) + 1) // 2
            taken = min(wanted, self.free_bytes())
            if taken:
                self.disk.write(target.inode, offset, data[:taken], target.path)
            if failure in (Failure.EIO, Failure.EIO_AFTER):
                raise _error(errno.EIO)
            if failure is Failure.ENOSPC or not taken:
                raise _error(errno.ENOSPC)
            return taken

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        with self.disk.mutex:
            failure = self._begin(Call.READ)
            if failure is Failure.EIO:
                raise _error(errno.EIO)
            live = self.disk.file(self._open[descriptor].inode).live
            data = bytes(live[offset : offset + length])
            return data[: (len(data) + 1) // 2] if failure is Failure.SHORT else data

    def truncate(self, descriptor: int, length: int) -> None:
        def effect() -> None:
            target = self._open[descriptor]
            self.disk.cut(target.inode, length, target.path)

        self._perform(Call.CUT, effect)

    def allocate(self, descriptor: int, offset: int, length: int, filled: bool) -> None:  # noqa: ARG002
        def effect() -> None:
            target = self._open[descriptor]
            grown = offset + length - len(self.disk.file(target.inode).live)
            if grown > self.free_bytes():
                raise _error(errno.ENOSPC)
            if grown > 0:
                self.disk.grow(target.inode, offset + length, target.path)

        self._perform(Call.ALLOCATE, effect)

    def sync(self, descriptor: int) -> None:
        self._sync(Call.SYNC, descriptor)

    def sync_dir(self, descriptor: int) -> None:
        self._sync(Call.SYNC_DIR, descriptor)

    def _sync(self, call: Call, descriptor: int) -> None:
        with self.disk.mutex:
            failure = self._begin(call)
            target = self._open[descriptor]
            if failure is Failure.EIO:
                self.disk.fail_sync(target.inode, target.path)
                raise _error(errno.EIO)
            self.disk.sync(target.inode, target.path)
            if failure is Failure.EIO_AFTER:
                raise _error(errno.EIO)

    # Names.

    def rename(self, source: str, target: str) -> None:
        def effect() -> None:
            inode = self._find_file(source)
            old_directory, old = self._find_parent(source)
            new_directory, new = self._find_parent(target)
            replaced = self.disk.directory(new_directory).live.get(new)
            if replaced is not None and isinstance(self.disk.inodes[replaced], Directory):
                raise _error(errno.EISDIR)
            if replaced != inode:
                self.disk.rename(old_directory, old, new_directory, new, f"{source} → {target}")

        self._perform(Call.RENAME, effect)

    def link(self, source: str, target: str) -> None:
        def effect() -> None:
            inode = self._find_file(source)
            directory, name = self._find_free_name(target)
            self.disk.link(directory, name, inode, target)

        self._perform(Call.LINK, effect)

    def unlink(self, path: str) -> None:
        def effect() -> None:
            self._find_file(path)
            self.disk.unlink(*self._find_parent(path), path)

        self._perform(Call.DELETE, effect)

    def exists(self, path: str) -> bool:
        def effect() -> bool:
            try:
                self._find(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

        return self._perform(Call.STAT, effect)

    def is_dir(self, path: str) -> bool:
        def effect() -> bool:
            return isinstance(self.disk.inodes[self._find(path)], Directory)

        return self._perform(Call.STAT, effect)

    def list(self, path: str) -> list[str]:
        def effect() -> list[str]:
            entry = self.disk.inodes[self._find(path)]
            if not isinstance(entry, Directory):
                raise _error(errno.ENOTDIR)
            return [*entry.live]

        return self._perform(Call.LIST, effect)

    def mkdir(self, path: str) -> None:
        def effect() -> None:
            self.disk.make(*self._find_free_name(path), True, path)

        self._perform(Call.MKDIR, effect)

    def rmdir(self, path: str) -> None:
        def effect() -> None:
            inode = self._find(path)
            entry = self.disk.inodes[inode]
            if not isinstance(entry, Directory):
                raise _error(errno.ENOTDIR)
            if entry.live or inode == ROOT:
                raise _error(errno.ENOTEMPTY)
            self.disk.unlink(*self._find_parent(path), path)

        self._perform(Call.RMDIR, effect)

    # Space and locks.

    def free_bytes(self) -> int:
        return max(0, self.capacity_bytes - self.disk.used_bytes)

    def lock(self, path: str) -> int:
        def effect() -> int:
            directory, name = self._find_parent(path)
            inode = self.disk.directory(directory).live.get(name)
            if inode is None:
                inode = self.disk.make(directory, name, False, path)
            if inode in self.disk.locks:
                raise _error(errno.EWOULDBLOCK)
            descriptor = self._descriptor(inode, path)
            self.disk.locks[inode] = (id(self), descriptor)
            return descriptor

        return self._perform(Call.LOCK, effect)

    def unlock(self, descriptor: int) -> None:
        self.close(descriptor)


class MemoryFileSystem(KernelFileSystem):
    """``FileSystem`` in memory, with power failures, faults and a limited size."""

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        faults: Faults | None = None,
        capacity_bytes: int = UNLIMITED_BYTES,
        seed: int = 0,
    ) -> None:
        self.disk = disk or Disk()
        self.faults = faults or Faults()
        self._seed = seed
        self._descendants = 0
        self._memory_kernel = MemoryKernel(self.disk, self.faults, capacity_bytes)
        super().__init__(self._memory_kernel, SeededRandom(seed))

    @property
    def capacity_bytes(self) -> int:
        return self._memory_kernel.capacity_bytes

    @capacity_bytes.setter
    def capacity_bytes(self, capacity_bytes: int) -> None:
        self._memory_kernel.capacity_bytes = capacity_bytes

    def crash_image(self, choice: Choice | None = None) -> MemoryFileSystem:
        """What is found after a power failure now; without a choice, all that is unsynced is gone.

        Neither this file system nor its plan of faults is touched; the image has no faults.
        """
        return self._another(self.disk.crash(choice or LoseUnsynced()))

    def restarted(self) -> MemoryFileSystem:
        """Kill this process, and see the same disk as the next one does."""
        self._memory_kernel.kill()
        return self.attached()

    def attached(self) -> MemoryFileSystem:
        """The same disk as another living process sees it: one truth, other locks and faults."""
        return self._another(self.disk)

    def _another(self, disk: Disk) -> MemoryFileSystem:
        # Another seed: a new process must not choose the temporary names of the old one again.
        self._descendants += 1
        seed = hash((self._seed, self._descendants))
        return MemoryFileSystem(disk, capacity_bytes=self.capacity_bytes, seed=seed)
