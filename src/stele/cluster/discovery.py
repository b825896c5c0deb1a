"""Discovery on the network: the sockets of ``stele.metastore.discovery``.

Multicast stays within one network (TTL 1) and within one interface, which is that of the address a
node listens at unless said otherwise. Without TLS that has to be the loopback interface, and only
addresses of this machine are taken from what is heard: a newcomer that cannot know who is at the
other end must not leave the machine.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import Final, cast

from stele.env.ports import Clock, Random
from stele.errors import InvalidArgument, SteleError, Unavailable
from stele.metastore.discovery import NONCE_BITS, Respondent, Search, check_label
from stele.rpc.addresses import TcpAddress, is_loopback, parse_address

MULTICAST_DEFAULT: Final = "239.255.74.20:7429"
"""In the block for use within an organisation (RFC 2365)."""

LABEL_DEFAULT: Final = "stele"

ASK_PERIOD_S: Final = 0.3
LISTEN_S: Final = 1.0
"""How long answers are gathered once the first has come: a second group should be heard, too."""

WAIT_S: Final = 10.0
"""How long one search lasts; whoever waits for a group to appear searches again."""

log = logging.getLogger("stele.metastore")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOptions:
    """Where a node asks and answers."""

    interface: str
    """The address of the network interface, as a number."""
    multicast: str = MULTICAST_DEFAULT
    label: str = LABEL_DEFAULT
    has_tls: bool = False

    def __post_init__(self) -> None:
        check_label(self.label)
        self.target()
        _check_numeric(self.interface)
        if not self.has_tls and not is_loopback(self.interface):
            raise InvalidArgument(
                f"cannot search for a group on {self.interface} without TLS: anybody there could "
                "answer; give a certificate, a key and an authority"
            )

    def target(self) -> tuple[str, int]:
        """The multicast group and its port."""
        address = parse_address(self.multicast)
        if isinstance(address, TcpAddress) and _is_multicast(address.host) and address.port:
            return address.host, address.port
        raise InvalidArgument(
            f"{self.multicast!r} is not a multicast group with a port, such as {MULTICAST_DEFAULT}"
        )


def interface_of(address: str) -> str:
    """The interface that an address is at."""
    parsed = parse_address(address)
    if not isinstance(parsed, TcpAddress):
        raise InvalidArgument(f"{address} is at no network interface: discovery needs one")
    try:
        return str(socket.getaddrinfo(parsed.host, parsed.port, socket.AF_INET)[0][4][0])
    except OSError as error:
        raise InvalidArgument(
            f"{address} has no IPv4 address to search from: name one with --discover-on"
        ) from error


def _check_numeric(host: str) -> None:
    try:
        socket.inet_aton(host)
    except OSError as error:
        raise InvalidArgument(f"interface {host!r} is not an IPv4 address") from error


def _is_multicast(host: str) -> bool:
    try:
        return 224 <= socket.inet_aton(host)[0] <= 239
    except OSError:
        return False


class Announcer(asyncio.DatagramProtocol):
    """Answers the questions that reach this member. Belongs to the loop it was started in."""

    def __init__(self, respondent: Respondent, clock: Clock) -> None:
        self._respondent = respondent
        self._clock = clock
        self._transport: asyncio.DatagramTransport | None = None

    async def start(self, options: DiscoveryOptions) -> None:
        """Listen. A machine without multicast is told of, and serves nevertheless."""
        try:
            listening = _listening_socket(options)
        except OSError as error:
            log.warning("nobody will discover this node at %s: %s", options.multicast, error)
            return
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, sock=listening)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self._respondent.answer(data, self._clock.monotonic_us())
        if answer is not None and self._transport is not None:
            self._transport.sendto(answer, addr)

    def error_received(self, exc: Exception) -> None:
        log.info("an announcement was not sent: %s", exc)

    def close(self) -> None:
        """Answer no more. Idempotent."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None


class _Listener(asyncio.DatagramProtocol):
    def __init__(self, search: Search) -> None:
        self._search = search
        self.heard = asyncio.Event()

    def datagram_received(self, data: bytes, _addr: tuple[str, int]) -> None:
        if self._search.hear(data):
            self.heard.set()

    def error_received(self, exc: Exception) -> None:
        log.info("a question was not sent: %s", exc)


async def search(
    options: DiscoveryOptions, random: Random, wait_s: float = WAIT_S
) -> tuple[str, ...]:
    """Addresses at which members of a group may be; none when nobody answers in time.

    ``Unavailable`` where there is no multicast at all.
    """
    found = Search(options.label, random.below(1 << NONCE_BITS))
    loop = asyncio.get_running_loop()
    listener = _Listener(found)
    try:
        transport, _ = await loop.create_datagram_endpoint(
            lambda: listener, sock=_asking_socket(options)
        )
        asking = asyncio.ensure_future(_ask(transport, found.question, options.target()))
    except OSError as error:
        raise Unavailable(f"{options.interface} has no multicast: {error}") from error
    try:
        async with asyncio.timeout(wait_s):
            await listener.heard.wait()
        await asyncio.sleep(LISTEN_S)
    except TimeoutError:
        return ()
    finally:
        asking.cancel()
        transport.close()
    return tuple(address for address in found.addresses if _may_dial(address, options))


async def _ask(
    transport: asyncio.DatagramTransport, question: bytes, target: tuple[str, int]
) -> None:
    while True:
        transport.sendto(question, target)
        await asyncio.sleep(ASK_PERIOD_S)


def _may_dial(address: str, options: DiscoveryOptions) -> bool:
    try:
        parsed = parse_address(address)
    except SteleError:
        return False
    if not isinstance(parsed, TcpAddress):
        return False
    return options.has_tls or is_loopback(parsed.host)


def _listening_socket(options: DiscoveryOptions) -> socket.socket:
    """Several nodes of one machine listen at the same port; each gets every question."""
    group, port = options.target()
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((group, port))
        member = socket.inet_aton(group) + socket.inet_aton(options.interface)
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _asking_socket(options: DiscoveryOptions) -> socket.socket:
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        asking.bind((options.interface, 0))
        interface = socket.inet_aton(options.interface)
        asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        asking.setblocking(False)
    except BaseException:
        asking.close()
        raise
    return asking
