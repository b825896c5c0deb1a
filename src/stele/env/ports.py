"""The ports: everything the engine may know of the world.

Deciding code takes these as arguments and never imports ``os``, ``time``, ``random`` or
``socket``. Each port has a real version (``posix``, ``real``, and ``stele.rpc.network``, which
brings TLS) and a deterministic one (``memory_fs``, ``memory``, ``memory_network``) on which the
simulator builds; both file systems pass one conformance suite.

What is durable when
--------------------
Three different things can be lost in a power failure, and each is made durable by its own call:

    bytes of a file        ``WritableFile.sync()``, or ``FileSystem.sync_file(path)`` for a file
                           that another process wrote
    a name in a directory  ``FileSystem.sync_dir(directory)``, after create, link, rename, delete
    a directory itself     ``FileSystem.mkdir`` returns only when all levels are durable

So a new file is safe after ``file.sync()`` *and* ``sync_dir(parent)``, in either order.
``write_atomic`` and ``create_exclusive`` do the whole dance and are durable when they return.

A process that died without a power failure leaves its unsynced bytes visible to the next one.
Whoever recovers a file and lets others depend on what it read must ``sync_file`` it first, or a
later power failure takes back what was already served.

What may fail
-------------
    ``OutOfSpace``        the disk or a quota is full, or no descriptor is left for a new file; a
                          write is undone, the handle stays usable
    ``Unavailable``       no descriptor is left to open what is there
    ``StorageFailed``     a sync or a metadata write failed. A failed sync is never tried again on
                          the same handle: the kernel may have dropped the dirty pages and would
                          report success. The handle refuses everything but ``close`` from then on
    ``TransientIoError``  a read failed; nothing changed
    ``NotFound``, ``AlreadyExists``, ``DirectoryInUse``, ``InvalidArgument``

Paths are plain strings relative to the root of the file system, with ``/`` between the parts and
``""`` for the root itself; see ``stele.env.paths`` for what is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from stele.errors import SteleError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TEMPORARY_SUFFIX = ".tmp"
"""Ends the name of every half-made file of ``write_atomic`` and ``create_exclusive``.

A crash may leave such a file behind. It never holds anything that was promised, so whoever owns
the directory deletes it when found."""


class Clock(Protocol):
    """Time, in whole microseconds."""

    def now_us(self) -> int:
        """Wall time since the Unix epoch. It may jump either way."""

    def monotonic_us(self) -> int:
        """Time since some fixed moment. It never goes back and counts while suspended."""


class Random(Protocol):
    """A source of dice: unpredictable in production, seeded in tests."""

    def bytes(self, length: int) -> bytes:
        """That many random bytes."""

    def below(self, bound: int) -> int:
        """A number in ``0 … bound - 1``."""


class Timer(Protocol):
    """A call that has been put off."""

    def cancel(self) -> None:
        """Call it off. Harmless when it has run already."""


class Tasks(Protocol):
    """Work outside the current call.

    The engine never waits for a job; a job reports through an event of its own. A job that raises
    is a bug: it goes to ``threading.excepthook``, which a server sets to stop itself, or fails the
    test that drives the deterministic version.
    """

    def spawn(self, name: str, job: Callable[[], None]) -> None:
        """Run ``job`` in the background, soon. ``name`` appears in thread names and traces."""

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` once, not before ``delay_us`` microseconds from now."""


