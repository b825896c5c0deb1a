"""One directory, many processes: the owner serves the others through a Unix socket.

Whoever holds the directory's lock owns it. The owner listens on a socket in the directory and says
so in ``owner.json``; others that open the directory find it there and attach. The lock is the
only truth: the file and the socket of an owner that was killed stay behind, refuse connections, and
are replaced by the next owner.

A socket's path has at most 107 bytes. Where the directory's is longer, or its file system takes no
sockets, the socket lies in a private temporary directory, which the file names.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterable
from typing import Final

import msgspec

from stele.client.backend import Backend
from stele.client.database import Database
from stele.client.metastore_connect import connect
from stele.client.remote import RemoteBackend
from stele.client.remote_link import RemoteLink
from stele.client.waiting import US_PER_SECOND, ClientWorld, pause_thread
from stele.cluster.embedded import open_embedded
from stele.env.ports import FileSystem
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, SystemRandom
from stele.errors import (
    DirectoryInUse,
    GiveUp,
    InvalidArgument,
    NotFound,
    RetryLater,
    SteleError,
    Unavailable,
    UnsupportedFormat,
)
from stele.metastore.shared import SharedMetastore
from stele.protocol.tables import STATUS, TABLE_LIMITS, Nothing
from stele.rpc.addresses import UNIX_PATH_BYTES_MAX, UNIX_PREFIX
from stele.rpc.identity import Role
from stele.rpc.server import Server, ServerOptions
from stele.rpc.service import Binding
from stele.rpc.sync import LoopThread
from stele.tablet.options import EngineOptions
from stele.tserver.table_service import TableService

OWNER_FILE: Final = "owner.json"
NEW_OWNER_FILE: Final = f"{OWNER_FILE}.new"
SOCKET_FILE: Final = "socket"
OWNER_FORMAT: Final = 1

PRIVATE_PREFIX: Final = "stele-"
SHORT_TEMPORARY: Final = "/tmp"  # noqa: S108 - the directory made in it is private
"""Where ``TMPDIR`` itself is too long a path."""

OPEN_WAIT_US: Final = 30 * US_PER_SECOND
"""An owner that is just starting, or ending, is waited for this long."""

LOOK_AGAIN_US: Final = 50_000

FIRST_CALL_US: Final = 5 * US_PER_SECOND

CLOSE_GRACE_S: Final = 2.0

log = logging.getLogger("stele.attach")


class OwnerFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What every ``owner.json`` says, whoever wrote it."""

    format: int


class OwnerRecord(OwnerFormat, frozen=True, kw_only=True):
    """What ``owner.json`` says."""

    pid: int
    address: str


def read_owner(files: FileSystem) -> OwnerRecord | None:
    """Who says that it owns a directory; ``None`` if nobody does.

    ``UnsupportedFormat`` if it says so in a way that is not known here.
    """
    try:
        data = files.read_all(OWNER_FILE)
        written = msgspec.json.decode(data, type=OwnerFormat).format
        if written == OWNER_FORMAT:
            return msgspec.json.decode(data, type=OwnerRecord)
    except (SteleError, ValueError):
        return None
    raise UnsupportedFormat(
        f"{OWNER_FILE} has format {written}, this program knows {OWNER_FORMAT}: the process that "
        f"has the directory open is a newer Stele, and only such a one can attach to it"
    )


def write_owner(files: FileSystem, address: str) -> None:
    """Say who serves. It need not survive a power failure: nor does the owner."""
    record = OwnerRecord(format=OWNER_FORMAT, pid=os.getpid(), address=address)
    with contextlib.suppress(NotFound):
        files.delete(NEW_OWNER_FILE)
    with files.create(NEW_OWNER_FILE) as file:
        file.write(msgspec.json.encode(record))
    files.rename(NEW_OWNER_FILE, OWNER_FILE)


