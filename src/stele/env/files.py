"""The file system over a kernel: completes short calls, maps errors, keeps the promises.

Three rules of the port live here and nowhere else:

*A write is all or nothing.* When the disk fills up in the middle, the part that got through is cut
off again, so that the next write continues where the last complete one ended.

*A failed sync is final.* Linux marks the pages clean when writing them back failed, so a second
``fsync`` reports success for bytes that never reached the disk. The handle, and the path for
``sync_file`` and ``sync_dir``, refuse to sync ever after.

*A name appears only with its contents.* ``write_atomic`` and ``create_exclusive`` write a temporary
file, sync it, give it its name in one step, and sync the directory. The loser of a
``create_exclusive`` syncs the directory too before it reports: it will act on the winner's file,
which must not vanish in a later crash and let somebody else win.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from stele.env import paths
from stele.env.failpoints import declare, failpoint
from stele.env.kernel import Kernel, Purpose, meaning
from stele.env.ports import TEMPORARY_SUFFIX, Random
from stele.errors import AlreadyExists, OutOfSpace, SteleError, StorageFailed

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Result = TypeVar("Result")

BUFFERS_PER_CALL_MAX = 1024
"""Linux takes at most this many buffers in one ``pwritev`` (IOV_MAX)."""

CANNOT_RESERVE = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""What a file system answers that cannot reserve space."""

READ_ALL_STEP_BYTES = 1 << 20
_TEMPORARY_TOKEN_BYTES = 8

AFTER_TEMPORARY_WRITE = declare("env.files.after_temporary_write")
AFTER_TEMPORARY_SYNC = declare("env.files.after_temporary_sync")
AFTER_PUBLISH = declare("env.files.after_publish")
AFTER_PUBLISH_SYNC = declare("env.files.after_publish_sync")


