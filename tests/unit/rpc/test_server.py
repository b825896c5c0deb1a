"""Handlers run, fail, are cancelled and are waited for, each without harm to the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stele.errors import (
    Conflict,
    DeadlineExceeded,
    PermissionDenied,
    StaleHandle,
    SteleError,
    Throttled,
    Unavailable,
    UnsupportedFormat,
)
from stele.rpc import wire_format as wire
from stele.rpc.connection_states import State
from stele.rpc.deferred import Deferred
from stele.rpc.framing import encode_frame
from stele.rpc.identity import Role, allow
from stele.rpc.limits import Limits
from stele.rpc.service import Context, Registry, Reply, Service, encode_message
from stele.rpc.wire_format import Origin
from tests.unit.rpc.support import Text, World, settle


async def test_every_kind_of_method_is_served() -> None:
    async with World() as world:
        channel = world.channel()
        assert (await channel.call(world.echo.echo, Text("hi"))).text == "hi"
        assert (await channel.call(world.echo.plain, Text("hi"))).text == "hi"
        stream = await channel.stream(world.echo.count, Text("n", 4))
        assert [message.count async for message in stream] == [0, 1, 2, 3]
        channel.send(world.echo.note, Text("noted"))
        await settle()
        assert world.echo.noted == ["noted"]


async def test_attachments_there_and_back() -> None:
    async with World() as world:
        reply = await world.channel().call_attached(world.echo.echo, Text(), [b"a", b"b" * 99])
        assert [bytes(part) for part in reply.attachments] == [b"a", b"b" * 99]


async def test_what_a_handler_raises_reaches_the_caller() -> None:
    async def fail(_context: Context, _request: Text) -> None:
        raise Conflict("somebody was quicker")

    async with World() as world:
        world.echo.on_echo = fail
        with pytest.raises(Conflict, match="somebody was quicker"):
            await world.channel().call(world.echo.echo, Text())


async def test_a_bug_is_logged_here_and_not_told_there(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_context: Context, request: Text) -> None:
        raise KeyError(request.text)

    async with World() as world:
        world.echo.on_echo = fail
        with pytest.raises(SteleError) as caught:
            await world.channel().call(world.echo.echo, Text("secret row"))
        assert type(caught.value) is SteleError
        assert "secret" not in str(caught.value)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert "echo.echo" in record.getMessage()


async def test_bugs_of_every_kind_are_contained(caplog: pytest.LogCaptureFixture) -> None:
    def plain(_context: Context, request: Text) -> Text:
        if request.text == "bad":
            raise ZeroDivisionError
        return request

    async def count(_context: Context, _request: Text) -> AsyncIterator[Any]:
        yield Text()
        raise ZeroDivisionError

    async def wrong(_context: Context, _request: Text) -> str:
        return "not a message"

    async with World() as world:
        world.echo.on_plain, world.echo.on_count, world.echo.on_echo = plain, count, wrong
        channel = world.channel()
        stream = await channel.stream(world.echo.count, Text())
        assert await anext(stream) == Text()
        for broken in (
            channel.call(world.echo.plain, Text("bad")),
            channel.call(world.echo.echo, Text()),
            anext(stream),
        ):
            with pytest.raises(SteleError, match="internal error"):
                await broken
        assert (await channel.call(world.echo.plain, Text("fine"))).text == "fine"
    assert len(caplog.records) == 3


async def test_a_plain_handler_may_answer_later(caplog: pytest.LogCaptureFixture) -> None:
    waiting: dict[str, asyncio.Future[Any]] = {}

    def later(_context: Context, request: Text) -> asyncio.Future[Any]:
        waiting[request.text] = asyncio.get_running_loop().create_future()
        return waiting[request.text]

    async with World() as world:
        world.echo.on_plain = later
        channel = world.channel()
        names = ("answer", "refusal", "bug", "wrong", "cancelled")
        calls = [asyncio.ensure_future(channel.call(world.echo.plain, Text(n))) for n in names]
        while len(waiting) < len(names):
            await asyncio.sleep(0)
        waiting["answer"].set_result(Text("done"))
        waiting["refusal"].set_exception(Conflict("no"))
        waiting["bug"].set_exception(KeyError("secret"))
        waiting["wrong"].set_result("not a message")
        waiting["cancelled"].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert answers[0] == Text("done")
        assert [type(error) for error in answers[1:]] == [
            Conflict,
            SteleError,
            SteleError,
            Unavailable,
        ]
        assert not any(session.inflight for session in world.server.sessions)
    assert len(caplog.records) == 2


async def test_deferred_answers_of_one_turn_are_written_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting: dict[str, Deferred] = {}

    def later(_context: Context, request: Text) -> Deferred:
        return waiting.setdefault(request.text, Deferred())

    async with World() as world:
        world.echo.on_plain = later
        channel = world.channel()
        names = ("good", "refused", "bug", "soon")
        calls = [asyncio.ensure_future(channel.call(world.echo.plain, Text(n))) for n in names]
        await settle()
        waiting["soon"].set_result(Text("outside of a turn"))
        world.server.begin_turn()
        waiting["good"].set_result(Text("done"))
        waiting["refused"].set_exception(Conflict("no"))
        waiting["bug"].set_result(object())
        (session,) = world.server.sessions
        assert session.connection is not None
        assert session.connection.outbox_bytes > 0, "nothing is written before the end"
        world.server.end_turn()
        assert session.connection.outbox_bytes == 0
        found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in found] == [Text, Conflict, SteleError, Text]
    assert "a bug in echo.plain" in caplog.text


async def test_a_cancelled_call_lets_go_of_its_deferred_answer() -> None:
    waiting: list[Deferred] = []

    def later(_context: Context, _request: Text) -> Deferred:
        waiting.append(Deferred())
        return waiting[0]

    async with World() as world:
        world.echo.on_plain = later
        call = asyncio.ensure_future(world.channel().call(world.echo.plain, Text()))
        await settle()
        call.cancel()
        await settle()
        assert waiting[0].done()
        (session,) = world.server.sessions
        assert session.inflight == 0


async def test_a_cancelled_call_cancels_the_future_it_waits_for() -> None:
    waiting: list[asyncio.Future[Any]] = []

    def later(_context: Context, _request: Text) -> asyncio.Future[Any]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    async with World() as world:
        world.echo.on_plain = later
        call = asyncio.ensure_future(world.channel().call(world.echo.plain, Text()))
        while not waiting:
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await settle()
        assert waiting[0].cancelled()
        assert not any(session.inflight for session in world.server.sessions)


async def test_permissions_are_checked_at_the_server() -> None:
    async with World() as world:
        with pytest.raises(PermissionDenied, match=r"client.*echo\.guarded.*repair"):
            await world.channel().call(world.echo.guarded, Text())
        master = world.channel(role=Role.MASTER)
        assert (await master.call(world.echo.guarded, Text("ok"))).text == "ok"


async def test_a_method_that_the_server_does_not_have() -> None:
    stranger = Service("other", 9, Registry()).unary(
        "x", 1, request=Text, response=Text, permission=allow("x", Role.CLIENT)
    )
    async with World() as world:
        with pytest.raises(UnsupportedFormat, match=r"9\.1"):
            await world.channel().call(stranger, Text())


async def test_forwarding_carries_the_original_caller() -> None:
    async with World() as world:
        origin = Origin(4711, ("client",), "ada")
        follower = world.channel(role=Role.METASTORE)
        await follower.call(world.echo.echo, Text(), origin=origin)
        (context,) = world.echo.contexts
        assert (context.client_id, context.caller.name) == (4711, "ada")
        assert context.peer.roles == {Role.METASTORE}
        with pytest.raises(PermissionDenied, match="in the name of"):
            await world.channel().call(world.echo.echo, Text(), origin=origin)


class Slow:
    """A handler that waits for ever and remembers how it ended."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, _context: Context, request: Text) -> Reply[Text]:
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return Reply(request)

    async def stream(self, _context: Context, request: Text) -> AsyncIterator[Text]:
        yield request
        await self(_context, request)


