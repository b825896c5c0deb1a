"""The connections of a node to the other members of its group.

Raft's messages go one way and may be lost, so nothing here waits or repeats: what cannot be sent
now is dropped, and the node hears that the peer is unreachable. Connections follow the membership:
who has left it is no longer called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from stele.env.ports import Network, Random
from stele.errors import SteleError, Unavailable
from stele.protocol.raft import DELIVER, TELL_REMOVED, Delivery, RemovalNotice
from stele.raft import Membership, Message
from stele.rpc import BackoffPolicy, Channel, ClientOptions, Credentials, Role

DIAL_BACKOFF: Final = BackoffPolicy(first_us=20_000, last_us=300_000)
"""A member that restarts has to be found within the time of an election."""

HEARD_FROM_MAX: Final = 16
"""Senders whose addresses a member remembers: the members, and leaders that it has yet to meet."""


class Peers:
    """Belongs to the loop it was made in."""

    def __init__(
        self,
        cluster: str,
        node: int,
        address: str,
        *,
        random: Random,
        credentials: Credentials | None,
        network: Network | None,
        unreachable: Callable[[int], None],
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._address = address
        self._heard_from: dict[int, str] = {}
        self._options = ClientOptions(
            role=Role.METASTORE,
            name=str(node),
            expect=frozenset({Role.METASTORE, Role.MASTER}),
        )
        self._random = random
        self._credentials = credentials
        self._network = network
        self._unreachable = unreachable
        self._membership = Membership()
        self._channels: dict[str, Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, membership: Membership) -> None:
        """These are the members now."""
        if membership is self._membership:
            return
        self._membership = membership
        for node in [n for n in self._heard_from if n not in membership.members]:
            del self._heard_from[node]
        known = {*membership.addresses.values(), *self._heard_from.values()}
        for address in set(self._channels) - known:
            closing = asyncio.ensure_future(self._channels.pop(address).close(grace_s=0))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def stay_connected(self) -> None:
        """Call the members that there is no connection to. Followers have nothing to say to each
        other until the leader is gone, and then a first message that only dials is lost."""
        for node in self._membership.members:
            if node != self._node:
                with suppress(SteleError):
                    self.channel(node).dial()

    def hear(self, node: int, address: str) -> None:
        """A node says where it is: it knows better than the membership, which may be out of date
        and cannot be changed before the members find each other."""
        if node in self._heard_from or len(self._heard_from) < HEARD_FROM_MAX:
            self._heard_from[node] = address

    def send(self, messages: Sequence[Message]) -> None:
        """Hand messages to the network, those for one member in one frame."""
        by_target: dict[int, list[Message]] = {}
        for message in messages:
            by_target.setdefault(message.target, []).append(message)
        for target, own in by_target.items():
            self._deliver(target, own)

    def _deliver(self, target: int, own: list[Message]) -> None:
        try:
            delivery = Delivery(self._cluster, self._address, tuple(own))
            self.channel(target).send(DELIVER, delivery, at_once=True)
        except SteleError:
            self._unreachable(target)

    def tell_removed(self, node: int, index: int) -> None:
        """Tell a node that it is no member, as of an index. If that is lost it asks again."""
        with suppress(SteleError):
            notice = RemovalNotice(self._cluster, node, index, self._address)
            self.channel(node).send(TELL_REMOVED, notice)

    def channel(self, node: int) -> Channel:
        """The connection to a member."""
        address = self._heard_from.get(node) or self._membership.addresses.get(node, "")
        if not address:
            raise Unavailable(f"nobody has said where node {node} is")
        found = self._channels.get(address)
        if found is None:
            found = self._channels[address] = Channel(
                address,
                self._options,
                random=self._random,
                credentials=self._credentials,
                network=self._network,
                backoff=DIAL_BACKOFF,
            )
        return found

    async def close(self) -> None:
        """Call nobody any more."""
        channels = [channel.close(grace_s=0) for channel in self._channels.values()]
        await asyncio.gather(*channels, *self._closing)