class OwnerLocation:
    """Where the owner of a directory is, whoever that is by now: the ``Location`` of a link."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = PosixFileSystem(path)

    def address(self) -> str:
        """The address of the owner; ``Unavailable`` while there is none."""
        owner = read_owner(self._files)
        if owner is None:
            raise Unavailable(
                f"the process that owned the database in {self._path!r} has closed it: open it "
                f"again, and this process owns it"
            )
        return owner.address

    def explain(self, error: SteleError) -> SteleError:
        """Whether the owner closed the database, or is gone without a word."""
        try:
            self.address()
        except (Unavailable, UnsupportedFormat) as reason:
            return reason
        owner = read_owner(self._files)
        who = "the process" if owner is None else f"process {owner.pid}"
        return Unavailable(
            f"{who}, which owned the database in {self._path!r}, does not answer any more: open it "
            f"again; what was acknowledged is there ({error})"
        )


class OwnerServer:
    """Serves an open store to other processes until it is closed. Any thread may close it."""

    def __init__(self, path: str, backend: Backend, more: Iterable[Binding] = ()) -> None:
        self._path = path
        self._files = PosixFileSystem(path)
        self._private: str | None = None
        self._thread = LoopThread("stele-attach")
        self._tables = TableService(backend, SystemRandom())
        with contextlib.suppress(UnsupportedFormat):  # of an owner that is gone
            _remove_private(read_owner(self._files))
        self._server, self.address = self._thread.run(
            self._start((*self._tables.bindings(), *more))
        )
        """The address is empty if there is nowhere to listen: it is an owner all the same."""

    def close(self) -> None:
        """Answer what is under way, then be gone."""
        with contextlib.suppress(NotFound):
            self._files.delete(OWNER_FILE)
        if self._thread.is_usable:
            self._thread.run(self._server.close(CLOSE_GRACE_S))
            self._thread.close()
        self._tables.close()
        if self._private is not None:
            with contextlib.suppress(OSError):
                os.rmdir(self._private)

    async def _start(self, bindings: tuple[Binding, ...]) -> tuple[Server, str]:
        """A server that listens, and says so in the directory."""
        name = f"pid {os.getpid()}"
        options = ServerOptions(role=Role.TABLET, name=name, limits=TABLE_LIMITS)
        server = Server(bindings, options)
        try:
            address = self._listen(server)
            write_owner(self._files, address)
        except (OSError, SteleError) as error:
            log.warning("other processes cannot attach to %s: %s", self._path, error)
            return server, ""
        return server, address

    def _listen(self, server: Server) -> str:
        path = os.path.join(os.path.realpath(self._path), SOCKET_FILE)
        if len(os.fsencode(path)) <= UNIX_PATH_BYTES_MAX:
            try:
                return server.listen(f"{UNIX_PREFIX}{path}")
            except SteleError as error:
                log.info("no socket in %s, so in a temporary directory: %s", self._path, error)
        self._private = _private_directory()
        return server.listen(f"{UNIX_PREFIX}{os.path.join(self._private, SOCKET_FILE)}")


def _private_directory() -> str:
    """A directory of our own with a short name."""
    room = UNIX_PATH_BYTES_MAX - len(SOCKET_FILE) - len(PRIVATE_PREFIX) - len("/12345678/")
    usual = tempfile.gettempdir()
    base = usual if len(os.fsencode(usual)) <= room else SHORT_TEMPORARY
    return tempfile.mkdtemp(prefix=PRIVATE_PREFIX, dir=base)


def _remove_private(owner: OwnerRecord | None) -> None:
    """Tidy up after an owner that died: its socket, if that lies in a directory of its own."""
    if owner is None:
        return
    path = owner.address.removeprefix(UNIX_PREFIX)
    directory = os.path.dirname(path)
    if os.path.basename(directory).startswith(PRIVATE_PREFIX):
        with contextlib.suppress(OSError):
            os.unlink(path)
            os.rmdir(directory)


# ---- opening -------------------------------------------------------------------------------


def open_database(
    path: str,
    options: EngineOptions | None = None,
    *,
    attach: bool = True,
    serve: bool = True,
) -> Database:
    """Own the directory, or attach to its owner; whoever comes first owns it.

    ``serve=False`` is for short visits: others wait until this process has gone, instead of
    depending on it.
    """
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{path!r} cannot be the directory of a database: others are told of it in UTF-8"
        ) from error
    clock = SystemClock()
    ends_us = clock.monotonic_us() + OPEN_WAIT_US
    while True:
        try:
            return _own(path, options, serve=serve)
        except DirectoryInUse as error:
            if not attach:
                raise
            in_use = error
        try:
            return _attach(path)
        except (GiveUp, RetryLater) as error:
            # It has just died, or closed, or does not serve yet: look who owns it now.
            if clock.monotonic_us() > ends_us:
                raise DirectoryInUse(
                    f"{in_use}; attaching to it did not work either: {error}"
                ) from error
        pause_thread(LOOK_AGAIN_US)


def _own(path: str, options: EngineOptions | None, *, serve: bool) -> Database:
    backend = open_embedded(path, options)
    world = backend.store.world
    what = f"the database in {path}"
    client_world = ClientWorld(world.clock, world.random)
    root = backend.store.coordination
    if not serve:
        return Database(backend, client_world, what, metastore=lambda: root.metastore)
    metastore = SharedMetastore(root.node)
    try:
        server = OwnerServer(path, backend, metastore.bindings())
    except BaseException:
        backend.close()
        raise

    def stop_serving() -> None:
        server.close()
        metastore.close()

    return Database(
        backend, client_world, what, before_close=stop_serving, metastore=lambda: root.metastore
    )


def _attach(path: str) -> Database:
    world = ClientWorld(SystemClock(), SystemRandom())
    location = OwnerLocation(path)
    location.address()
    link = RemoteLink(location, world, f"pid {os.getpid()}")
    try:
        link.call(STATUS, Nothing(), FIRST_CALL_US, repeat=True)
    except BaseException:
        link.close()
        raise
    return Database(
        RemoteBackend(link),
        world,
        f"the database in {path}",
        metastore=lambda: connect(location.address(), role=Role.ADMIN),
    )
