"""Calls to a metastore of several nodes: find the leader, try again, lose nothing.

Every request may be sent again: reads change nothing, and whatever changes something carries its
client's id and a sequence number, under which the group carries it out once. So a call ends with
the answer, with a refusal that will not change, or with its deadline. Only then the outcome is
unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from stele.client.metastore_attempts import Attempts
from stele.client.metastore_gathering import gatherings
from stele.client.metastore_keeper import keep_session
from stele.client.metastore_route import Route
from stele.client.metastore_transport import Lost
from stele.env.ports import Clock, Network, Random
from stele.errors import (
    DeadlineExceeded,
    NotLeader,
    OutcomeUnknown,
    StaleHandle,
    SteleError,
    Throttled,
    Unavailable,
)
from stele.protocol.metastore import (
    BACKUP,
    STATUS,
    WATCH,
    BackupRequest,
    KeepAliveRequest,
    StatusRequest,
    WatchRequest,
    WatchResponse,
)
from stele.rpc import BackoffPolicy, Channel, ClientOptions, Credentials, Stream
from stele.rpc.fork import ForkGuard
from stele.rpc.service import Req, Resp, Unary

ATTEMPT_S: Final = 2.0
"""How long one node may take to answer before the next is asked. A group that lost its leader has
another within about two election timeouts."""

FIND_S: Final = 30.0
"""How long a node is looked for that can hand out a copy of everything."""

DIAL_BACKOFF: Final = BackoffPolicy(first_us=20_000, last_us=500_000)
"""A node that restarts should be found again within the time of an election."""

RETRY_BACKOFF: Final = BackoffPolicy(first_us=10_000, last_us=100_000)
"""Between rounds through nodes of which none leads."""

US_PER_SECOND: Final = 1_000_000

LEARN_S: Final = 60.0
"""How long what a node has said about the members of its group is good enough."""

WATCHES_PER_CONNECTION: Final = 200
"""A server lets a connection have so many streams, and some more; further watches get another."""

TRIED_AGAIN: Final = (NotLeader, Unavailable, OutcomeUnknown, DeadlineExceeded, Throttled)
"""What another attempt may mend; all that is sent can be sent again."""


class ClusterTransport:
    """Calls to whichever node leads. Belongs to the loop it was made in."""

    def __init__(
        self,
        addresses: Sequence[str],
        options: ClientOptions,
        *,
        clock: Clock,
        random: Random,
        credentials: Credentials | None = None,
        network: Network | None = None,
    ) -> None:
        self.route = Route(addresses)
        self._options = options
        self._clock = clock
        self._random = random
        self._credentials = credentials
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._fork = ForkGuard(f"the metastore client of {addresses[0]}")
        self._channels: dict[tuple[str, int], Channel] = {}
        self._watches: list[int] = []
        self._keepers: set[asyncio.Task[None]] = set()
        self._gatherings = gatherings(self._attempt, self._loop)
        self._learned_from = ""
        self._learn_at_s = 0.0
        self._learning: asyncio.Task[None] | None = None
        self._closed = False

    async def call(
        self,
        method: Unary[Req, Resp],
        request: Req,
        *,
        timeout_s: float,
        attempt_s: float = ATTEMPT_S,
    ) -> Resp:
        """Ask until a node that leads has answered, or the time is over. What many tasks ask at
        the same moment goes out together."""
        alone = partial(self._call_alone, method, request, timeout_s, attempt_s, self._loop.time())
        gathering = self._gatherings.get(method.number)
        if gathering is None or timeout_s < attempt_s:
            return await alone()
        answer: Resp = await gathering.ask(request, alone)
        return answer

    async def _attempt(self, method: Unary[Req, Resp], request: Req) -> Resp:
        address = self.route.current
        try:
            response = await self.channel(address).call(method, request, timeout_s=ATTEMPT_S)
        except TRIED_AGAIN as error:
            self.after(error, address, 1)
            raise
        self._answered(address)
        return response

    async def _call_alone(
        self,
        method: Unary[Req, Resp],
        request: Req,
        timeout_s: float,
        attempt_s: float,
        began_s: float,
    ) -> Resp:
        deadline_s = began_s + timeout_s
        refusals = 0
        attempts = Attempts()
        while True:
            address = self.route.current
            left_s = max(deadline_s - self._loop.time(), 0.0)
            try:
                response = await self.channel(address).call(
                    method, request, timeout_s=min(left_s, attempt_s)
                )
            except TRIED_AGAIN as error:
                refusals += 1
                attempts.note(address, error)
                if not self._learned_from:
                    attempts.give_up_if_unwanted(address, error)
                pause_s = self.after(error, address, refusals)
                if self._loop.time() + pause_s >= deadline_s:
                    raise attempts.late(method.full_name, timeout_s) from error
            else:
                self._answered(address)
                return response
            if pause_s:
                await asyncio.sleep(pause_s)

    def _answered(self, address: str) -> None:
        """A node has answered: ask it now and then who else there is, for when it is gone."""
        now_s = self._loop.time()
        if address == self._learned_from and now_s < self._learn_at_s:
            return
        self._learned_from, self._learn_at_s = address, now_s + LEARN_S
        if self._learning is None and not self._closed:
            self._learning = self._loop.create_task(self._learn(address))

    async def _learn(self, address: str) -> None:
        try:
            status = await self.call_at(address, STATUS, StatusRequest(), timeout_s=ATTEMPT_S)
            # A learner cannot lead, and one that was added may not even run yet.
            self.route.learn(m.address for m in status.members if m.is_voter and m.address)
        except SteleError:
            self._learn_at_s = 0.0  # the next answer asks again
        finally:
            self._learning = None

    async def call_nearest(
        self, method: Unary[Req, Resp], request: Req, *, timeout_s: float
    ) -> Resp:
        """Ask any node; the one that answered last is as good as another."""
        return await self.call(method, request, timeout_s=timeout_s)

    async def call_at(
        self, address: str, method: Unary[Req, Resp], request: Req, *, timeout_s: float
    ) -> Resp:
        """Ask one node, once."""
        return await self.channel(address).call(method, request, timeout_s=timeout_s)

    async def watch(self, request: WatchRequest) -> ClusterWatch:
        """Begin a watch."""
        return ClusterWatch(self, request, self._take_lane())

    def _take_lane(self) -> int:
        """Which of the connections to a node has room for one more watch."""
        for lane, watches in enumerate(self._watches):
            if watches < WATCHES_PER_CONNECTION:
                self._watches[lane] += 1
                return lane
        self._watches.append(1)
        return len(self._watches) - 1

    def leave_lane(self, lane: int) -> None:
        """A watch has ended."""
        self._watches[lane] -= 1

    async def backup(self, write: Callable[[bytes], object]) -> int:
        """Hand a copy of the whole state to ``write``, piece by piece; the index it is of.

        Pieces cannot be taken back, so it comes from one node, which is known to answer.
        """
        await self.call_nearest(STATUS, StatusRequest(), timeout_s=FIND_S)
        index = 0
        stream = await self.channel(self.route.current).stream(BACKUP, BackupRequest())
        async with stream:
            async for chunk in stream:
                index = chunk.index
                write(chunk.data)
        return index

    def keep(
        self, session: int, client: int, ttl_us: int, renewed: Callable[[int], None], lost: Lost
    ) -> Callable[[], None]:
        """Keep a session alive by a task of this loop."""
        task = self._loop.create_task(
            keep_session(self, KeepAliveRequest(session, client), ttl_us, renewed, lost)
        )
        self._keepers.add(task)
        task.add_done_callback(self._keepers.discard)

        def stop() -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(task.cancel)

        return stop

    def monotonic_us(self) -> int:
        """Time that counts while the machine is suspended, as sessions do."""
        return self._clock.monotonic_us()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that are known."""
        return self.route.addresses

    async def close(self) -> None:
        """Close all connections; calls in flight end with ``Unavailable``."""
        if self._closed or self._fork.inherited:
            return
        self._closed = True
        for task in (*self._keepers, self._learning):
            if task is not None:
                task.cancel()
        channels = list(self._channels.values())
        await asyncio.gather(*(channel.close(grace_s=0) for channel in channels))

    def after(self, error: SteleError, address: str, refusals: int) -> float:
        """What an attempt that failed means for the route; how long to wait before the next."""
        if isinstance(error, NotLeader):
            elsewhere = self.route.redirected(address, error.leader)
            if elsewhere and refusals <= len(self.route.addresses):
                return 0.0
        elif not isinstance(error, Throttled):
            self.route.failed(address)
            if refusals < len(self.route.addresses):
                return 0.0
        dice = self._random.below(RETRY_BACKOFF.span_us(refusals) // 2)
        return RETRY_BACKOFF.wait_us(refusals, dice) / US_PER_SECOND

    def channel(self, address: str, lane: int = 0) -> Channel:
        """A connection to one node; dialled when it is used."""
        channel = self._channels.get((address, lane))
        if channel is None:
            self._fork.check()
            if self._closed:
                raise StaleHandle("the metastore client is closed")
            channel = Channel(
                address,
                self._options,
                random=self._random,
                credentials=self._credentials,
                network=self._network,
                backoff=DIAL_BACKOFF,
            )
            self._channels[address, lane] = channel
        return channel


class ClusterWatch:
    """A watch that moves to another node when its own fails, and goes on where it was."""

    def __init__(self, cluster: ClusterTransport, request: WatchRequest, lane: int) -> None:
        self._cluster = cluster
        self._lane = lane
        self._request = request
        self._stream: Stream[WatchResponse] | None = None
        self._address = ""
        self._failures = 0
        self._closed = False

    async def next(self) -> WatchResponse:
        """The next changes, or how far there were none."""
        while True:
            if self._closed:
                raise StaleHandle("the watch is closed")
            try:
                return await self._read()
            except TRIED_AGAIN as error:
                self._stream = None
                self._failures += 1
                pause_s = self._cluster.after(error, self._address, self._failures)
            await asyncio.sleep(pause_s)

    async def _read(self) -> WatchResponse:
        if self._stream is None:
            self._address = self._cluster.route.current
            channel = self._cluster.channel(self._address, self._lane)
            self._stream = await channel.stream(WATCH, self._request)
        try:
            response = (await self._stream.next_reply()).message
        except StopAsyncIteration:
            raise Unavailable(f"the watch at {self._address} ended") from None
        self._failures = 0
        # What was delivered is not asked for again, wherever the next stream is opened.
        self._request = WatchRequest(self._request.keys, response.index)
        return response

    async def close(self) -> None:
        """Watch no more."""
        if not self._closed:
            self._cluster.leave_lane(self._lane)
        self._closed = True
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None