@contextmanager
def _doing(purpose: Purpose, action: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise meaning(error, purpose, action, path) from error


class _Handle:
    """A descriptor that is closed once."""

    def __init__(self, kernel: Kernel, descriptor: int, path: str) -> None:
        self._kernel = kernel
        self._descriptor: int | None = descriptor
        self.path = path

    @property
    def closed(self) -> bool:
        return self._descriptor is None

    @property
    def descriptor(self) -> int:
        assert self._descriptor is not None, f"{self.path} is closed"
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with _doing(Purpose.WRITE, "close", self.path):
                self._kernel.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class KernelWritableFile(_Handle):
    """``WritableFile``."""

    def __init__(
        self,
        kernel: Kernel,
        descriptor: int,
        path: str,
        failed_syncs: set[str],
        length: int = 0,
    ) -> None:
        super().__init__(kernel, descriptor, path)
        self.position = 0
        self._length = length
        """Of the file, if it is longer than what is written."""
        self._failed_syncs = failed_syncs
        self._failure: SteleError | None = None

    @property
    def length(self) -> int:
        return max(self.position, self._length)

    def write(self, *buffers: ReadableBuffer) -> None:
        descriptor = self._usable_descriptor()
        views = [view for buffer in buffers if (view := memoryview(buffer).cast("B")).nbytes]
        try:
            end = self._write_all(descriptor, views)
        except OSError as error:
            failure = meaning(error, Purpose.WRITE, "write", self.path)
            if isinstance(failure, OutOfSpace):
                self._cut_back(descriptor)
            else:
                self._failure = failure
            raise failure from error
        self.position = end

    def _write_all(self, descriptor: int, views: list[memoryview]) -> int:
        offset = self.position
        while views:
            taken = self._kernel.write(descriptor, views[:BUFFERS_PER_CALL_MAX], offset)
            assert taken > 0, "the kernel took nothing and did not say why"
            offset += taken
            if len(views) == 1 and taken == views[0].nbytes:
                break
            views = _without_first(views, taken)
        return offset

    def _cut_back(self, descriptor: int) -> None:
        self._length = 0
        try:
            self._kernel.truncate(descriptor, self.position)
        except OSError as error:
            self._failure = meaning(error, Purpose.SYNC, "undo a write to", self.path)
            raise self._failure from error

    def reserve(self, length: int, *, filled: bool = False) -> None:
        descriptor, end = self._usable_descriptor(), self.length
        if length <= end:
            return
        try:
            # From where the file ends: the C library stands in for a file system that cannot
            # reserve, and would read what is there, of a file that is open for writing only.
            self._kernel.allocate(descriptor, end, length - end, filled)
            self._length = length
        except OSError as error:
            failure = meaning(error, Purpose.WRITE, "reserve space for", self.path)
            if error.errno not in CANNOT_RESERVE and not isinstance(failure, OutOfSpace):
                self._failure = failure
                raise failure from error
            self._cut_back(descriptor)

    def trim(self) -> None:
        self._cut_back(self._usable_descriptor())

    def sync(self) -> None:
        descriptor = self._usable_descriptor()
        try:
            self._kernel.sync(descriptor)
        except OSError as error:
            self._failure = meaning(error, Purpose.SYNC, "sync", self.path)
            self._failed_syncs.add(self.path)
            raise self._failure from error

    def _usable_descriptor(self) -> int:
        if self._failure is not None:
            raise StorageFailed(f"{self.path!r} failed before: {self._failure}")
        return self.descriptor


def _without_first(views: list[memoryview], taken: int) -> list[memoryview]:
    """What is left of the buffers once ``taken`` bytes are written."""
    for index, view in enumerate(views):
        if taken < view.nbytes:
            return [view[taken:], *views[index + 1 :]]
        taken -= view.nbytes
    return []


class KernelRandomFile(_Handle):
    """``RandomFile``. Whoever closes it makes sure that no other thread is reading.

    Readers of a file that is no longer needed hold it as long as they read; the last one to let
    go closes it.
    """

    def __del__(self) -> None:
        with suppress(SteleError):
            self.close()

    def pread(self, offset: int, length: int) -> bytes:
        assert offset >= 0, offset
        assert length >= 0, length
        descriptor = self.descriptor
        try:
            data = self._kernel.read(descriptor, length, offset)
            while 0 < len(data) < length:
                rest = self._kernel.read(descriptor, length - len(data), offset + len(data))
                if not rest:
                    break
                data += rest
        except OSError as error:
            raise meaning(error, Purpose.READ, "read", self.path) from error
        return data

    def size(self) -> int:
        with _doing(Purpose.READ, "measure", self.path):
            return self._kernel.size(self.descriptor)


class KernelFileLock:
    """``FileLock``."""

    def __init__(self, kernel: Kernel, descriptor: int) -> None:
        self._kernel = kernel
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._kernel.unlock(descriptor)

    def abandon(self) -> None:
        """Forget the lock without releasing it: what a forked child does with its parent's."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._kernel.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class KernelFileSystem:
    """``FileSystem`` over any kernel. ``random`` names temporary files."""

    def __init__(self, kernel: Kernel, random: Random) -> None:
        self._kernel = kernel
        self._random = random
        self._failed_syncs: set[str] = set()

    def create(self, path: str) -> KernelWritableFile:
        descriptor = self._call(Purpose.WRITE, "create", self._kernel.create, path)
        return KernelWritableFile(self._kernel, descriptor, path, self._failed_syncs)

    def overwrite(self, path: str) -> KernelWritableFile:
        descriptor = self._call(Purpose.WRITE, "open", self._kernel.open_write, path)
        try:
            with _doing(Purpose.WRITE, "measure", path):
                length = self._kernel.size(descriptor)
        except SteleError:
            self._kernel.close(descriptor)
            raise
        return KernelWritableFile(self._kernel, descriptor, path, self._failed_syncs, length)

    def open_read(self, path: str) -> KernelRandomFile:
        descriptor = self._call(Purpose.READ, "open", self._kernel.open_read, path)
        return KernelRandomFile(self._kernel, descriptor, path)

    def read_all(self, path: str) -> bytes:
        parts = []
        with self.open_read(path) as file:
            offset, step = 0, max(file.size(), 1)
            while data := file.pread(offset, step):
                parts.append(data)
                offset += len(data)
                step = READ_ALL_STEP_BYTES  # it grew while we read: go on to its end
        return b"".join(parts)

    def write_atomic(self, path: str, *buffers: ReadableBuffer) -> None:
        temporary = self._write_temporary(path, buffers)
        with self._removing_on_error(temporary):
            self.rename(temporary, path)
        failpoint(AFTER_PUBLISH)
        self.sync_dir(paths.parent(path))
        failpoint(AFTER_PUBLISH_SYNC)

    def create_exclusive(self, path: str, *buffers: ReadableBuffer) -> None:
        temporary = self._write_temporary(path, buffers)
        with self._removing_on_error(temporary):
            try:
                self.link(temporary, path)
            except AlreadyExists:
                self.sync_dir(paths.parent(path))
                raise
        failpoint(AFTER_PUBLISH)
        self.delete(temporary)
        self.sync_dir(paths.parent(path))
        failpoint(AFTER_PUBLISH_SYNC)

    def _write_temporary(self, path: str, buffers: tuple[ReadableBuffer, ...]) -> str:
        paths.validated(path)
        token = self._random.bytes(_TEMPORARY_TOKEN_BYTES).hex()
        temporary = paths.join(paths.parent(path), f".{token}{TEMPORARY_SUFFIX}")
        file = self.create(temporary)
        with self._removing_on_error(temporary), file:
            file.write(*buffers)
            failpoint(AFTER_TEMPORARY_WRITE)
            file.sync()
            failpoint(AFTER_TEMPORARY_SYNC)
        return temporary

    @contextmanager
    def _removing_on_error(self, temporary: str) -> Iterator[None]:
        try:
            yield
        except SteleError:
            with suppress(SteleError):  # the first error is the one to tell
                self.delete(temporary)
            raise

    def rename(self, source: str, target: str) -> None:
        paths.validated(target)
        self._call(Purpose.WRITE, "rename", lambda path: self._kernel.rename(path, target), source)

    def link(self, source: str, target: str) -> None:
        paths.validated(source)
        self._call(Purpose.WRITE, "link", lambda path: self._kernel.link(source, path), target)

    def delete(self, path: str) -> None:
        self._call(Purpose.WRITE, "delete", self._kernel.unlink, path)

    def exists(self, path: str) -> bool:
        # Without ``_call``: a log asks after every sync, and its machinery costs as much again.
        try:
            return self._kernel.exists(paths.validated(path))
        except OSError as error:
            raise meaning(error, Purpose.READ, "look for", path) from error

    def list(self, directory: str) -> list[str]:
        return sorted(self._call(Purpose.READ, "list", self._kernel.list, directory))

    def mkdir(self, path: str) -> None:
        for level in paths.levels(paths.validated(path)):
            try:
                self._call(Purpose.WRITE, "make directory", self._kernel.mkdir, level)
            except AlreadyExists:
                if not self._call(Purpose.READ, "look at", self._kernel.is_dir, level):
                    raise
            # Also when it was there: a process may have died between making and syncing it.
            self.sync_dir(paths.parent(level))

    def delete_dir(self, path: str) -> None:
        self._call(Purpose.WRITE, "delete directory", self._kernel.rmdir, path)

    def sync_file(self, path: str) -> None:
        self._sync(path, self._kernel.open_read, self._kernel.sync)

    def sync_dir(self, path: str) -> None:
        self._sync(path, self._kernel.open_dir, self._kernel.sync_dir)

    def _sync(self, path: str, open_: Callable[[str], int], sync: Callable[[int], None]) -> None:
        if path in self._failed_syncs:
            raise StorageFailed(f"an earlier sync of {path!r} failed")
        with _Handle(self._kernel, self._call(Purpose.READ, "open", open_, path), path) as handle:
            try:
                sync(handle.descriptor)
            except OSError as error:
                self._failed_syncs.add(path)
                raise meaning(error, Purpose.SYNC, "sync", path) from error

    def free_bytes(self) -> int:
        return self._call(Purpose.READ, "measure", lambda _path: self._kernel.free_bytes(), "")

    def lock_exclusive(self, path: str) -> KernelFileLock:
        descriptor = self._call(Purpose.WRITE, "lock", self._kernel.lock, path)
        return KernelFileLock(self._kernel, descriptor)

    def _call(
        self, purpose: Purpose, action: str, call: Callable[[str], Result], path: str
    ) -> Result:
        with _doing(purpose, action, paths.validated(path)):
            return call(path)
