"""Bytes over TCP and Unix sockets, with TLS where others could listen: the `Network` port.

This is all that a simulator replaces. Streams and handlers are those of `stele.env.ports`; what a
stream knows about its other end, beyond an address, is its `link`.

A server's listener accepts by itself and does not leave it to asyncio, for three reasons: the
number of handshakes in progress is bounded before a key is touched, the context is the newest one
at every handshake, and on a Unix socket the kernel's word on the peer is asked before anything is
read. A connection that is refused costs one line in the log and never a traceback.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from stele.env.ports import ByteStream, StreamHandler
from stele.errors import (
    SteleError,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from stele.rpc.addresses import (
    Address,
    TcpAddress,
    UnixAddress,
    check_plaintext,
    parse_address,
)
from stele.rpc.fork import stays_with_parent
from stele.rpc.framing import GATHER_BEGIN_BYTES
from stele.rpc.identity import PeerIdentity, Proof
from stele.rpc.listening import bind_tcp, bind_unix, proof_of, set_no_delay, unlink
from stele.rpc.refusal_log import RefusalLog, kind_of
from stele.rpc.tls import HANDSHAKE_TIMEOUT_S, Credentials

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LISTEN_BACKLOG: Final = 1024
HANDSHAKES_MAX: Final = 256
"""Connections that have not shown a certificate yet; the rest are closed on arrival."""

ACCEPTS_PER_TURN_MAX: Final = 64
"""So that a flood of connections does not keep the loop from those that stand."""

ACCEPT_PAUSE_S: Final = 0.1

CONNECT_TIMEOUT_S: Final = 5.0

WRITE_BUFFER_BYTES: Final = 1
"""The transport holds what the kernel did not take of one write, and asks to pause: the rest waits
in the connection, where it is counted. A larger number makes uvloop put every write off to the end
of its turn; zero makes asyncio's TLS pause with nothing to send."""

JOIN_BYTES_MAX: Final = 64 * 1024
"""Up to here one copy and one write are cheaper than a gathering write."""

SCRATCH_BYTES: Final = 256 * 1024
"""What one read takes at most: as much as the loop's own buffer."""

PEEK_BYTES: Final = GATHER_BEGIN_BYTES + 4096

SMALL_READ_BYTES: Final = 4096
"""After a read of less nobody is asked for a place: what comes in such pieces is as well copied."""

audit = logging.getLogger("stele.rpc.audit")


@dataclass(frozen=True, slots=True)
class Link:
    """What is known about the other end before it has said anything."""

    proof: Proof
    certified: PeerIdentity | None = None


CLAIMED: Final = Link(Proof.CLAIM)


def link_of(stream: ByteStream) -> Link:
    """The link of any stream; one that does not know of links proves nothing."""
    return getattr(stream, "link", CLAIMED)


class DirectReader(Protocol):
    """A handler that can also be given bytes where it wants them."""

    def reserve(self) -> memoryview | None:
        """Where to put the next bytes; None to have them passed to `received`."""

    def received_in_place(self, size: int) -> None:
        """So many bytes were put there."""


class PassedOn:
    """A handler without such a place: everything is passed to `received`."""

    def reserve(self) -> None:
        """There is none."""
        return

    def received_in_place(self, size: int) -> None:
        """Never called: nothing was reserved."""
        raise AssertionError(f"{size} bytes came to no place")


