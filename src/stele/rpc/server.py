"""The accepting end on a running loop: connections in, handlers out.

A handler that is a coroutine function runs as a task of its own, which is cancelled when the
caller cancels, when the deadline passes and when the connection is lost. A plain function is
called at once, without a task: right for what only looks something up and answers with little. It
may also return a future or a `Deferred`, whose result is the answer: right for what many callers
wait for together.

What a handler raises on purpose goes to the caller. Anything else is a bug: it is logged with its
traceback, the caller learns that there was one, and every other call goes on.

Closing is in two steps: listeners go first and connections drain, so that calls in flight are
answered and clients look elsewhere; after the grace what is left is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from stele.env.ports import ByteStream, Listener, Network
from stele.errors import Corruption, SteleError, Throttled, Unavailable
from stele.rpc.budget import ByteBudget
from stele.rpc.connection import Connection, MessageClock, make_hello
from stele.rpc.deferred import Deferred
from stele.rpc.dispatch import Dispatcher, encode_reply
from stele.rpc.events import Abandoned, Call, Closed, Credited, Event, Greeted
from stele.rpc.identity import PeerIdentity, Role
from stele.rpc.limits import MIB, Limits
from stele.rpc.network import SocketNetwork, audit, link_of
from stele.rpc.refusal_log import RefusalLog
from stele.rpc.server_connection import ServerConnection
from stele.rpc.service import Binding, Context
from stele.rpc.tls import Credentials
from stele.rpc.transport import LINGER_S, Session
from stele.rpc.wire_format import ONE_WAY, OPEN

RELOAD_EVERY_S: Final = 30.0
"""How often certificates and revocations are looked at: half of the minute that is promised."""

GRACE_S: Final = 10.0

log = logging.getLogger("stele.rpc")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How a server introduces itself, and how much it takes on."""

    role: Role
    name: str = ""
    cluster: str = ""
    features: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    connections_max: int = 10_000
    inflight_bytes_max: int = 512 * MIB
    assembly_bytes_max: int = 1024 * MIB


