"""Admission by bytes: who may go on, and who waits until others are done.

A request asks for its bytes before it does anything. It is admitted if they fit, and if nobody
waits in front of it: first come, first served, so that a large request is not starved by small
ones. One request is always admitted when nothing else is, however large, because it would never
fit and would block everybody behind it.

Nothing blocks: whoever has to wait gets an admission that is granted later, by the release that
makes room. The budget is pure and not safe for threads; its owner calls it inside its own lock and
runs the callbacks of what was granted after leaving it.

What was admitted may stay when its admission is released, as cells stay in memory until they are
flushed. The owner counts that in ``held_bytes``, and calls ``grant`` when it has become less. Who
is in a hurry compares with ``open_bytes`` first, and needs no admission while nobody waits.
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
    """So many bytes for all. Invariant: ``used <= limit``, or one admission holds it all.

    Used and held together keep to that as long as what is held grows by what was admitted.
    """

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes <= 0:
            raise InvalidArgument(f"a memory budget of {limit_bytes} bytes admits nothing")
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.held_bytes = 0
        """What stays of admissions that were released; the owner changes it."""
        self.open_bytes = limit_bytes
        """Up to where ``held_bytes`` may grow by who did not ask; below 0 while somebody waits."""
        self._is_closed = False
        self._waiting: deque[Admission] = deque()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def next_waiting(self) -> Admission | None:
        """Whose turn comes next."""
        return self._waiting[0] if self._waiting else None

    def has_room(self, size: int) -> bool:
        """Whether a request would be granted at once."""
        return not self._waiting and self._fits(size)

    def request(self, size: int, callback: Callable[[Admission], None] | None = None) -> Admission:
        """Ask for ``size`` bytes; look at ``granted``, and wait for the callback if it is not."""
        admission = Admission(size, callback)
        self.ask(admission)
        return admission

    def ask(self, admission: Admission) -> None:
        """Ask with an admission that the caller has made."""
        assert admission.size >= 0, admission.size
        if self.has_room(admission.size):
            self._grant(admission)
        else:
            self._waiting.append(admission)
        self._count_open()

    def release(self, admission: Admission) -> list[Admission]:
        """Give bytes back, or up. Returns what is granted by it: run their callbacks."""
        assert not admission.released, "an admission is released once"
        admission.released = True
        if admission.granted:
            self.used_bytes -= admission.size
        else:
            self._waiting.remove(admission)
        return self.grant()

    def grant(self) -> list[Admission]:
        """Let in who fits now. Returns what is granted: run their callbacks."""
        granted = []
        while self._waiting and self._fits(self._waiting[0].size):
            granted.append(self._waiting.popleft())
            self._grant(granted[-1])
        self._count_open()
        return granted

    def close(self) -> list[Admission]:
        """Let nobody in any more. Returns who waits, for nothing; they are still to be released."""
        self._is_closed = True
        self._count_open()
        return list(self._waiting)

    def _fits(self, size: int) -> bool:
        taken = self.used_bytes + self.held_bytes
        return not self._is_closed and (taken == 0 or taken + size <= self.limit_bytes)

    def _count_open(self) -> None:
        is_open = not self._waiting and not self._is_closed
        self.open_bytes = self.limit_bytes - self.used_bytes if is_open else -1

    def _grant(self, admission: Admission) -> None:
        admission.granted = True
        self.used_bytes += admission.size
