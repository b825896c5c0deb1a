"""A metastore in one thread: machines that crash, clients, and what passes between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stele.errors import Corruption, NotFound, OutOfSpace, StorageFailed
from stele.metastore.member import Member
from stele.raft import Membership, StoredState, bootstrap
from stele.sim.metastore_checks import MetastoreChecker, MetastoreViolation
from stele.sim.metastore_host import MICROSECONDS, RETRY_MS, MetastoreHost
from stele.sim.metastore_service import serve
from stele.sim.world import World


class WorldClock:
    """``Clock`` of the simulation, for recorders."""

    def __init__(self, world: MetastoreWorld) -> None:
        self._world = world

    def now_us(self) -> int:
        return self._world.now_ms * MICROSECONDS

    monotonic_us = now_us


class MetastoreWorld(World[MetastoreHost]):
    """The machines, the links between them and to the clients, and what happens next."""

    def __init__(self, seed: int, size: int, *, keep_trace: bool = False) -> None:
        super().__init__(seed, keep_trace=keep_trace)
        self.clients: dict[int, Callable[[int, tuple[Any, ...]], None]] = {}
        """Who receives what is sent to a client; clients have negative numbers."""

        self.checker = MetastoreChecker(WorldClock(self), self.counters)
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

    def _after_event(self, host: MetastoreHost) -> None:
        host.turn()
        if host.driver is not None:
            self.checker.note_progress(host.driver.node)

    def _describe(self, host: MetastoreHost) -> str:
        assert host.member is not None
        node = host.member.node
        return f"{node.core.role.value} t{node.core.term} a{node.applied}"

    # Machines.

    def start(self, host: MetastoreHost) -> None:
        """Boot a machine that is down; one whose disk is full tries again later."""
        if host.is_up:
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
            raise MetastoreViolation(f"recovery: node {host.id} cannot start: {error}") from error
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
        for delay_ms in self.delays_of_copies((source, target)):
            if target < 0:
                letter = (target, source, parcel)
                self.deliver(delay_ms, "reply", None, self._deliver_reply, letter)
            elif target in self.hosts:
                host = self.hosts[target]
                delivery = (host, source, parcel)
                self.deliver(delay_ms, str(parcel[0]), host, self._deliver, delivery)

    def _deliver_reply(self, letter: tuple[int, int, tuple[Any, ...]]) -> None:
        client, source, parcel = letter
        self.clients[client](source, parcel)

    def _deliver(self, delivery: tuple[MetastoreHost, int, tuple[Any, ...]]) -> None:
        host, source, parcel = delivery
        if parcel[0] == "call":
            serve(self, host, source, parcel[1], parcel[2])
        else:
            host.receive(source, parcel)
