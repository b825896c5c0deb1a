"""The system calls a file system is made of, and what their errors mean.

``KernelFileSystem`` (in ``files``) is written once, over this protocol. The real kernel is in
``posix``; the in-memory one, which can crash and fail on demand, in ``memory_fs``. The loops that
complete short writes, the rules on failed syncs and the mapping of errors are thus the same code
in production and under fault injection.

Calls raise ``OSError`` with an ``errno``, as ``os`` does. They may do less than asked (short
writes and reads) but never raise for ``EINTR``: Python repeats the call itself (PEP 475).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from stele.errors import (
    AlreadyExists,
    DirectoryInUse,
    InvalidArgument,
    NotFound,
    OutOfSpace,
    SteleError,
    StorageFailed,
    TransientIoError,
    Unavailable,
)


class Kernel(Protocol):
    """Paths are validated and relative; a descriptor is a small number, as in POSIX."""

    def create(self, path: str) -> int:
        """A new file, open for writing; ``EEXIST`` if the name is taken."""

    def open_read(self, path: str) -> int:
        """An existing regular file, open for reading; never through a symbolic link."""

    def open_write(self, path: str) -> int:
        """Likewise, open for writing; what is in it stays."""

    def write(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        """Write at ``offset``; returns how many bytes were taken."""

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; empty only at the end of the file."""

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file to ``length``."""

    def allocate(self, descriptor: int, offset: int, length: int, filled: bool) -> None:
        """Have space for so many bytes from ``offset`` on; the file grows there by zeros.

        If it is ``filled``, the zeros are written, and not just what is read of unwritten space.
        """

    def sync(self, descriptor: int) -> None:
        """Make the file's bytes and length durable."""

    def size(self, descriptor: int) -> int:
        """The file's length."""

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""

    def open_dir(self, path: str) -> int:
        """A directory, open for syncing."""

    def sync_dir(self, descriptor: int) -> None:
        """Make a directory's entries durable."""

    def rename(self, source: str, target: str) -> None: ...

    def link(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """The names in a directory, in any order."""

    def mkdir(self, path: str) -> None:
        """One new directory; ``EEXIST`` if the name is taken by anything."""

    def is_dir(self, path: str) -> bool: ...

    def rmdir(self, path: str) -> None:
        """``ENOTEMPTY`` if anything is in it."""

    def free_bytes(self) -> int: ...

    def lock(self, path: str) -> int:
        """Lock a file, made if missing; ``EWOULDBLOCK`` if another holds it."""

    def unlock(self, descriptor: int) -> None:
        """Release the lock and close."""


class Purpose(Enum):
    """What a call was for: it decides what an unforeseen error means."""

    READ = "read"
    WRITE = "write"
    SYNC = "sync"


_MEANING: dict[int, type[SteleError]] = {
    errno.ENOENT: NotFound,
    errno.EEXIST: AlreadyExists,
    errno.ENOTEMPTY: AlreadyExists,
    errno.ENOSPC: OutOfSpace,
    errno.EDQUOT: OutOfSpace,
    errno.EFBIG: OutOfSpace,  # larger than the process or the file system allows
    errno.EISDIR: InvalidArgument,
    errno.ENOTDIR: InvalidArgument,
    errno.ELOOP: InvalidArgument,  # a symbolic link where a file of ours should be
    errno.ENAMETOOLONG: InvalidArgument,
    errno.EWOULDBLOCK: DirectoryInUse,  # only a lock can say so: files never block
    errno.EACCES: StorageFailed,  # no later try will help before somebody changes the mode
    errno.EPERM: StorageFailed,
    errno.EROFS: StorageFailed,
}


_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""To a writer the same as a full disk: nothing was made, and it goes on when there is room."""


def meaning(error: OSError, purpose: Purpose, action: str, path: str) -> SteleError:
    """Our error for one of the kernel's. A failed sync is always ``StorageFailed``."""
    reason = f"cannot {action} {path!r}: {error.strerror or error}"
    if purpose is Purpose.SYNC:
        return StorageFailed(f"{reason}; what is on disk is unknown until a restart")
    if error.errno in _NO_DESCRIPTORS:
        return (Unavailable if purpose is Purpose.READ else OutOfSpace)(reason)
    default = TransientIoError if purpose is Purpose.READ else StorageFailed
    return _MEANING.get(error.errno or 0, default)(reason)