async def test_a_deadline_ends_the_call_on_both_sides() -> None:
    async with World() as world:
        slow = world.echo.on_echo = Slow()
        channel = world.channel()
        await channel.connect()
        with pytest.raises(DeadlineExceeded):
            await channel.call(world.echo.echo, Text(), timeout_s=0.1)
        async with asyncio.timeout(5):
            await slow.stopped.wait()


async def test_the_server_enforces_the_deadline_by_itself() -> None:
    async with World(server_limits=Limits(deadline_us_max=20_000)) as world:
        slow = world.echo.on_echo = Slow()
        with pytest.raises(DeadlineExceeded, match="server"):
            await world.channel().call(world.echo.echo, Text(), timeout_s=60)
        assert slow.stopped.is_set()


async def test_cancelling_a_call_cancels_its_handler() -> None:
    async with World() as world:
        slow = world.echo.on_echo = Slow()
        call = asyncio.ensure_future(world.channel().call(world.echo.echo, Text()))
        await slow.started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(5):
            await slow.stopped.wait()


async def test_a_handler_that_never_began_is_released_too() -> None:
    async with World() as world:
        slow = world.echo.on_echo = Slow()
        await world.channel().connect()
        (session,) = world.server.sessions
        body = encode_message(Text())
        session.received(
            encode_frame(wire.REQUEST, world.echo.echo.number, 1, 0, 0, body)
            + encode_frame(wire.CANCEL, 0, 1, 0, 0)
        )
        assert session.inflight == 1
        await settle()
        assert session.inflight == 0
        assert not slow.started.is_set()


