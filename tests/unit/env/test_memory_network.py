"""Connections in memory: order, ends, and the pressure of a slow reader."""

from __future__ import annotations

import pytest

from stele.env.memory import MemoryClock, MemoryTasks
from stele.env.memory_network import PIPE_BYTES_MAX, MemoryNetwork
from stele.env.ports import ByteStream
from stele.errors import AlreadyExists, SteleError, Unavailable


class Recorder:
    """A handler that remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.data = b""
        self.stream: ByteStream

    def opened(self, stream: ByteStream) -> None:
        self.heard.append("opened")
        self.stream = stream

    def received(self, data: bytes) -> None:
        self.data += data

    def writable(self, ready: bool) -> None:
        self.heard.append(ready)

    def closed(self, error: SteleError | None) -> None:
        self.heard.append(error if error is None else type(error))


class World:
    """A server at ``s:1`` and one client, connected."""

    def __init__(self) -> None:
        self.tasks = MemoryTasks(MemoryClock())
        self.network = MemoryNetwork(self.tasks)
        self.accepted: list[Recorder] = []
        self.listener = self.network.listen("s:1", self.accept)
        self.client = Recorder()
        self.network.connect("s:1", self.client)
        self.tasks.run_ready()
        self.server = self.accepted[0]

    def accept(self) -> Recorder:
        self.accepted.append(Recorder())
        return self.accepted[-1]


def test_bytes_arrive_in_order_both_ways() -> None:
    world = World()
    world.client.stream.write(b"one", memoryview(b"two"))
    world.client.stream.write(bytearray(b"three"))
    world.client.stream.write()
    world.server.stream.write(b"answer")
    assert world.server.data == b"", "nothing arrives within the call"
    world.tasks.run_ready()
    assert (world.server.data, world.client.data) == (b"onetwothree", b"answer")
    assert (world.client.stream.peer, world.server.stream.peer) == ("s:1", "client-1")
    assert world.listener.address == "s:1"


def test_nobody_listens() -> None:
    world = World()
    lonely = Recorder()
    world.network.connect("s:2", lonely)
    assert lonely.heard == []
    world.tasks.run_ready()
    assert lonely.heard == [Unavailable]


def test_an_address_is_taken_once_and_free_after_close() -> None:
    world = World()
    with pytest.raises(AlreadyExists, match="s:1"):
        world.network.listen("s:1", world.accept)
    world.listener.close()
    again = world.network.listen("s:1", world.accept)
    world.listener.close()
    late = Recorder()
    world.network.connect("s:1", late)
    world.client.stream.write(b"still there")
    world.tasks.run_ready()
    assert late.heard == ["opened"]
    assert world.server.data == b"still there"
    again.close()


def test_close_delivers_what_was_written_before_it() -> None:
    world = World()
    world.server.stream.pause_reading()
    world.client.stream.write(b"last words")
    world.client.stream.close()
    world.client.stream.close()
    world.client.stream.write(b"too late")
    world.tasks.run_ready()
    assert world.client.heard == ["opened", None]
    assert (world.server.data, world.server.heard) == (b"", ["opened"])
    world.server.stream.resume_reading()
    world.tasks.run_ready()
    assert (world.server.data, world.server.heard) == (b"last words", ["opened", None])
    world.server.stream.write(b"into the void")
    world.server.stream.close()
    world.tasks.run_ready()
    assert (world.client.data, world.server.heard) == (b"", ["opened", None])


def test_abort_forgets_what_was_not_delivered() -> None:
    world = World()
    world.client.stream.write(b"lost")
    world.client.stream.abort()
    world.client.stream.abort()
    world.tasks.run_ready()
    assert world.server.data == b""
    assert world.server.heard == world.client.heard == ["opened", Unavailable]


def test_a_slow_reader_stops_the_sender() -> None:
    world = World()
    world.server.stream.pause_reading()
    world.client.stream.write(bytes(PIPE_BYTES_MAX))
    world.tasks.run_ready()
    assert world.client.heard == ["opened"]
    world.client.stream.write(b"x")
    world.client.stream.write(b"y")
    world.tasks.run_ready()
    assert world.client.heard == ["opened", False]
    world.server.stream.resume_reading()
    world.tasks.run_ready()
    assert world.client.heard == ["opened", False, True]
    assert len(world.server.data) == PIPE_BYTES_MAX + 2
