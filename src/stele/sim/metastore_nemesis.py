"""Who makes trouble for a simulated metastore."""

from __future__ import annotations

from collections.abc import Callable

from stele.sim.metastore_host import TICK_MS, MetastoreHost
from stele.sim.metastore_world import MetastoreWorld
from stele.sim.nemesis import Nemesis, Severity, both_ways
from stele.sim.world import Link

SEVERITY = Severity(
    fault_gap_ms=120,
    outage_ms_max=350,
    flicker_ms_max=15,
    loss=(0.0, 0.02, 0.1, 0.25),
    duplication=(0.0, 0.05, 0.3),
    delay_ms_max=(3, 8, 25, 60),
    sync_ms_max=(1, 5, 20, 60),
)
LONG_PAUSE_MS = 900
"""Longer than any session lives."""

LEFT_BEHIND_MS = 450
"""As long as a leader takes to notice that nobody follows, if its loop hardly turns."""

DISK_ROOM_BYTES_MAX = 3_000


class MetastoreNemesis(Nemesis[MetastoreHost]):
    """The faults of whole nodes with disks, clocks and clients."""

    def __init__(self, world: MetastoreWorld) -> None:
        self._world = world
        super().__init__(world, SEVERITY, TICK_MS)

    def _own_faults(self) -> list[Callable[[], None]]:
        return [self._leave_behind, self._drift, self._break_disk, self._fill_disk]

    def _repair(self, host: MetastoreHost) -> None:
        host.trouble.syncs_left = None
        host.free_disk()
        super()._repair(host)

    def _crash(self, host: MetastoreHost) -> None:
        if host.is_up and self._active:
            self._world.stop(host, power=self._world.draw(3) != 0)
            self._world.after(self._outage_ms(), "restart", None, self._world.start, host)

    def _pause_ms(self) -> int:
        return LONG_PAUSE_MS if self._world.draw(4) == 0 else self._outage_ms()

    def _isolate(self) -> None:
        """From the other members; clients still reach it, and half the time they do not."""
        node = self._pick().id
        others = self._others(node)
        if self._world.draw(2):
            others += list(self._world.clients)
        self._block(both_ways(node, others))

    def _leave_behind(self) -> None:
        """A leader whose loop hardly turns loses the others, and its clients do not lose it: long
        after its successor is at work it still thinks that it leads."""
        leading = self._leading()
        host = leading[self._world.draw(len(leading))] if leading else self._pick()
        host.tick_ms = 6 * TICK_MS
        links = both_ways(host.id, self._others(host.id))
        self._world.count("leaders left behind")
        self._world.blocked.update(links)
        self._world.after(LEFT_BEHIND_MS, "heal", None, self._catch_up, (host, links))

    def _catch_up(self, left: tuple[MetastoreHost, list[Link]]) -> None:
        host, links = left
        host.tick_ms = TICK_MS
        self._unblock(links)

    def _drift(self) -> None:
        """A clock that is off by up to a tenth."""
        self._world.count("clock drifts")
        self._pick().set_clock_rate((0.92, 0.96, 1.0, 1.04, 1.08)[self._world.draw(5)])

    def _break_disk(self) -> None:
        self._pick().trouble.syncs_left = self._world.draw(4)

    def _fill_disk(self) -> None:
        self._world.count("disks filled")
        host = self._pick()
        host.fill_disk(self._world.draw(DISK_ROOM_BYTES_MAX))
        self._world.after(self._outage_ms(), "free disk", None, self._free_disk, host)

    def _free_disk(self, host: MetastoreHost) -> None:
        host.free_disk()
