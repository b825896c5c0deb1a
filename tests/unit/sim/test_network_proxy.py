"""The proxy passes everything on, and stalls, delays and resets only what it was told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from stele.env.memory import SeededRandom
from stele.errors import AlreadyExists, InvalidArgument
from stele.sim.network_proxy import NetworkProxy, Weather

BLOCKED = Weather(blocked=True)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def end(*writers: asyncio.StreamWriter) -> None:
    """Close at once, and leave nothing behind."""
    for writer in writers:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


class Node:
    """A server that keeps the connections it got."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[Streams] = asyncio.Queue()
        self.address = ""
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.append(writer)
            await self.accepted.put((reader, writer))

        self._server = await asyncio.start_server(accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await end(*self._writers)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    started = Node()
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
def proxy() -> Iterator[NetworkProxy]:
    with NetworkProxy(SeededRandom(1)) as running:
        yield running


class Connection:
    """Both ends of a connection from a to b, through the proxy."""

    def __init__(self, near: Streams, far: Streams) -> None:
        self.near_reader, self.near_writer = near
        self.far_reader, self.far_writer = far

    async def there(self, data: bytes) -> bytes:
        self.near_writer.write(data)
        return await self.far_reader.readexactly(len(data))

    async def back(self, data: bytes) -> bytes:
        self.far_writer.write(data)
        return await self.near_reader.readexactly(len(data))

    async def close(self) -> None:
        await end(self.near_writer, self.far_writer)


async def dial(address: str) -> Streams:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


@pytest.fixture
async def connection(proxy: NetworkProxy, node: Node) -> AsyncIterator[Connection]:
    near = await dial(proxy.link("a", "b", node.address))
    both = Connection(near, await node.accepted.get())
    yield both
    await both.close()


async def knock(address: str) -> bytes:
    """Connect and wait for a byte."""
    reader, writer = await dial(address)
    try:
        return await reader.readexactly(1)
    finally:
        await end(writer)


async def stays_silent(reader: asyncio.StreamReader) -> bool:
    """Whether nothing arrives for a moment."""
    try:
        await asyncio.wait_for(reader.read(1), 0.05)
    except TimeoutError:
        return True
    return False


async def test_bytes_go_both_ways(connection: Connection, proxy: NetworkProxy) -> None:
    assert await connection.there(b"hello") == b"hello"
    assert await connection.back(b"world") == b"world"
    assert proxy.counters["bytes"] == 10
    assert proxy.counters["connections"] == 1


async def test_much_goes_both_ways_at_once(connection: Connection) -> None:
    much = bytes(range(256)) * 20_000
    there, back = await asyncio.gather(connection.there(much), connection.back(much[::-1]))
    assert there == much
    assert back == much[::-1]


async def test_a_close_is_passed_on_behind_the_last_byte(connection: Connection) -> None:
    much = b"x" * 3_000_000
    connection.near_writer.write(much)
    connection.near_writer.write_eof()
    assert len(await connection.far_reader.read(-1)) == len(much)
    assert await connection.back(b"still open") == b"still open"
    connection.far_writer.close()
    assert await connection.near_reader.read(-1) == b""


async def test_a_one_way_block(connection: Connection, proxy: NetworkProxy) -> None:
    proxy.set("a", "b", BLOCKED)
    connection.near_writer.write(b"late")
    assert await stays_silent(connection.far_reader)
    assert await connection.back(b"heard") == b"heard"
    proxy.heal()
    assert await connection.far_reader.readexactly(4) == b"late"
    assert proxy.counters["stalled"] == 1


async def test_a_block_the_other_way(connection: Connection, proxy: NetworkProxy) -> None:
    proxy.set("b", "a", BLOCKED)
    connection.far_writer.write(b"late")
    assert await stays_silent(connection.near_reader)
    assert await connection.there(b"heard") == b"heard"
    proxy.set("b", "a", Weather())
    assert await connection.near_reader.readexactly(4) == b"late"


async def test_what_a_block_held_back_comes_in_order(
    connection: Connection, proxy: NetworkProxy
) -> None:
    proxy.set("a", "b", BLOCKED)
    for number in range(100):
        connection.near_writer.write(b"%02d" % number)
        await asyncio.sleep(0)
    proxy.heal()
    expected = b"".join(b"%02d" % number for number in range(100))
    assert await connection.far_reader.readexactly(200) == expected


async def test_a_blocked_sender_feels_it(connection: Connection, proxy: NetworkProxy) -> None:
    proxy.set("a", "b", BLOCKED)
    connection.near_writer.write(b"x" * 64_000_000)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connection.near_writer.drain(), 0.2)


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("b", "a")])
async def test_new_connections_hang_while_one_way_is_blocked(
    proxy: NetworkProxy, node: Node, source: str, target: str
) -> None:
    address = proxy.link("a", "b", node.address)
    proxy.set(source, target, BLOCKED)
    near = await dial(address)
    near[1].write(b"x")
    await asyncio.sleep(0.05)
    assert node.accepted.empty()
    proxy.heal()
    both = Connection(near, await node.accepted.get())
    assert await both.far_reader.readexactly(1) == b"x"
    await both.close()


