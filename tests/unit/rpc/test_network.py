"""Sockets as byte streams: who may listen where, and who is at the other end."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from stele.env.ports import ByteStream
from stele.errors import (
    AlreadyExists,
    InvalidArgument,
    SteleError,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from stele.rpc.identity import Proof, Role
from stele.rpc.loops import new_loop
from stele.rpc.network import (
    CLAIMED,
    JOIN_BYTES_MAX,
    SocketNetwork,
    describe_failure,
    link_of,
)
from tests.unit.rpc.certificates import Authority


class Recorder:
    """A handler that remembers what it heard."""

    def __init__(self) -> None:
        self.stream: ByteStream | None = None
        self.data = b""
        self.ends: list[SteleError | None] = []
        self.heard = asyncio.Event()

    def opened(self, stream: ByteStream) -> None:
        self.stream = stream
        self.heard.set()

    def received(self, data: bytes) -> None:
        self.data += data
        self.heard.set()

    def writable(self, ready: bool) -> None: ...

    def closed(self, error: SteleError | None) -> None:
        self.ends.append(error)
        self.heard.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.heard.clear()
                await self.heard.wait()


async def meet(network: SocketNetwork, address: str) -> tuple[Recorder, Recorder]:
    """Both ends of a new connection."""
    server, client = Recorder(), Recorder()
    listener = network.listen(address, lambda: server)
    network.connect(listener.address, client)
    await client.until(lambda: client.stream)
    await server.until(lambda: server.stream)
    listener.close()
    listener.close()
    return server, client


@pytest.fixture(params=["tcp", "unix"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/s"


async def test_bytes_go_both_ways_and_the_end_is_heard(address: str) -> None:
    server, client = await meet(SocketNetwork(), address)
    assert client.stream is not None
    assert server.stream is not None
    big = bytes(JOIN_BYTES_MAX)
    client.stream.write(b"one", b"two")
    client.stream.write(big, memoryview(b"end"))
    server.stream.write(b"back")
    await server.until(lambda: len(server.data) == len(big) + 9)
    assert server.data == b"onetwo" + big + b"end"
    await client.until(lambda: client.data == b"back")
    client.stream.close()
    await server.until(lambda: server.ends)
    await client.until(lambda: client.ends)
    assert server.ends == client.ends == [None]
    client.stream.write(b"after the end")
    client.stream.pause_reading()
    client.stream.resume_reading()


async def test_reading_can_be_paused(address: str) -> None:
    server, client = await meet(SocketNetwork(), address)
    assert client.stream is not None
    assert server.stream is not None
    server.stream.pause_reading()
    client.stream.write(b"x")
    await asyncio.sleep(0.05)
    assert server.data == b""
    server.stream.resume_reading()
    await server.until(lambda: server.data)
    client.stream.abort()
    await server.until(lambda: server.ends)


async def test_what_a_link_proves(tmp_path: Path) -> None:
    network = SocketNetwork()
    for address, proof in (("127.0.0.1:0", Proof.CLAIM), (f"unix:{tmp_path}/s", Proof.KERNEL)):
        for end in await meet(network, address):
            assert end.stream is not None
            assert link_of(end.stream).proof is proof
            end.stream.abort()
    assert link_of(object()) is CLAIMED  # type: ignore[arg-type]


async def test_another_user_on_a_unix_socket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    network, server, client = SocketNetwork(), Recorder(), Recorder()
    listener = network.listen(f"unix:{tmp_path}/s", lambda: server)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setattr("stele.rpc.listening.ROOT_UID", 54322)
    network.connect(listener.address, client)
    await client.until(lambda: client.ends)
    assert isinstance(client.ends[0], Unauthenticated)
    await asyncio.sleep(0.05)
    assert server.stream is None
    assert f"user {me}" in caplog.text
    listener.close()


async def test_plaintext_is_for_this_machine_only() -> None:
    network, client = SocketNetwork(), Recorder()
    for address in ("0.0.0.0:0", "[::]:0", "10.1.2.3:0"):
        with pytest.raises(InvalidArgument, match="without TLS"):
            network.listen(address, Recorder)
    network.connect("10.1.2.3:7420", client)
    await client.until(lambda: client.ends)
    assert isinstance(client.ends[0], InvalidArgument)


async def test_plaintext_is_announced_at_every_start(caplog: pytest.LogCaptureFixture) -> None:
    SocketNetwork().listen("127.0.0.1:0", Recorder).close()
    assert "without TLS" in caplog.text


async def test_a_closed_address_is_free_again(address: str) -> None:
    network = SocketNetwork()
    listener = network.listen(address, Recorder)
    with pytest.raises(AlreadyExists):
        network.listen(listener.address, Recorder)
    listener.close()
    network.listen(listener.address, Recorder).close()


@pytest.mark.parametrize("host", ["host.invalid", "a..b", "x" * 64])
async def test_an_unknown_host_is_unavailable_or_invalid(host: str) -> None:
    network, client = SocketNetwork(), Recorder()
    with pytest.raises(InvalidArgument):
        network.listen(f"{host}:1", Recorder)
    network.connect(f"{host}:1", client)
    await client.until(lambda: client.ends)
    assert isinstance(client.ends[0], Unavailable)


async def test_nobody_at_the_address_is_unavailable(address: str) -> None:
    network, client = SocketNetwork(), Recorder()
    listener = network.listen(address, Recorder)
    listener.close()
    network.connect(listener.address, client)
    await client.until(lambda: client.ends)
    assert isinstance(client.ends[0], Unavailable)


async def test_a_refused_connection_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> Recorder:
        raise Throttled("full house")

    network, client = SocketNetwork(), Recorder()
    listener = network.listen("127.0.0.1:0", refuse)
    network.connect(listener.address, client)
    await client.until(lambda: client.ends)
    listener.close()
    (record,) = [record for record in caplog.records if "refused" in record.getMessage()]
    assert "full house" in record.getMessage()
    assert record.exc_info is None
    assert record.levelno == logging.WARNING


async def test_without_descriptors_the_listener_pauses_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Exhausted:
        """A listening socket in a process that has no descriptors left."""

        def __init__(self, real: socket.socket):
            self._real = real
            self.fileno, self.close = real.fileno, real.close

        def accept(self) -> tuple[socket.socket, object]:
            if len(caplog.records) < 4:
                raise OSError(errno.EMFILE, "Too many open files")
            return self._real.accept()

    network, server, client = SocketNetwork(), Recorder(), Recorder()
    listener = network.listen("127.0.0.1:0", lambda: server)
    listener._socket = Exhausted(listener._socket)  # type: ignore[assignment]
    network.connect(listener.address, client)
    await server.until(lambda: server.stream)
    # One line announces plaintext; three refusals with a pause after each, and not thousands.
    assert len(caplog.records) == 4
    listener.close()
    assert server.stream is not None
    server.stream.abort()
    await client.until(lambda: client.ends)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ssl.SSLError(1, "bad certificate"), Unauthenticated),
        (ssl.SSLEOFError(8, "eof"), Unavailable),
        (TimeoutError(), Unavailable),
        (ConnectionResetError("reset"), Unavailable),
        (Throttled("x"), Throttled),
    ],
)
def test_failures_say_what_to_do(error: Exception, expected: type[SteleError]) -> None:
    found = describe_failure("m1:7420", error)
    assert type(found) is expected
    assert found is error or found.__cause__ is error


HASTY_ENDS = 30


class Hasty(Recorder):
    """Has enough of a connection as soon as it stands."""

    def opened(self, stream: ByteStream) -> None:
        super().opened(stream)
        stream.abort()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, new_loop])
def test_a_connection_that_ends_at_once_leaves_no_descriptor_behind(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket that has a number without a descriptor would close the next one with that number."""
    sockets: list[socket.socket] = []
    monkeypatch.setattr("stele.rpc.network.stays_with_parent", sockets.append)

    async def come_and_go() -> None:
        network, server, client = SocketNetwork(), Recorder(), Hasty()
        listener = network.listen("127.0.0.1:0", lambda: server)
        network.connect(listener.address, client)
        await client.until(lambda: client.ends)
        await server.until(lambda: server.ends)
        listener.close()
        await asyncio.gather(*network._dialling)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(come_and_go())
    assert [sock.fileno() for sock in sockets] == [-1] * 3


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, new_loop])
def test_a_handshake_that_is_cut_off_leaves_no_descriptor_behind(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The other end resets every connection as soon as it stands, before it has said anything."""
    sockets: list[socket.socket] = []
    monkeypatch.setattr("stele.rpc.network.stays_with_parent", sockets.append)
    credentials = Authority(tmp_path).credentials("m1", Role.METASTORE)

    async def be_cut_off(address: str, listening: socket.socket) -> None:
        network = SocketNetwork(credentials)
        for _ in range(HASTY_ENDS):
            client = Recorder()
            network.connect(address, client)
            accepted, _ = await asyncio.to_thread(listening.accept)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()
            await client.until(partial(getattr, client, "ends"))
            await asyncio.gather(*network._dialling)
        await asyncio.sleep(0.01)  # transports that are closing let go of theirs

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(be_cut_off(address, listening))
    assert {sock.fileno() for sock in sockets} == {-1}
    assert len(sockets) == HASTY_ENDS