async def test_closing_a_stream_stops_its_generator() -> None:
    async with World() as world:
        slow = Slow()
        world.echo.on_count = slow.stream
        async with await world.channel().stream(world.echo.count, Text("x")) as stream:
            assert (await anext(stream)).text == "x"
            await slow.started.wait()
        async with asyncio.timeout(5):
            await slow.stopped.wait()


async def test_a_lost_connection_cancels_its_handlers_and_no_others() -> None:
    async with World() as world:
        slow = world.echo.on_echo = Slow()
        other = world.channel()
        await other.call(world.echo.plain, Text())
        (survivor,) = world.server.sessions
        channel = world.channel()
        call = asyncio.ensure_future(channel.call(world.echo.echo, Text()))
        await slow.started.wait()
        (session,) = world.server.sessions - {survivor}
        session.abort()
        with pytest.raises(Unavailable):
            await call
        await slow.stopped.wait()
        assert (await other.call(world.echo.plain, Text("still"))).text == "still"


async def test_closing_waits_for_what_is_in_flight() -> None:
    async with World() as world:
        slow = world.echo.on_echo = Slow()
        channel = world.channel()
        call = asyncio.ensure_future(channel.call(world.echo.echo, Text("last")))
        await slow.started.wait()
        closing = asyncio.ensure_future(world.server.close(grace_s=30))
        await settle()
        with pytest.raises(Unavailable):
            await channel.call(world.echo.plain, Text())
        slow.release.set()
        assert (await call).text == "last"
        await closing


async def test_the_grace_ends() -> None:
    async with World() as world:
        slow = world.echo.on_echo = Slow()
        call = asyncio.ensure_future(world.channel().call(world.echo.echo, Text()))
        await slow.started.wait()
        await world.server.close(grace_s=0.0)
        with pytest.raises(Unavailable):
            await call
        assert slow.stopped.is_set()


async def test_connections_are_bounded() -> None:
    async with World(server_options={"connections_max": 1}) as world:
        await world.channel().connect()
        (session,) = world.server.sessions
        with pytest.raises(Throttled):
            world.server.accept()
        session.abort()
        await settle()
        assert world.server.accept() is not session


async def test_reading_stops_while_a_peer_does_not_read() -> None:
    limits = Limits(outbox_bytes_soft=1000, window_bytes=1 << 30)
    async with World(server_limits=limits) as world:
        channel = world.channel()
        await channel.call(world.echo.plain, Text())
        (session,) = world.server.sessions
        session.writable(False)
        replies = [
            asyncio.ensure_future(channel.call(world.echo.plain, Text("x" * 400)))
            for _ in range(20)
        ]
        await settle()
        assert session.reading_paused
        late = asyncio.ensure_future(channel.call(world.echo.echo, Text("late")))
        await settle()
        assert world.echo.contexts == []
        session.writable(True)
        assert {reply.text for reply in await asyncio.gather(*replies)} == {"x" * 400}
        assert (await late).text == "late"
        assert len(world.echo.contexts) == 1


async def test_a_stream_waits_for_its_reader() -> None:
    produced = 0

    async def count(_context: Context, _request: Text) -> AsyncIterator[Text]:
        nonlocal produced
        for number in range(1000):
            produced = number
            yield Text("x" * 100, number)

    async with World(client_limits=Limits(window_bytes=2000)) as world:
        world.echo.on_count = count
        stream = await world.channel().stream(world.echo.count, Text())
        assert (await anext(stream)).count == 0
        await settle(200)
        assert produced < 30
        rest = [message.count async for message in stream]
        assert rest == list(range(1, 1000))


async def test_a_closed_channel_says_so() -> None:
    async with World() as world:
        channel = world.channel()
        await channel.call(world.echo.plain, Text())
        await channel.close()
        with pytest.raises(StaleHandle, match="closed"):
            await channel.call(world.echo.plain, Text())
        await settle()
        assert not world.server.sessions


async def test_the_state_of_a_session_ends_closed() -> None:
    async with World() as world:
        await world.channel().connect()
        (session,) = world.server.sessions
        assert session.connection is not None
        session.drain()
        await settle()
        assert session.connection.state is State.CLOSED
