"""A metastore in one thread: an event queue, a network that misbehaves, machines that crash.

Time is an integer of milliseconds that only the queue moves. All chance comes from one generator,
so a seed fixes the whole run; every event goes into a running hash by which two runs are compared.
"""

from __future__ import annotations

import heapq
import random
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stele.errors import Corruption, NotFound, OutOfSpace, StorageFailed
from stele.metastore.member import Member
from stele.raft import Membership, StoredState, bootstrap
from stele.sim.metastore_checks import MetastoreChecker
from stele.sim.metastore_host import MICROSECONDS, RETRY_MS, MetastoreHost
from stele.sim.metastore_service import serve

ANY_LIFE = -1
"""Messages find a machine after a restart as well."""


@dataclass(slots=True)
class Weather:
    """How bad the network and the disks are at present."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms_max: int = 3
    sync_ms_max: int = 3


QueuedEvent = tuple[int, int, str, MetastoreHost | None, int, Callable[[Any], None], Any]


class WorldClock:
    """``Clock`` of the simulation, for recorders."""

    def __init__(self, world: MetastoreWorld) -> None:
        self._world = world

    def now_us(self) -> int:
        return self._world.now_ms * MICROSECONDS

    monotonic_us = now_us


class MetastoreWorld:
    """The machines, the links between them and to the clients, and what happens next."""

    def __init__(self, seed: int, size: int, *, keep_trace: bool = False) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a simulation, nothing is kept secret
        self.now_ms = 0
        self.events = 0
        self.trace_hash = 0
        self.trace: list[str] | None = [] if keep_trace else None
        self.counters: Counter[str] = Counter()
        self.weather = Weather()
        self.blocked: set[tuple[int, int]] = set()
        """One-way links, from and to, that carry nothing."""

        self.clients: dict[int, Callable[[int, tuple[Any, ...]], None]] = {}
        """Who receives what is sent to a client; clients have negative numbers."""

        self.checker = MetastoreChecker(WorldClock(self), self.counters)
        self.hosts: dict[int, MetastoreHost] = {}
        self._queue: list[QueuedEvent] = []
        self._sequence = 0
        founders = Membership(tuple(range(1, size + 1)))
        for node in founders.voters:
            self.add_host(node, bootstrap(founders))

    @property
    def sync_ms_max(self) -> int:
        """How slow disks are at present."""
        return self.weather.sync_ms_max

    def add_host(self, node: int, stored: StoredState | None = None) -> None:
        """Switch on a new machine; without a state it knows nothing yet."""
        self.hosts[node] = MetastoreHost(self, node, stored or StoredState())
        self.start(self.hosts[node])

    def draw(self, bound: int) -> int:
        """A number from 0 to ``bound - 1``."""
        return int(self.random.random() * bound)

    def count(self, what: str) -> None:
        """Something worth counting has happened."""
        self.counters[what] += 1

    # The queue.

    def after(
        self,
        delay_ms: int,
        kind: str,
        host: MetastoreHost | None,
        action: Callable[[Any], None],
        arg: Any,
    ) -> None:
        """Something happens later; to a host only if it still lives the same life."""
        life = host.life if host is not None else ANY_LIFE
        self._push(delay_ms, kind, host, life, action, arg)

    def _push(
        self,
        delay_ms: int,
        kind: str,
        host: MetastoreHost | None,
        life: int,
        action: Callable[[Any], None],
        arg: Any,
    ) -> None:
        self._sequence += 1
        event = (self.now_ms + delay_ms, self._sequence, kind, host, life, action, arg)
        heapq.heappush(self._queue, event)

    def step(self) -> None:
        """The next event."""
        at_ms, _, kind, host, life, action, arg = heapq.heappop(self._queue)
        self.now_ms = max(self.now_ms, at_ms)
        if host is None:
            action(arg)
            self._record(kind, None)
            return
        if host.driver is None or life not in (host.life, ANY_LIFE):
            return
        if host.resumes_at_ms > self.now_ms:
            self._push(host.resumes_at_ms - self.now_ms, kind, host, life, action, arg)
            return
        action(arg)
        host.turn()
        self._record(kind, host)

    def _record(self, kind: str, host: MetastoreHost | None) -> None:
        self.events += 1
        line = f"{self.now_ms} {kind}"
        if host is not None and host.member is not None:
            node = host.member.node
            line += f" {host.id} {node.core.role.value} t{node.core.term} a{node.applied}"
        self.trace_hash = zlib.crc32(line.encode(), self.trace_hash)
        if self.trace is not None:
            self.trace.append(line)

    # Machines.

    def start(self, host: MetastoreHost) -> None:
        """Boot a machine that is down; one whose disk is full tries again later."""
        if host.driver is not None:
            return
        try:
            host.start()
        except OutOfSpace:
            self.count("starts without space")
            host.kill()
            self.after(RETRY_MS, "start again", None, self.start, host)
        except StorageFailed:
            self.host_stopped(host)
        except (Corruption, NotFound) as error:
            raise AssertionError(f"node {host.id} cannot start: {error}") from error
        else:
            host.turn()

    def stop(self, host: MetastoreHost, *, power: bool) -> None:
        """End a machine's life."""
        if power:
            host.cut_power(self.random)
        else:
            host.kill()
        self.count("power failures" if power else "kills")

    def host_stopped(self, host: MetastoreHost) -> None:
        """The node gave up: its process ends, and the machine is rebooted a while later.

        Not only restarted: after a failed sync the kernel lies about what is on the disk.
        """
        self.count("nodes stopped by their disk")
        self.stop(host, power=True)
        self.after(RETRY_MS + self.draw(RETRY_MS), "reboot", None, self.start, host)

    def member_started(self, host: MetastoreHost, member: Member) -> None:
        """A process has come to life."""
        self.checker.listen(host.id, member)

    # The network.

    def transmit(self, source: int, target: int, parcel: tuple[Any, ...]) -> None:
        """Give something to the network: it may be lost, doubled, late."""
        weather = self.weather
        if (source, target) in self.blocked or self.random.random() < weather.loss:
            self.count("messages lost")
            return
        copies = 1
        if self.random.random() < weather.duplication:
            copies = 2
            self.count("messages doubled")
        for _ in range(copies):
            delay = 1 + self.draw(weather.delay_ms_max)
            if target < 0:
                letter = (target, source, parcel)
                self._push(delay, "reply", None, ANY_LIFE, self._deliver_reply, letter)
            elif target in self.hosts:
                host = self.hosts[target]
                delivery = (host, source, parcel)
                self._push(delay, str(parcel[0]), host, ANY_LIFE, self._deliver, delivery)

    def _deliver_reply(self, letter: tuple[int, int, tuple[Any, ...]]) -> None:
        client, source, parcel = letter
        self.clients[client](source, parcel)

    def _deliver(self, delivery: tuple[MetastoreHost, int, tuple[Any, ...]]) -> None:
        host, source, parcel = delivery
        if parcel[0] == "call":
            serve(self, host, source, parcel[1], parcel[2])
        else:
            host.receive(source, parcel)
