"""Who makes trouble for a simulated metastore.

Each run draws its own mix of faults: a run with every fault at once often gets nowhere, and a bug
may need the absence of one as much as the presence of another.
"""

from __future__ import annotations

from collections.abc import Callable

from stele.sim.metastore_host import TICK_MS, MetastoreHost
from stele.sim.metastore_world import MetastoreWorld, Weather

FAULT_GAP_MS = 120
OUTAGE_MS_MAX = 350
FLICKER_MS_MAX = 15
LONG_PAUSE_MS = 900
"""Longer than any session lives."""

DISK_ROOM_BYTES_MAX = 3_000


class MetastoreNemesis:
    """Schedules faults until it is told to rest."""

    def __init__(self, world: MetastoreWorld) -> None:
        self._world = world
        self._active = True
        every: list[Callable[[], None]] = [
            self._crash_one,
            self._crash_many,
            self._isolate,
            self._cut_one_way,
            self._leave_behind,
            self._split,
            self._pause,
            self._drift,
            self._slow_down,
            self._change_weather,
            self._break_disk,
            self._fill_disk,
        ]
        self._faults = [fault for fault in every if world.draw(10) < 7] or every
        self._change_weather()
        world.after(FAULT_GAP_MS, "fault", None, self._strike, None)

    def rest(self) -> None:
        """Repair everything; nothing new will break."""
        self._active = False
        world = self._world
        world.blocked.clear()
        world.weather = Weather()
        for host in world.hosts.values():
            host.tick_ms = TICK_MS
            host.resumes_at_ms = 0
            host.trouble.syncs_left = None
            host.free_disk()
            world.start(host)

    def _strike(self, _: None) -> None:
        if self._active:
            self._faults[self._world.draw(len(self._faults))]()
            gap = 1 + self._world.draw(2 * FAULT_GAP_MS)
            self._world.after(gap, "fault", None, self._strike, None)

    def _outage_ms(self) -> int:
        """Often so short that the group does not notice, but the node forgets."""
        bound = FLICKER_MS_MAX if self._world.draw(3) == 0 else OUTAGE_MS_MAX
        return 1 + self._world.draw(bound)

    def _pick(self) -> MetastoreHost:
        """Any machine, and more often than others one that leads: that is where it hurts."""
        hosts = list(self._world.hosts.values())
        leading = [h for h in hosts if h.driver is not None and h.driver.node.leads]
        if leading and self._world.draw(2):
            return leading[self._world.draw(len(leading))]
        return hosts[self._world.draw(len(hosts))]

    def _crash(self, host: MetastoreHost) -> None:
        if host.driver is not None and self._active:
            self._world.stop(host, power=self._world.draw(3) != 0)
            self._world.after(self._outage_ms(), "restart", None, self._world.start, host)

    def _crash_one(self) -> None:
        self._crash(self._pick())

    def _crash_many(self) -> None:
        """Power failures come in groups: whatever only memory held is gone everywhere."""
        for host in self._world.hosts.values():
            if self._world.draw(3) < 2:
                self._crash(host)

    def _block(self, links: list[tuple[int, int]]) -> None:
        self._world.count("partitions")
        self._world.blocked.update(links)
        self._world.after(self._outage_ms(), "heal", None, self._unblock, links)

    def _unblock(self, links: list[tuple[int, int]]) -> None:
        self._world.blocked.difference_update(links)

    def _others(self, node: int) -> list[int]:
        return [other for other in self._world.hosts if other != node]

    def _isolate(self) -> None:
        """From the other members; clients still reach it, and half the time they do not."""
        node = self._pick().id
        others = self._others(node)
        if self._world.draw(2):
            others += list(self._world.clients)
        self._block([(node, other) for other in others] + [(other, node) for other in others])

    def _cut_one_way(self) -> None:
        """One node cannot be heard, or cannot hear: its own view is that all is well."""
        node = self._pick().id
        if self._world.draw(2):
            self._block([(node, other) for other in self._others(node)])
        else:
            self._block([(other, node) for other in self._others(node)])

    def _leave_behind(self) -> None:
        """A leader whose loop hardly turns loses the others, and its clients do not lose it: long
        after its successor is at work it still thinks that it leads."""
        host = self._pick()
        host.tick_ms = 6 * TICK_MS
        others = self._others(host.id)
        links = [(host.id, other) for other in others] + [(other, host.id) for other in others]
        self._world.count("leaders left behind")
        self._world.blocked.update(links)
        self._world.after(OUTAGE_MS_MAX, "heal", None, self._catch_up, (host, links))

    def _catch_up(self, left: tuple[MetastoreHost, list[tuple[int, int]]]) -> None:
        host, links = left
        host.tick_ms = TICK_MS
        self._unblock(links)

    def _split(self) -> None:
        side = {node: self._world.draw(2) for node in self._world.hosts}
        self._block([(a, b) for a in side for b in side if side[a] != side[b]])

    def _pause(self) -> None:
        self._world.count("pauses")
        duration = LONG_PAUSE_MS if self._world.draw(4) == 0 else self._outage_ms()
        self._pick().resumes_at_ms = self._world.now_ms + duration

    def _drift(self) -> None:
        """A clock that is off by up to a tenth."""
        self._world.count("clock drifts")
        self._pick().set_clock_rate((0.92, 0.96, 1.0, 1.04, 1.08)[self._world.draw(5)])

    def _slow_down(self) -> None:
        """A process whose loop turns at another speed than those of the others."""
        self._world.count("slow loops")
        self._pick().tick_ms = (TICK_MS // 3, TICK_MS, 2 * TICK_MS, 3 * TICK_MS)[
            self._world.draw(4)
        ]

    def _break_disk(self) -> None:
        self._pick().trouble.syncs_left = self._world.draw(4)

    def _fill_disk(self) -> None:
        self._world.count("disks filled")
        host = self._pick()
        host.fill_disk(self._world.draw(DISK_ROOM_BYTES_MAX))
        self._world.after(self._outage_ms(), "free disk", None, self._free_disk, host)

    def _free_disk(self, host: MetastoreHost) -> None:
        host.free_disk()

    def _change_weather(self) -> None:
        draw = self._world.draw
        self._world.weather = Weather(
            loss=(0.0, 0.02, 0.1, 0.25)[draw(4)],
            duplication=(0.0, 0.05, 0.3)[draw(3)],
            delay_ms_max=(3, 8, 25, 60)[draw(4)],
            sync_ms_max=(1, 5, 20, 60)[draw(4)],
        )
