"""The same names without await, from any thread, and not across a fork."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stele.errors import Conflict, StaleHandle, Unavailable
from stele.rpc.channel import Channel
from stele.rpc.network import SocketNetwork
from stele.rpc.service import Context
from stele.rpc.sync import LoopThread, SyncChannel
from tests.unit.rpc.support import CountingRandom, Text, World
from tests.unit.rpc.test_fork import in_child


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("test-loop")
    yield thread
    thread.close()


@pytest.fixture
def world(thread: LoopThread, tmp_path: Path) -> Iterator[World]:
    async def make() -> World:
        return World(network=SocketNetwork(), address=f"unix:{tmp_path}/s")

    world = thread.run(make())
    yield world
    thread.run(world.close())


@pytest.fixture
def channel(world: World) -> Iterator[SyncChannel]:
    with SyncChannel(world.address, random=CountingRandom()) as channel:
        yield channel


def test_both_faces_have_the_same_names() -> None:
    def face(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    assert face(SyncChannel) == face(Channel)


def test_every_kind_of_call(world: World, channel: SyncChannel) -> None:
    channel.connect()
    assert channel.is_open
    assert channel.call(world.echo.plain, Text("hi")).text == "hi"
    reply = channel.call_attached(world.echo.echo, Text(), [b"raw"])
    assert [bytes(part) for part in reply.attachments] == [b"raw"]
    channel.send(world.echo.note, Text("noted"))
    with channel.stream(world.echo.count, Text("", 500)) as stream:
        assert [message.count for message in stream] == list(range(500))
    assert world.echo.noted == ["noted"]


def test_dialling_begins_a_connection_and_does_not_wait(channel: SyncChannel) -> None:
    channel.dial()
    channel.connect()  # joins the attempt that dial() began
    assert channel.is_open
    channel.dial()
    assert channel.is_open


def test_a_stream_may_be_left_early(world: World, channel: SyncChannel) -> None:
    with channel.stream(world.echo.count, Text("", 100_000)) as stream:
        assert next(stream).count == 0
    assert channel.call(world.echo.plain, Text("on")).text == "on"


def test_errors_are_raised_where_the_call_was_made(world: World, channel: SyncChannel) -> None:
    async def fail(_context: Context, _request: Text) -> None:
        raise Conflict("no")

    world.echo.on_echo = fail
    with pytest.raises(Conflict):
        channel.call(world.echo.echo, Text())


def test_any_thread_may_call(world: World, channel: SyncChannel) -> None:
    with ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(channel.call, world.echo.plain, Text("", number)) for number in range(200)
        ]
        assert [call.result().count for call in calls] == list(range(200))


def test_a_closed_channel_and_a_closed_thread_say_so(world: World, thread: LoopThread) -> None:
    own = LoopThread()
    channel = SyncChannel(world.address, random=CountingRandom(), thread=own)
    channel.call(world.echo.plain, Text())
    channel.close()
    with pytest.raises(StaleHandle):
        channel.call(world.echo.plain, Text())
    own.close()
    own.close()
    with pytest.raises(StaleHandle, match="closed"):
        channel.call(world.echo.plain, Text())
    assert not channel.is_open
    channel.close()


def test_nobody_there(thread: LoopThread, tmp_path: Path) -> None:
    channel = SyncChannel(f"unix:{tmp_path}/none", random=CountingRandom(), thread=thread)
    with pytest.raises(Unavailable):
        channel.connect(wait=False)
    channel.close()


def test_the_process_has_one_thread_until_it_is_closed() -> None:
    first = LoopThread.shared()
    assert LoopThread.shared() is first
    first.close()
    second = LoopThread.shared()
    assert second is not first
    assert second.is_usable


def test_a_fork_leaves_the_parents_channel_alone(world: World, channel: SyncChannel) -> None:
    assert channel.call(world.echo.plain, Text("before")).text == "before"

    def judge() -> bool:
        with pytest.raises(StaleHandle, match="fork"):
            channel.call(world.echo.plain, Text())
        channel.close()
        with SyncChannel(world.address, random=CountingRandom()) as own:
            assert own.call(world.echo.plain, Text("child")).text == "child"
        return not channel.is_open

    assert in_child(judge) == 0
    assert channel.call(world.echo.plain, Text("after")).text == "after"


def test_a_fork_while_the_shared_lock_is_held(world: World) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with LoopThread._shared_lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()

    def judge() -> bool:
        with SyncChannel(world.address, random=CountingRandom()) as own:
            return own.call(world.echo.plain, Text("x")).text == "x"

    try:
        assert in_child(judge) == 0
    finally:
        done.set()
        holder.join()
