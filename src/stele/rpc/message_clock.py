"""The commit clock on the wire: every frame tells how far it has come.

An adapter from the pure `HybridClock` to what a connection asks for. Not safe for threads, as the
clock itself; a server whose commits are numbered by another thread passes an adapter that locks.
"""

from __future__ import annotations

from stele.env.ports import Clock
from stele.model.clock import HybridClock


class HybridMessageClock:
    """`MessageClock` over the clock that numbers this process's commits."""

    def __init__(self, hybrid: HybridClock, wall: Clock):
        self._hybrid = hybrid
        self._wall = wall

    def stamp(self) -> int:
        """The largest value handed out or seen."""
        return self._hybrid.last

    def witness(self, clock: int) -> None:
        """Advance past a peer's clock, or refuse it with `ClockSkew`."""
        self._hybrid.observe(clock, self._wall.now_us())
