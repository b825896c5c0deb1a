"""The sequencer: three watermarks that follow each other, and who waits for them.

    assigned   the largest txn handed out; the clock
    committed  everything up to here is in memory and queued for the log; ``latest`` reads see it
    durable    everything up to here is in the synced log; what all other reads see

``durable <= committed <= assigned``, and none goes back. A txn that was committed and then refused
(the disk was full) is passed over by ``durable`` without harm: it is no longer in memory.

To read at a txn above ``durable`` a server logs a clock entry with that txn and waits for it: from
then on nothing will be committed at or below, so the snapshot is complete and stays so.

Pure: callbacks are returned to be run, not called, because the owner holds a lock. Not safe for
threads; the clock inside is the one of the section that orders commits.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from stele.model.clock import HybridClock

Callback = Callable[[], None]


class Sequencer:
    """Numbers commits and knows how far they have got."""

    def __init__(self, clock: HybridClock) -> None:
        """All txns up to the clock's last are taken as durable: they are of earlier logs."""
        self._clock = clock
        self.next = clock.next
        """A txn for one commit, which is to be committed before another is asked for."""
        self._committed = clock.last
        self._durable = clock.last
        self._refused = clock.last
        self._waiting: list[tuple[int, int, Callback]] = []
        self._order = itertools.count()

    @property
    def assigned(self) -> int:
        return self._clock.last

    @property
    def committed(self) -> int:
        return self._committed

    @property
    def durable(self) -> int:
        return self._durable

    @property
    def waiting(self) -> int:
        """How many callbacks have not been returned yet."""
        return len(self._waiting)

    def observe(self, remote: int, now_us: int) -> None:
        """Another clock's value: later txns are above it. Refused when too far ahead."""
        self._clock.observe(remote, now_us)

    def commit(self, txn: int) -> None:
        """A txn's cells are in memory and queued, in the order of txns."""
        assert self._committed < txn, "commits come in the order of txns"
        self._committed = txn

    def mark_durable(self, txn: int) -> list[Callback]:
        """Everything up to a txn is in the synced log. Run what is returned, in this order."""
        assert txn <= self._committed, "durable does not overtake committed"
        self._durable = max(self._durable, txn)
        reached = []
        while self._waiting and self._waiting[0][0] <= self._durable:
            reached.append(heapq.heappop(self._waiting)[2])
        return reached

    def when_durable(self, txn: int, callback: Callback) -> bool:
        """Whether ``txn`` is durable or refused; if not, the callback is returned when it is.

        Of callbacks for one txn the first to ask is the first to be returned.
        """
        if txn <= self._durable or txn <= self._refused:
            return True
        heapq.heappush(self._waiting, (txn, next(self._order), callback))
        return False

    def needs_clock_entry(self, txn: int) -> bool:
        """Whether reading at ``txn`` takes a clock entry: nothing queued will make it durable."""
        return txn > self._committed

    def refuse(self) -> list[Callback]:
        """The rest of what was committed is refused: return all that wait. Nobody waits for it any
        more."""
        self._refused = self._committed
        callbacks = [callback for _txn, _order, callback in sorted(self._waiting)]
        self._waiting = []
        return callbacks