class Server:
    """Serves bindings at any number of addresses. Belongs to the loop it was made in."""

    def __init__(
        self,
        bindings: Iterable[Binding],
        options: ServerOptions,
        *,
        credentials: Credentials | None = None,
        network: Network | None = None,
        clock: MessageClock | None = None,
    ):
        self.options = options
        self.dispatcher = Dispatcher(bindings)
        self.clock = clock
        self.inflight_budget = ByteBudget(options.inflight_bytes_max)
        self.assembly_budget = ByteBudget(options.assembly_bytes_max)
        self.refusals = RefusalLog(audit)
        self.sessions: set[ServerSession] = set()
        self._loop = asyncio.get_running_loop()
        self._credentials = credentials
        self._network: Network = network or SocketNetwork(credentials)
        self._listeners: list[Listener] = []
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self.is_closing = False
        self._in_turn = False
        self._answered: dict[ServerSession, None] = {}
        self._reloading: asyncio.TimerHandle | None = None
        if credentials is not None:
            self._reload_later()

    def listen(self, address: str) -> str:
        """Serve at an address too; return it with the port that was chosen."""
        listener = self._network.listen(address, self.accept)
        self._listeners.append(listener)
        return listener.address

    async def close(self, grace_s: float = GRACE_S) -> None:
        """Take nothing new, finish what is in flight within the grace, then cut the rest."""
        self.is_closing = True
        for listener in self._listeners:
            listener.close()
        if self._reloading is not None:
            self._reloading.cancel()
        for session in list(self.sessions):
            session.drain()
        await self._wait_all_gone(grace_s)
        for session in list(self.sessions):
            session.cut(Unavailable("the server is closing"))
        await self._wait_all_gone(2 * LINGER_S)

    def reload_credentials(self) -> None:
        """Use new certificates from now on, and cut peers whose own were revoked."""
        assert self._credentials is not None, "nothing to reload"
        try:
            self._credentials.reload()
        except SteleError as error:
            log.warning("certificates were not reloaded: %s", error)
            return
        for session in list(self.sessions):
            peer = session.peer
            if peer is not None and self._credentials.is_revoked(peer):
                audit.warning("cutting %s: certificate %s was revoked", peer, peer.serial)
                session.abort()

    def entered(self, session: ServerSession) -> None:
        """A session's stream has opened."""
        self.sessions.add(session)
        self._all_gone.clear()

    def left(self, session: ServerSession) -> None:
        """A session's stream is gone."""
        self.sessions.discard(session)
        if not self.sessions:
            self._all_gone.set()

    def answered(self, session: ServerSession) -> None:
        """A session has something to write: at the end of the turn that was begun, or soon."""
        if self._in_turn:
            self._answered[session] = None
        else:
            session.touch()

    def begin_turn(self) -> None:
        """From here to ``end_turn`` deferred answers are gathered."""
        self._in_turn = True

    def end_turn(self) -> None:
        """Write all answers that were gathered, now."""
        self._in_turn = False
        self.write_answers()

    def write_answers(self) -> None:
        """The same within a turn, before something that takes long."""
        if self._answered:
            answered, self._answered = self._answered, {}
            for session in answered:
                session.flush()

    def accept(self) -> ServerSession:
        """The handler of a new connection, if there is room for one."""
        if len(self.sessions) >= self.options.connections_max:
            raise Throttled(f"{self.options.connections_max} connections are open")
        return ServerSession(self, self._loop)

    def _reload_later(self) -> None:
        self._reloading = self._loop.call_later(RELOAD_EVERY_S, self._reload_now)

    def _reload_now(self) -> None:
        self.reload_credentials()
        self._reload_later()

    async def _wait_all_gone(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_gone.wait()
        except TimeoutError:
            return


class ServerSession(Session):
    """One connection of a server and the calls that run for it."""

    _connection: ServerConnection

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop):
        super().__init__(loop)
        self.peer: PeerIdentity | None = None
        self._server = server
        self._address = ""
        self._permitted: dict[int, Binding] = {}
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self.reading_paused = False

    @property
    def inflight(self) -> int:
        """Calls whose handlers have not ended."""
        return self._connection.inflight

    def drain(self) -> None:
        """Refuse new calls and close after the last answer."""
        self._connection.drain()
        self.touch()

    def cut(self, error: SteleError) -> None:
        """Close now, and say why."""
        self._connection.fail(error)
        self.touch()

    # ---- the stream --------------------------------------------------------------------

    def opened(self, stream: ByteStream) -> None:
        """The stream stands; if its handshake outlasted the server, it is closed again."""
        super().opened(stream)
        if self._server.is_closing:
            self.drain()

    def _connect(self, stream: ByteStream) -> Connection:
        server, options = self._server, self._server.options
        link = link_of(stream)
        self._address = stream.peer
        self._connection = ServerConnection(
            make_hello(
                options.role,
                options.limits,
                name=options.name,
                cluster=options.cluster,
                features=options.features,
            ),
            options.limits,
            self.now_us(),
            clock=server.clock,
            certified=link.certified,
            proof=link.proof,
            assembly=server.assembly_budget,
            inflight=server.inflight_budget,
        )
        server.entered(self)
        return self._connection

    def _ended(self, error: SteleError | None) -> None:
        log.debug("the connection of %s is gone: %s", self._address, error)
        self._server.left(self)

    def _after_flush(self, connection: Connection) -> None:
        """Wake streams that have room, and read only from a peer that reads."""
        is_full = connection.outbox_bytes >= connection.limits.outbox_bytes_soft
        if self._waiting and not is_full:
            for waiter in self._waiting.values():
                if not waiter.done():
                    waiter.set_result(None)
        if is_full != self.reading_paused:
            assert self._stream is not None
            self.reading_paused = is_full
            if is_full:
                self._stream.pause_reading()
            else:
                self._stream.resume_reading()

    # ---- events ------------------------------------------------------------------------

    def _carry_out(self, events: list[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind is Call:
                self._start(event)  # type: ignore[arg-type]
            elif kind is Credited:
                self._wake(event.call)  # type: ignore[union-attr]
            elif kind is Abandoned:
                self._stop(event.call)  # type: ignore[union-attr]
            elif kind is Greeted:
                self.peer = event.peer  # type: ignore[union-attr]
                self._permitted = self._server.dispatcher.permitted(self.peer)
            elif kind is Closed:
                self._say_goodbye(event.error)  # type: ignore[union-attr]

    def _start(self, call: Call) -> None:
        assert self.peer is not None, "a call before the hello"
        connection = self._connection
        try:
            binding, context, message = self._server.dispatcher.prepare(
                call, self.peer, self._permitted
            )
            if call.kind == OPEN:
                run = self._run_stream(call, binding, context, message)
            elif binding.is_async:
                run = self._run_unary(call, binding, context, message)
            else:
                self._call_plain(call, binding, context, message)
                return
        except SteleError as error:
            connection.refuse(call, error)
        except Exception as error:
            log.exception("a bug in method %d", call.method)
            connection.refuse(call, error)
        else:
            call.context = self._loop.create_task(run)

    def _call_plain(self, call: Call, binding: Binding, context: Context, message: Any) -> None:
        result = binding.function(context, message)
        if result is None and call.kind == ONE_WAY:
            self._connection.release(call)
        elif type(result) is Deferred:
            call.context = result
            result.then(lambda done: self._answer_deferred(call, binding, done))
        elif isinstance(result, asyncio.Future):
            call.context = result
            result.add_done_callback(lambda done: self._answer_later(call, binding, done))
        else:
            self._respond(call, binding, result)
            self.write_if_enough()  # the rest is written when all that has come is carried out

    def _answer_deferred(self, call: Call, binding: Binding, done: Deferred) -> None:
        if done.error is not None:
            self._connection.refuse(call, done.error)
        else:
            try:
                self._respond(call, binding, done.value)
            except Exception as error:
                log.exception("a bug in %s", binding.method.full_name)
                self._connection.refuse(call, error)
        self._server.answered(self)

    def _answer_later(self, call: Call, binding: Binding, done: asyncio.Future[Any]) -> None:
        try:
            self._respond(call, binding, done.result())
        except SteleError as error:
            self._connection.refuse(call, error)
        except asyncio.CancelledError:
            self._connection.refuse(call, Unavailable("the call was stopped"))
        except Exception as error:
            log.exception("a bug in %s", binding.method.full_name)
            self._connection.refuse(call, error)
        self.touch()

    def _stop(self, call: Call) -> None:
        """Nobody waits for this call: end its task, or what it waits for."""
        task: asyncio.Future[Any] | Deferred | None = call.context
        if isinstance(task, Deferred):
            task.cancel()
            self._connection.release(call)
        elif task is not None:
            # A task that never began cannot release its call.
            task.add_done_callback(lambda _: self._connection.release(call))
            task.cancel()

    def _wake(self, call: Call) -> None:
        waiter = self._waiting.get(call.request_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _say_goodbye(self, error: SteleError | None) -> None:
        if not isinstance(error, Corruption):
            return
        told = f"closed the connection of {self._address}: {error}"
        if self.peer is None:
            self._server.refusals.warn("stranger", told, self._loop.time())
        else:
            audit.warning("%s", told)

    # ---- calls -------------------------------------------------------------------------

    def _respond(self, call: Call, binding: Binding, result: Any) -> None:
        if binding.method.response_type is None:
            self._connection.release(call)
            return
        body, attachments = encode_reply(binding, result)
        self._connection.respond(call, body, attachments)

    async def _run_unary(
        self, call: Call, binding: Binding, context: Context, message: Any
    ) -> None:
        try:
            result = await binding.function(context, message)
            while not self._connection.has_room:
                await self._room(call)
            self._respond(call, binding, result)
        except SteleError as error:
            self._connection.refuse(call, error)
        except asyncio.CancelledError:
            self._connection.refuse(call, Unavailable("the call was stopped"))
            raise
        except Exception as error:
            log.exception("a bug in %s", binding.method.full_name)
            self._connection.refuse(call, error)
        finally:
            self.touch()

    async def _run_stream(
        self, call: Call, binding: Binding, context: Context, message: Any
    ) -> None:
        connection = self._connection
        items = binding.function(context, message)
        try:
            async for item in items:
                body, attachments = encode_reply(binding, item)
                while not connection.may_send(call):
                    await self._room(call)
                connection.send_item(call, body, attachments)
                self.touch()
            connection.finish(call)
        except SteleError as error:
            connection.refuse(call, error)
        except asyncio.CancelledError:
            connection.refuse(call, Unavailable("the stream was stopped"))
            raise
        except Exception as error:
            log.exception("a bug in %s", binding.method.full_name)
            connection.refuse(call, error)
        finally:
            self.touch()
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

    async def _room(self, call: Call) -> None:
        """Wait until credit has come or output has left; look again afterwards."""
        waiter = self._loop.create_future()
        self._waiting[call.request_id] = waiter
        try:
            await waiter
        finally:
            del self._waiting[call.request_id]
