"""Discovery over real sockets of the loopback interface."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from stele.cluster.discovery import Announcer, DiscoveryOptions, interface_of, search
from stele.env.memory import SeededRandom
from stele.env.real import SystemClock
from stele.errors import InvalidArgument, Unavailable
from stele.metastore.discovery import (
    Announcement,
    Question,
    Respondent,
    decode_packet,
    encode_packet,
)


def options(label: str = "stele") -> DiscoveryOptions:
    """A multicast port of this process alone, as other tests may run beside it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    multicast = f"239.255.74.{1 + os.getpid() % 250}:{port}"
    return DiscoveryOptions(interface="127.0.0.1", multicast=multicast, label=label)


@asynccontextmanager
async def members(
    place: DiscoveryOptions, *addresses: str, label: str = "stele"
) -> AsyncIterator[None]:
    announcers = [
        Announcer(Respondent(label, "c0ffee", number, address), SystemClock())
        for number, address in enumerate(addresses, 1)
    ]
    try:
        for announcer in announcers:
            await announcer.start(place)
        yield
    finally:
        for announcer in announcers:
            announcer.close()
            announcer.close()


async def test_s36_members_are_found_by_multicast() -> None:
    place = options()
    async with members(place, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"):
        found = await search(place, SeededRandom(1))
    assert sorted(found) == ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]


async def test_labels_separate_groups_on_one_network() -> None:
    place = options()
    async with members(place, "127.0.0.1:1", label="mine"), members(place, "127.0.0.1:2"):
        assert await search(place, SeededRandom(1)) == ("127.0.0.1:2",)


async def test_nobody_answers_where_nobody_is() -> None:
    assert await search(options(), SeededRandom(1), wait_s=0.05) == ()


async def test_garbage_at_the_port_is_passed_over() -> None:
    place = options()
    target = place.target()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noisy:
        interface = socket.inet_aton("127.0.0.1")
        noisy.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        async with members(place, "127.0.0.1:1"):
            for data in (b"", b"x" * 2_000, os.urandom(512), encode_packet(Question("other", 1))):
                noisy.sendto(data, target)
            assert await search(place, SeededRandom(1)) == ("127.0.0.1:1",)


class Liar(asyncio.DatagramProtocol):
    """Answers every question with what it likes, and with noise."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = decode_packet(data)
        assert isinstance(question, Question)
        for address in self._addresses:
            said = Announcement(question.label, question.nonce, "c", 1, address)
            self._transport.sendto(os.urandom(30), addr)
            self._transport.sendto(encode_packet(said), addr)


@pytest.mark.parametrize("has_tls", [False, True])
async def test_without_tls_only_this_machine_is_worth_a_dial(has_tls: bool) -> None:
    place = options()
    place = DiscoveryOptions(interface=place.interface, multicast=place.multicast, has_tls=has_tls)
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(place.target())
    member = socket.inet_aton(place.target()[0]) + socket.inet_aton("127.0.0.1")
    listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    liar = Liar("10.1.2.3:7420", "no address", "unix:/etc/passwd", "127.0.0.1:5", "name.test:5")
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: liar, sock=listening)
    try:
        found = await search(place, SeededRandom(1))
    finally:
        transport.close()
    outside = {"10.1.2.3:7420", "name.test:5"} if has_tls else set()
    assert set(found) == {"127.0.0.1:5"} | outside


async def test_a_machine_without_that_interface_says_so() -> None:
    place = DiscoveryOptions(interface="192.0.2.1", has_tls=True)
    with pytest.raises(Unavailable, match="has no multicast"):
        await search(place, SeededRandom(1), wait_s=1)
    announcer = Announcer(Respondent("stele", "c", 1, "a:1"), SystemClock())
    await announcer.start(place)
    announcer.close()


def test_where_to_search_is_checked() -> None:
    with pytest.raises(InvalidArgument, match="without TLS"):
        DiscoveryOptions(interface="10.0.0.1")
    with pytest.raises(InvalidArgument, match="not an IPv4 address"):
        DiscoveryOptions(interface="eth0")
    for multicast in ("10.0.0.1:5", "239.1.1.1:0", "unix:/a", "host:1"):
        with pytest.raises(InvalidArgument, match="not a multicast group"):
            DiscoveryOptions(interface="127.0.0.1", multicast=multicast)
    with pytest.raises(InvalidArgument, match="label"):
        DiscoveryOptions(interface="127.0.0.1", label="")


def test_the_interface_is_that_of_the_address() -> None:
    assert interface_of("127.0.0.1:7420") == "127.0.0.1"
    assert interface_of("localhost:7420") == "127.0.0.1"
    with pytest.raises(InvalidArgument, match="no network interface"):
        interface_of("unix:/a")
    with pytest.raises(InvalidArgument, match="--discover-on"):
        interface_of("[::1]:7420")
