"""Admission by bytes: who may go on, and who waits until others are done.

A request asks for its bytes before it does anything. It is admitted if they fit, and if nobody
waits in front of it: first come, first served, so that a large request is not starved by small
ones. One request is always admitted when nothing else is, however large, because it would never
fit and would block everybody behind it.

Nothing blocks: whoever has to wait gets an admission that is granted later, by the release that
makes room. The budget is pure and not safe for threads; its owner calls it inside its own lock and
runs the callbacks of what was granted after leaving it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from stele.errors import InvalidArgument


class Admission:
    """Bytes that were asked for. Release it exactly once, granted or not."""

    __slots__ = ("callback", "granted", "released", "size")

    def __init__(self, size: int, callback: Callable[[Admission], None] | None) -> None:
        self.size = size
        self.callback = callback
        """To be called when granted later; not called when granted at once."""
        self.granted = False
        self.released = False


class MemoryBudget:
    """So many bytes for all. Invariant: ``used <= limit``, or one admission holds it all."""

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes <= 0:
            raise InvalidArgument(f"a memory budget of {limit_bytes} bytes admits nothing")
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Admission] = deque()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def request(self, size: int, callback: Callable[[Admission], None] | None = None) -> Admission:
        """Ask for ``size`` bytes; look at ``granted``, and wait for the callback if it is not."""
        assert size >= 0, size
        admission = Admission(size, callback)
        if not self._waiting and self._fits(size):
            self._grant(admission)
        else:
            self._waiting.append(admission)
        return admission

    def release(self, admission: Admission) -> list[Admission]:
        """Give bytes back, or up. Returns what is granted by it: run their callbacks."""
        assert not admission.released, "an admission is released once"
        admission.released = True
        if admission.granted:
            self.used_bytes -= admission.size
        else:
            self._waiting.remove(admission)
        granted = []
        while self._waiting and self._fits(self._waiting[0].size):
            granted.append(self._waiting.popleft())
            self._grant(granted[-1])
        return granted

    def _fits(self, size: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size <= self.limit_bytes

    def _grant(self, admission: Admission) -> None:
        admission.granted = True
        self.used_bytes += admission.size
