"""Three nodes in namespaces of their own, and what can happen to them."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import stele
from stele.client.metastore import Metastore
from stele.client.waiting import pause_thread
from stele.rpc import Role, TlsFiles
from tests.chaos.metastore.namespaces import Namespaces
from tests.integration.metastore.processes import Nodes, leader_of, wait_for_voters
from tests.unit.rpc.certificates import Authority

NODES = 3
PAUSE_US = 3_000_000
"""How long a node is stopped or cut off: longer than an election and than the sessions' TTL."""

US_PER_SECOND = 1_000_000


class SpreadNodes(Nodes):
    """Processes that reach each other only through the bridge."""

    def __init__(self, folder: Path, places: Namespaces) -> None:
        authority = Authority(folder)
        tls = {n: authority.issue(f"m{n}", Role.METASTORE) for n in range(NODES)}
        super().__init__(folder, tls)
        self.places = places
        self.client_tls: TlsFiles = authority.issue("tester", Role.ADMIN, Role.CLIENT)

    def new_address(self) -> str:
        return self.places.address(len(self.addresses) + 1)

    def command_prefix(self, address: str) -> list[str]:
        return self.places.prefix(self.addresses.index(address) + 1)

    def client(self) -> Metastore:
        """A client of all nodes."""
        return stele.metastore.connect(self.addresses, tls=self.client_tls, role=Role.ADMIN)


@contextmanager
def spread_nodes(folder: Path) -> Iterator[SpreadNodes]:
    """A group of three."""
    with Namespaces(NODES) as places:
        nodes = SpreadNodes(folder, places)
        try:
            for _ in range(NODES):
                nodes.add()
            with nodes.client() as metastore:
                wait_for_voters(metastore, NODES)
            yield nodes
        finally:
            nodes.close()


class Nemesis:
    """One mishap after the other, each healed before the next."""

    def __init__(self, nodes: SpreadNodes, seed: int) -> None:
        self._nodes = nodes
        self._dice = random.Random(seed)
        self._faults = (
            self.kill_leader,
            self.kill_follower,
            self.stop_leader,
            self.cut_off_leader,
            self.cut_off_anybody,
            self.cut_leader_from_one,
        )
        self.done: Counter[str] = Counter()

    @property
    def kinds(self) -> int:
        """How many kinds of mishap there are."""
        return len(self._faults)

    def run(self, faults: int) -> None:
        """Each kind in turn, from a random place on."""
        first = self._dice.randrange(len(self._faults))
        for number in range(first, first + faults):
            fault = self._faults[number % len(self._faults)]
            fault()
            self.done[fault.__name__] += 1
            pause_thread(self._dice.randrange(US_PER_SECOND))

    def _leader(self) -> str:
        with self._nodes.client() as metastore:
            return leader_of(metastore)

    def _anybody(self) -> str:
        return self._dice.choice(self._nodes.addresses)

    def _number(self, address: str) -> int:
        return self._nodes.addresses.index(address) + 1

    def kill_leader(self) -> None:
        """kill -9, and a new start."""
        self._kill(self._leader())

    def kill_follower(self) -> None:
        """The same of a node that does not lead."""
        leader = self._leader()
        self._kill(self._dice.choice([a for a in self._nodes.addresses if a != leader]))

    def _kill(self, address: str) -> None:
        self._nodes.kill(address)
        pause_thread(self._dice.randrange(PAUSE_US))
        self._nodes.start(address)

    def stop_leader(self) -> None:
        """SIGSTOP: it wakes up and believes that it leads."""
        address = self._leader()
        self._nodes.signal(address, signal.SIGSTOP)
        pause_thread(PAUSE_US)
        self._nodes.signal(address, signal.SIGCONT)

    def cut_off_leader(self) -> None:
        """Clients reach it, its followers do not."""
        self._isolate(self._number(self._leader()))

    def cut_off_anybody(self) -> None:
        """The same of any node."""
        self._isolate(self._number(self._anybody()))

    def _isolate(self, number: int) -> None:
        others = [other for other in range(1, NODES + 1) if other != number]
        self._cut([number], others)

    def cut_leader_from_one(self) -> None:
        """A partition in which a majority sees the leader, and one node sees only the other."""
        leader = self._number(self._leader())
        self._cut([leader], [leader % NODES + 1])

    def _cut(self, one: list[int], other: list[int]) -> None:
        self._nodes.places.cut(one, other)
        pause_thread(PAUSE_US)
        self._nodes.places.heal()