class SocketStream(asyncio.BufferedProtocol):
    """Both an asyncio protocol and the `ByteStream` of its handler.

    All streams of a network read into one scratch buffer, which is copied out before the next
    read; the rest of a large frame is read straight into its own.
    """

    def __init__(
        self,
        handler: StreamHandler,
        peer: str,
        proof: Proof,
        credentials: Credentials | None,
        scratch: memoryview,
        refusals: RefusalLog,
    ):
        self.link = Link(proof)
        self._handler = handler
        self._peer = peer
        self._credentials = credentials
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._scratch = scratch
        self._refusals = refusals
        self._in_place = False
        self._read_bytes = 0
        self._direct: DirectReader = (
            cast("DirectReader", handler) if hasattr(handler, "reserve") else PassedOn()
        )

    # ---- the stream, as the handler sees it --------------------------------------------

    @property
    def peer(self) -> str:
        """The other end's address."""
        return self._peer

    def write(self, *buffers: ReadableBuffer) -> None:
        """Send the buffers in order; the small ones together."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        parts: tuple[bytes, ...] = buffers  # type: ignore[assignment]
        if len(parts) == 1:
            transport.write(parts[0])
        elif sum(map(len, parts)) <= JOIN_BYTES_MAX:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)

    def pause_reading(self) -> None:
        """Let the sender feel that nobody reads."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Send the rest, then close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # ---- the protocol, as asyncio sees it ----------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket stands, and if there is TLS its handshake is over."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if self._credentials is not None:
            try:
                certificate = transport.get_extra_info("peercert")
                self.link = Link(Proof.CERTIFICATE, self._credentials.identify(certificate))
            except SteleError as error:
                now_s = asyncio.get_running_loop().time()
                self._refusals.warn(kind_of(error), f"refused {self._peer}: {error}", now_s)
                self._end(error)
                self._transport.abort()
                return
        self._handler.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Where the next bytes go."""
        if self._in_place or self._read_bytes >= SMALL_READ_BYTES:
            place = self._direct.reserve()
            if place is not None:
                self._in_place = True
                return place
        # After a large frame another one is likely: read its beginning, then it has its place.
        scratch = self._scratch[:PEEK_BYTES] if self._in_place else self._scratch
        self._in_place = False
        return scratch

    def buffer_updated(self, nbytes: int) -> None:
        """They are there."""
        self._read_bytes = nbytes
        if self._in_place:
            self._direct.received_in_place(nbytes)
        else:
            self._handler.received(bytes(self._scratch[:nbytes]))

    def pause_writing(self) -> None:
        """The transport holds enough."""
        self._handler.writable(False)

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._handler.writable(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._end(None if exc is None else describe_failure(self._peer, exc))

    def fail(self, error: SteleError) -> None:
        """The connection did not come about."""
        self._end(error)

    def _end(self, error: SteleError | None) -> None:
        if not self._ended:
            self._ended = True
            self._handler.closed(error)


class SocketListener:
    """`Listener`: accepts connections and gives each a stream."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        address: Address,
        accept: Callable[[], StreamHandler],
        credentials: Credentials | None,
        scratch: memoryview,
        refusals: RefusalLog,
    ):
        self._scratch = scratch
        self._refusals = refusals
        self._loop = loop
        self._socket = listening
        stays_with_parent(listening)
        self._address = address
        self._accept = accept
        self._credentials = None if isinstance(address, UnixAddress) else credentials
        self._handshakes: set[asyncio.Task[None]] = set()
        self._closed = False
        self._watch()

    @property
    def address(self) -> str:
        """Where it listens, with the port that was really chosen."""
        return str(self._address)

    def close(self) -> None:
        """Accept no more. A handshake that has begun ends by itself, or by its time limit."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if isinstance(self._address, UnixAddress):
            unlink(self._address.path)

    def _watch(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            try:
                accepted, remote = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Descriptors have run out, most likely. The socket stays readable, so look away
                # until those that close have made room.
                audit.warning("cannot accept at %s: %s", self._address, error)
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(ACCEPT_PAUSE_S, self._watch)
                return
            accepted.setblocking(False)
            stays_with_parent(accepted)
            set_no_delay(accepted)
            peer = _describe(remote) or f"a process at {self._address}"
            if len(self._handshakes) >= HANDSHAKES_MAX:
                self._warn("handshakes", f"refused {peer}: {HANDSHAKES_MAX} handshakes in progress")
                accepted.close()
                continue
            handshake = self._loop.create_task(self._welcome(accepted, peer))
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    async def _welcome(self, accepted: socket.socket, peer: str) -> None:
        """From an accepted socket to an open stream, or to one line in the log."""
        context = None if self._credentials is None else self._credentials.server_context
        try:
            proof = proof_of(accepted, self._address)
            stream = SocketStream(
                self._accept(), peer, proof, self._credentials, self._scratch, self._refusals
            )
            await self._loop.connect_accepted_socket(
                lambda: stream,
                accepted,
                ssl=context,
                ssl_handshake_timeout=None if context is None else HANDSHAKE_TIMEOUT_S,
            )
        except (OSError, SteleError) as error:
            self._warn(kind_of(error), f"refused {peer}: {error}")
            accepted.close()
        except BaseException:  # the loop ends
            accepted.close()
            raise

    def _warn(self, kind: str, text: str) -> None:
        self._refusals.warn(kind, text, self._loop.time())


class SocketNetwork:
    """`Network` over the sockets of this machine. Belongs to the loop it was made in."""

    def __init__(self, credentials: Credentials | None = None):
        self.credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._dialling: set[asyncio.Task[None]] = set()
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._refusals = RefusalLog(audit)

    def listen(self, address: str, accept: Callable[[], StreamHandler]) -> SocketListener:
        """Listen. Without credentials only where other machines cannot reach."""
        parsed = parse_address(address)
        if isinstance(parsed, UnixAddress):
            bound: Address = parsed
            listening = bind_unix(parsed)
        else:
            listening, bound = bind_tcp(parsed, self.credentials is not None)
            if self.credentials is None:
                audit.warning("listening at %s without TLS: anyone on this machine can call", bound)
        listening.setblocking(False)
        listening.listen(LISTEN_BACKLOG)
        return SocketListener(
            self._loop, listening, bound, accept, self.credentials, self._scratch, self._refusals
        )

    def connect(self, address: str, handler: StreamHandler) -> None:
        """Start to connect; the handler hears what came of it."""
        parsed = parse_address(address)
        task = self._loop.create_task(self._dial(parsed, handler))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _dial(self, address: Address, handler: StreamHandler) -> None:
        credentials = None if isinstance(address, UnixAddress) else self.credentials
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                sock = await self._connect_socket(address)
        except (OSError, UnicodeError, SteleError) as error:
            handler.closed(describe_failure(str(address), error))
            return
        try:
            proof = proof_of(sock, address)
            stream = SocketStream(
                handler, str(address), proof, credentials, self._scratch, self._refusals
            )
        except SteleError as error:
            sock.close()
            handler.closed(error)
            return
        try:
            await self._wrap(sock, stream, credentials)
        except OSError as error:
            sock.close()
            stream.fail(_describe_handshake(str(address), error))
        except BaseException:  # the loop ends
            sock.close()
            raise

    async def _connect_socket(self, address: Address) -> socket.socket:
        if isinstance(address, UnixAddress):
            return await self._connect_one(socket.AF_UNIX, address.path)
        found = await self._loop.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
        if self.credentials is None:
            check_plaintext(address, [str(info[4][0]) for info in found], "connect to")
        failure: OSError = OSError(f"{address.host} has no address")
        for family, _, _, _, target in found:
            try:
                return await self._connect_one(family, target)
            except OSError as error:
                failure = error
        raise failure

    async def _connect_one(self, family: int, target: object) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        stays_with_parent(sock)
        try:
            sock.setblocking(False)
            set_no_delay(sock)
            await self._loop.sock_connect(sock, target)  # type: ignore[arg-type]
        except BaseException:
            sock.close()
            raise
        return sock

    async def _wrap(
        self, sock: socket.socket, stream: SocketStream, credentials: Credentials | None
    ) -> None:
        inode = os.fstat(sock.fileno()).st_ino
        tls = None if credentials is None else credentials.client_context
        try:
            await self._loop.create_connection(
                lambda: stream,
                sock=sock,
                ssl=tls,
                server_hostname=None if credentials is None else credentials.server_hostname or "",
                ssl_handshake_timeout=None if credentials is None else HANDSHAKE_TIMEOUT_S,
            )
        finally:  # a handshake that failed has closed it too
            _forget_if_closed(sock, inode)


def _forget_if_closed(sock: socket.socket, inode: int) -> None:
    """A connection may end as soon as it stands. uvloop has then closed the descriptor before it
    knew of the socket around it: the number may be somebody else's by now, and the socket must not
    close that."""
    descriptor = sock.fileno()
    if descriptor < 0:
        return
    try:
        is_ours = os.fstat(descriptor).st_ino == inode
    except OSError:
        is_ours = False
    if not is_ours:
        sock.detach()


def describe_failure(peer: str, error: BaseException) -> SteleError:
    """What the caller should do about a socket that failed."""
    if isinstance(error, SteleError):
        return error
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        reason: SteleError = Unauthenticated(f"TLS with {peer} failed: {error}")
    elif isinstance(error, TimeoutError):
        reason = Unavailable(f"no connection to {peer} within {CONNECT_TIMEOUT_S} s")
    else:
        reason = Unavailable(f"connection to {peer}: {error}")
    reason.__cause__ = error
    return reason


def _describe_handshake(peer: str, error: OSError) -> SteleError:
    """The same for a socket that stood, and failed before TLS did."""
    if isinstance(error, ConnectionResetError | ssl.SSLEOFError):
        reason = f"{peer} closed the connection during the TLS handshake"
        closed = Unreachable(reason, peer, cuts=1)
        closed.__cause__ = error
        return closed
    return describe_failure(peer, error)


def _describe(remote: object) -> str:
    if isinstance(remote, tuple) and len(remote) >= 2:
        return str(TcpAddress(str(remote[0]), int(remote[1])))
    return ""
