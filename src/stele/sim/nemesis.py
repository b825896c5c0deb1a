"""Who makes trouble for simulated machines: the faults that every kind of group has to bear.

Each run draws its own mix: some kinds of fault are switched off altogether, because a run with
every fault at once often gets nowhere, and a bug may need the absence of one fault as much as the
presence of another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stele.sim.world import Link, Machine, Weather, World


@dataclass(frozen=True, slots=True)
class Severity:
    """How often trouble comes and how long it lasts, and how bad the weather may get."""

    fault_gap_ms: int
    outage_ms_max: int
    flicker_ms_max: int
    loss: tuple[float, ...]
    duplication: tuple[float, ...]
    delay_ms_max: tuple[int, ...]
    sync_ms_max: tuple[int, ...]


M = TypeVar("M", bound=Machine)


class Nemesis(ABC, Generic[M]):
    """Schedules faults until it is told to rest."""

    def __init__(self, world: World[M], severity: Severity, tick_ms: int) -> None:
        self._machines = world
        self._severity = severity
        self._tick_ms = tick_ms
        self._active = True
        every = self._all_faults()
        self._faults = [fault for fault in every if world.draw(10) < 7] or every
        self._change_weather()
        world.after(severity.fault_gap_ms, "fault", None, self._strike, None)

    @abstractmethod
    def _own_faults(self) -> list[Callable[[], None]]:
        """What only this kind of machine can suffer."""

    @abstractmethod
    def _crash(self, host: M) -> None:
        """End a machine's life, and see to it that it begins another."""

    def _all_faults(self) -> list[Callable[[], None]]:
        return [
            self._crash_one,
            self._crash_many,
            self._isolate,
            self._cut_one_way,
            self._split,
            self._pause,
            self._change_pace,
            self._change_weather,
            *self._own_faults(),
        ]

    def rest(self) -> None:
        """Repair everything; nothing new will break."""
        self._active = False
        world = self._machines
        world.blocked.clear()
        world.weather = Weather()
        for host in world.hosts.values():
            self._repair(host)

    def _repair(self, host: M) -> None:
        host.tick_ms = self._tick_ms
        host.resumes_at_ms = 0
        self._machines.start(host)

    def _strike(self, _: None) -> None:
        if self._active:
            self._faults[self._machines.draw(len(self._faults))]()
            gap = 1 + self._machines.draw(2 * self._severity.fault_gap_ms)
            self._machines.after(gap, "fault", None, self._strike, None)

    def _outage_ms(self) -> int:
        """Often so short that the group does not notice, but the node forgets."""
        is_flicker = self._machines.draw(3) == 0
        severity = self._severity
        return 1 + self._machines.draw(
            severity.flicker_ms_max if is_flicker else severity.outage_ms_max
        )

    def _leading(self) -> list[M]:
        return [host for host in self._machines.hosts.values() if host.leads]

    def _pick(self) -> M:
        """Any machine, and more often than others one that leads: that is where it hurts."""
        leading = self._leading()
        if leading and self._machines.draw(2):
            return leading[self._machines.draw(len(leading))]
        hosts = list(self._machines.hosts.values())
        return hosts[self._machines.draw(len(hosts))]

    # Machines.

    def _crash_one(self) -> None:
        self._crash(self._pick())

    def _crash_many(self) -> None:
        """Power failures come in groups: whatever only memory held is gone everywhere."""
        for host in self._machines.hosts.values():
            if self._machines.draw(3) < 2:
                self._crash(host)

    def _pause(self) -> None:
        self._machines.count("pauses")
        self._pick().resumes_at_ms = self._machines.now_ms + self._pause_ms()

    def _pause_ms(self) -> int:
        return self._outage_ms()

    def _change_pace(self) -> None:
        """A loop that turns at a third of the others' speed, or at three times theirs."""
        self._machines.count("changes of pace")
        tick_ms = self._tick_ms
        paces = (tick_ms // 3, tick_ms // 2, tick_ms, 2 * tick_ms, 3 * tick_ms)
        self._pick().tick_ms = paces[self._machines.draw(len(paces))]

    # The network.

    def _block(self, links: list[Link]) -> None:
        self._machines.count("partitions")
        self._machines.blocked.update(links)
        self._machines.after(self._outage_ms(), "heal", None, self._unblock, links)

    def _unblock(self, links: list[Link]) -> None:
        self._machines.blocked.difference_update(links)

    def _others(self, node: int) -> list[int]:
        return [other for other in self._machines.hosts if other != node]

    def _isolate(self) -> None:
        node = self._pick().id
        self._block(both_ways(node, self._others(node)))

    def _cut_one_way(self) -> None:
        """One node cannot be heard, or cannot hear: its own view is that all is well."""
        node = self._pick().id
        others = self._others(node)
        if self._machines.draw(2):
            self._block([(node, other) for other in others])
        else:
            self._block([(other, node) for other in others])

    def _split(self) -> None:
        """Two halves, at times with one node that both can reach."""
        side = {node: self._machines.draw(2) for node in self._machines.hosts}
        bridge = self._pick().id if self._machines.draw(3) == 0 else 0
        apart = [(a, b) for a in side for b in side if side[a] != side[b]]
        self._block([link for link in apart if bridge not in link])

    def _change_weather(self) -> None:
        draw, severity = self._machines.draw, self._severity
        self._machines.weather = Weather(
            loss=severity.loss[draw(len(severity.loss))],
            duplication=severity.duplication[draw(len(severity.duplication))],
            delay_ms_max=severity.delay_ms_max[draw(len(severity.delay_ms_max))],
            sync_ms_max=severity.sync_ms_max[draw(len(severity.sync_ms_max))],
        )


def both_ways(node: int, others: list[int]) -> list[Link]:
    """Every link between a node and the others."""
    return [(node, other) for other in others] + [(other, node) for other in others]
