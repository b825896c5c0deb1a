"""The real file system: a directory of a Linux machine.

Files are opened with ``O_NOFOLLOW``, so that a symbolic link planted in the data directory is an
error and not a way out of it, and with ``O_CLOEXEC``. Directories are made with mode 0700, files
with 0600. Bytes are synced with ``fdatasync``, which also writes the length when it has grown;
directories with ``fsync``.

A lock is ``flock``: it belongs to the open file, so it goes when the process dies, however it dies.
A forked child shares the parent's open file; it closes its copy right after the fork, or it would
keep the directory locked after the parent's death.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import weakref
from collections.abc import Sequence

from stele.env.files import KernelFileLock, KernelFileSystem
from stele.env.kernel import Purpose, meaning
from stele.env.real import SystemRandom
from stele.errors import StorageFailed

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600

_COMMON_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW

_ZEROS = memoryview(bytes(64 * 1024))


class PosixKernel:
    """``Kernel``, by the machine's own. ``root`` is an existing directory."""

    def __init__(self, root: str) -> None:
        self.root = root

    def _absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def create(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON_FLAGS
        return os.open(self._absolute(path), flags, FILE_MODE)

    def open_read(self, path: str) -> int:
        return self._open_file(path, os.O_RDONLY)

    def open_write(self, path: str) -> int:
        return self._open_file(path, os.O_WRONLY)

    def _open_file(self, path: str, mode: int) -> int:
        descriptor = os.open(self._absolute(path), mode | os.O_NONBLOCK | _COMMON_FLAGS)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EISDIR, "Not a regular file")

    def write(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        return os.pwritev(descriptor, buffers, offset)

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        return os.pread(descriptor, length, offset)

    def truncate(self, descriptor: int, length: int) -> None:
        os.ftruncate(descriptor, length)

    def allocate(self, descriptor: int, offset: int, length: int, filled: bool) -> None:
        os.posix_fallocate(descriptor, offset, length)
        end = offset + length
        while filled and offset < end:
            offset += os.pwrite(descriptor, _ZEROS[: end - offset], offset)

    def sync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def open_dir(self, path: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | _COMMON_FLAGS
        return os.open(self._absolute(path), flags)

    def sync_dir(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def rename(self, source: str, target: str) -> None:
        os.rename(self._file(source), self._absolute(target))

    def link(self, source: str, target: str) -> None:
        os.link(self._file(source), self._absolute(target), follow_symlinks=False)

    def _file(self, path: str) -> str:
        """What is to get another name: of a directory nobody could say what is durable then."""
        absolute = self._absolute(path)
        if stat.S_ISDIR(os.lstat(absolute).st_mode):
            raise OSError(errno.EISDIR, "Is a directory")
        return absolute

    def unlink(self, path: str) -> None:
        os.unlink(self._absolute(path))

    def exists(self, path: str) -> bool:
        try:
            os.lstat(self._absolute(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list(self, path: str) -> list[str]:
        return os.listdir(self._absolute(path))

    def mkdir(self, path: str) -> None:
        os.mkdir(self._absolute(path), DIRECTORY_MODE)

    def is_dir(self, path: str) -> bool:
        return stat.S_ISDIR(os.lstat(self._absolute(path)).st_mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self._absolute(path))

    def free_bytes(self) -> int:
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize

    def lock(self, path: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | _COMMON_FLAGS
        descriptor = os.open(self._absolute(path), flags, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def unlock(self, descriptor: int) -> None:
        # Unlock before closing: a child between fork and exec may still hold the open file.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


class PosixFileSystem(KernelFileSystem):
    """``FileSystem`` on a directory, which is made if it is missing."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        path = os.path.realpath(root)
        try:
            _make_root(path)
        except OSError as error:
            raise meaning(error, Purpose.WRITE, "make directory", path) from error
        super().__init__(PosixKernel(path), SystemRandom())
        self.root = path

    def lock_exclusive(self, path: str) -> KernelFileLock:
        try:
            lock = super().lock_exclusive(path)
        except StorageFailed as error:  # whoever reads it knows no file of that name
            raise StorageFailed(f"directory {self.root!r}: {error}") from error
        _held_locks.add(lock)
        return lock


def _make_root(path: str) -> None:
    """Make the directory and its missing parents, each durable in the one above it."""
    above = os.path.dirname(path)
    if not os.path.isdir(path):
        _make_root(above)
        os.mkdir(path, DIRECTORY_MODE)
        descriptor = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_held_locks: weakref.WeakSet[KernelFileLock] = weakref.WeakSet()


def _close_inherited_locks() -> None:
    for lock in list(_held_locks):
        lock.abandon()
    _held_locks.clear()


os.register_at_fork(after_in_child=_close_inherited_locks)