class WritableFile(Protocol):
    """A file that one writer writes from its start to its end. Not thread-safe."""

    @property
    def path(self) -> str:
        """The path it was opened under."""

    @property
    def position(self) -> int:
        """How many bytes have been written."""

    @property
    def length(self) -> int:
        """How long the file is: more than is written, if it is reserved or was used before."""

    def write(self, *buffers: ReadableBuffer) -> None:
        """Append the buffers, in order, as one write; anything with the buffer protocol, no copy.

        All or nothing: on ``OutOfSpace`` the file is cut back to ``position`` and may be used on.
        """

    def reserve(self, length: int, *, filled: bool = False) -> None:
        """Let the file be so long already, with zeros behind what is written.

        Syncing what is written there later is quicker, because the file does not grow by it. If it
        is ``filled``, which costs writing as much once, quicker still: then the file system has
        nothing at all to note down, and waits for no other file's notes.
        Whoever reads the file has to expect the zeros. Only a hint: without space nothing happens.
        """

    def trim(self) -> None:
        """Let the file end with what was written, and give up what is behind it."""

    def sync(self) -> None:
        """Return when every byte written so far survives a power failure (not the file's name)."""

    def close(self) -> None:
        """Close without syncing. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class RandomFile(Protocol):
    """An existing file, read at any place. Threads may share it."""

    @property
    def path(self) -> str:
        """The path it was opened under."""

    def pread(self, offset: int, length: int) -> bytes:
        """The bytes from ``offset`` on; fewer than ``length`` only where the file ends."""

    def size(self) -> int:
        """The file's length now."""

    def close(self) -> None:
        """Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class FileLock(Protocol):
    """A lock held on a file until released, or until the process ends."""

    def release(self) -> None:
        """Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class FileSystem(Protocol):
    """A tree of directories and files under one root. Threads may share it."""

    def create(self, path: str) -> WritableFile:
        """A new, empty file; ``AlreadyExists`` if the name is taken. There is no append."""

    def overwrite(self, path: str) -> WritableFile:
        """An existing file, to be written from its start once more.

        What it held stays behind what is written, and comes up among it after a power failure:
        whoever reads it has to tell the two apart. In return syncs are as quick as of a file that
        is reserved and filled.
        """

    def open_read(self, path: str) -> RandomFile:
        """An existing file, for reading."""

    def read_all(self, path: str) -> bytes:
        """The whole contents."""

    def write_atomic(self, path: str, *buffers: ReadableBuffer) -> None:
        """Make ``path`` hold exactly the buffers, replacing what it held.

        Durable on return. After a crash at any moment it holds the old or the new contents.
        """

    def create_exclusive(self, path: str, *buffers: ReadableBuffer) -> None:
        """Like ``write_atomic``, but the first writer wins: ``AlreadyExists`` for all others.

        Nobody ever sees the name without the whole contents.
        """

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing ``target`` in one step."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; ``AlreadyExists`` if it is taken."""

    def delete(self, path: str) -> None:
        """Remove a file's name. Open handles keep working."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name can be seen."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, files and directories, sorted."""

    def mkdir(self, path: str) -> None:
        """Make the directory and its missing parents, mode 0700. Idempotent, durable on return."""

    def delete_dir(self, path: str) -> None:
        """Remove an empty directory; ``AlreadyExists`` when something is still in it."""

    def sync_file(self, path: str) -> None:
        """Make durable what any process has written to the file so far."""

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable, as they are now."""

    def free_bytes(self) -> int:
        """How much may still be written, by the file system's own account."""

    def lock_exclusive(self, path: str) -> FileLock:
        """Lock a file, made if it is missing; ``DirectoryInUse`` at once if another holds it."""


class StreamHandler(Protocol):
    """One end of a connection, as its owner sees it. Calls never overlap.

    ``opened`` comes first if the connection came about, ``closed`` comes last and exactly once.
    """

    def opened(self, stream: ByteStream) -> None:
        """The connection stands; ``stream`` writes to the other end."""

    def received(self, data: bytes) -> None:
        """The next bytes; where they are cut means nothing."""

    def writable(self, ready: bool) -> None:
        """False: too much is waiting to be sent, write no more for now. True: go on."""

    def closed(self, error: SteleError | None) -> None:
        """The end: in order when ``error`` is None, else ``Unavailable`` with the reason."""


class ByteStream(Protocol):
    """The sending side of a connection."""

    @property
    def peer(self) -> str:
        """The other end's address, for messages to people."""

    def write(self, *buffers: ReadableBuffer) -> None:
        """Send the buffers in order. Never waits; after a close it does nothing."""

    def pause_reading(self) -> None:
        """Ask for no ``received`` until ``resume_reading``; the sender will feel it."""

    def resume_reading(self) -> None:
        """Go on receiving."""

    def close(self) -> None:
        """Send what was written, then close. Idempotent."""

    def abort(self) -> None:
        """Close at once and forget what was not sent. Idempotent."""


class Listener(Protocol):
    """A place where connections arrive."""

    @property
    def address(self) -> str:
        """Where it listens, with the port that was really chosen."""

    def close(self) -> None:
        """Accept no more connections; those that stand go on. Idempotent."""


class Network(Protocol):
    """Byte streams between addresses. An address is ``host:port`` or ``unix:path``."""

    def listen(self, address: str, accept: Callable[[], StreamHandler]) -> Listener:
        """Listen; each new connection gets a handler of its own from ``accept``."""

    def connect(self, address: str, handler: StreamHandler) -> None:
        """Start to connect; the handler hears ``opened``, or ``closed`` with the reason."""