async def test_a_delay_is_a_delay_and_not_a_speed(
    connection: Connection, proxy: NetworkProxy
) -> None:
    proxy.set("a", "b", Weather(delay_us=30_000, jitter_us=10_000))
    loop = asyncio.get_running_loop()
    start = loop.time()
    for _ in range(20):
        connection.near_writer.write(b"x")
        await connection.near_writer.drain()
        await asyncio.sleep(0.001)
    await connection.far_reader.readexactly(20)
    assert loop.time() - start >= 0.03
    assert proxy.counters["delayed"] >= 1


async def test_a_speed_limit(connection: Connection, proxy: NetworkProxy) -> None:
    proxy.set("a", "b", Weather(bytes_per_s_max=1_000_000))
    loop = asyncio.get_running_loop()
    start = loop.time()
    await connection.there(b"x" * 100_000)
    assert loop.time() - start >= 0.03, "the last piece alone takes as long"


async def test_a_reset_is_told_to_both(connection: Connection, proxy: NetworkProxy) -> None:
    await connection.there(b"x")
    proxy.reset("a", "b")
    with pytest.raises(ConnectionResetError):
        await connection.near_reader.readexactly(1)
    with pytest.raises(ConnectionResetError):
        await connection.far_reader.readexactly(1)
    assert proxy.counters["reset"] == 1


async def test_a_reset_of_others_is_not_felt(connection: Connection, proxy: NetworkProxy) -> None:
    proxy.reset("b", "a")
    assert await connection.there(b"x") == b"x"


async def test_resets_by_chance(proxy: NetworkProxy, node: Node) -> None:
    address = proxy.link("a", "b", node.address)
    proxy.set("a", "b", Weather(reset_one_in=3))
    for _ in range(10):
        near = await dial(address)
        both = Connection(near, await node.accepted.get())
        with suppress(ConnectionResetError):
            while True:
                await both.there(b"x")
        await both.close()
    assert proxy.counters["reset by chance"] == 10
    assert proxy.counters["connections broken"] == 10


async def test_refused_connections(proxy: NetworkProxy, node: Node) -> None:
    address = proxy.link("a", "b", node.address)
    proxy.set("a", "b", Weather(refused=True))
    with pytest.raises(ConnectionResetError):
        await knock(address)
    assert node.accepted.empty()


async def test_a_target_that_is_down_resets(proxy: NetworkProxy, node: Node) -> None:
    address = proxy.link("a", "b", node.address)
    await node.stop()
    with pytest.raises(ConnectionResetError):
        await knock(address)
    assert proxy.counters["connections broken"] == 1


async def test_partitions_of_a_mesh(proxy: NetworkProxy) -> None:
    nodes = {name: Node() for name in "abc"}
    for each in nodes.values():
        await each.start()
    links = proxy.mesh({name: each.address for name, each in nodes.items()})
    assert set(links) == {(a, b) for a in "abc" for b in "abc" if a != b}
    between = {
        (source, target): Connection(await dial(address), await nodes[target].accepted.get())
        for (source, target), address in links.items()
    }

    async def check_reached(*expected: str) -> None:
        """Who hears whom, however long it takes; in the end all do."""
        for both in between.values():
            both.near_writer.write(b"?")
        reached = [both for pair, both in between.items() if "".join(pair) in expected]
        silent = [both for pair, both in between.items() if "".join(pair) not in expected]
        assert len(reached) == len(expected)
        for both in reached:
            assert await both.far_reader.readexactly(1) == b"?"
        for both in silent:
            assert await stays_silent(both.far_reader)
        proxy.heal()
        for both in silent:
            assert await both.far_reader.readexactly(1) == b"?"

    await check_reached("ab", "ac", "ba", "bc", "ca", "cb")
    proxy.partition("a")
    await check_reached("bc", "cb")
    proxy.partition(["a", "b"])
    await check_reached("ab", "ba")
    proxy.isolate("b")
    await check_reached("ac", "ca")
    proxy.heal(reset=True)
    assert proxy.counters["reset"] == 6
    for both in between.values():
        await both.close()
    for each in nodes.values():
        await each.stop()


def test_a_link_is_made_once(proxy: NetworkProxy) -> None:
    proxy.link("a", "b", "127.0.0.1:1")
    with pytest.raises(AlreadyExists, match="there is a link from a to b"):
        proxy.link("a", "b", "127.0.0.1:1")


def test_only_tcp_is_proxied(proxy: NetworkProxy) -> None:
    with pytest.raises(InvalidArgument, match="no TCP address"):
        proxy.link("a", "b", "unix:/run/x")


async def test_it_ends_while_connections_are_stalled(node: Node) -> None:
    with NetworkProxy(SeededRandom(1)) as proxy:
        near = await dial(proxy.link("a", "b", node.address))
        both = Connection(near, await node.accepted.get())
        proxy.isolate("a")
        both.near_writer.write(b"x")
        hanging = await dial(proxy.link("c", "b", node.address))
        await asyncio.sleep(0.02)
    with pytest.raises(ConnectionResetError):
        await both.near_reader.readexactly(1)
    await both.close()
    await end(hanging[1])
