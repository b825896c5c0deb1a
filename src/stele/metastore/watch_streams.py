"""Watches as streams of responses, from what the hub has for each.

The first response comes at once: from then on the caller knows where it is. One that hears nothing
for a while is told how far it is all the same, or the waterline would pass it unnoticed, and it
could not resume elsewhere. When an image replaces the state of this node the streams end: what lies
between is in the history, and who resumes from its own index gets it from there. They end as well
where a server has had no leader for a while: it may be cut off, and whoever watches it would hear
nothing of what the others go on with.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from stele.errors import Unavailable
from stele.metastore.state.machine import StateMachine
from stele.metastore.watch_hub import WatchHub
from stele.protocol.metastore import WatchResponse
from stele.protocol.metastore_values import KeyRange

PROGRESS_TICKS = 600
"""Half a minute of a server's time, far below the time for which history is kept."""

LEADERLESS_TICKS = 60
"""Three seconds of a server's time: longer than a group needs to elect. Until there is a leader the
streams end again after as long: who has found none elsewhere comes back no more often."""


class WatchStreams:
    """All of one node. ``new_waiter`` makes what a stream waits on."""

    def __init__(self, hub: WatchHub, machine: StateMachine, new_waiter: Callable[[], Any]) -> None:
        self._hub = hub
        self._machine = machine
        self._new_waiter = new_waiter
        self._idle: dict[Any, None] = {}
        self._ticks = 0
        self._leaderless_ticks = 0
        self._interruptions = 0

    def tick(self) -> None:
        """Time has passed: now and then everybody hears how far it is."""
        self._ticks += 1
        if self._ticks % PROGRESS_TICKS == 0:
            self._wake_all()

    def note_leader(self, *, is_known: bool) -> None:
        """Time has passed at a server that has to hear from others."""
        self._leaderless_ticks = 0 if is_known else self._leaderless_ticks + 1
        if self._leaderless_ticks == LEADERLESS_TICKS:
            self._leaderless_ticks = 0
            self.interrupt()

    def interrupt(self) -> None:
        """The state was replaced, or stands still: end all streams."""
        self._interruptions += 1
        self._wake_all()

    def _wake_all(self) -> None:
        for waiter in list(self._idle):
            _wake(waiter)

    async def stream(self, keys: KeyRange, since: int) -> AsyncIterator[WatchResponse]:
        """The changes of these keys above an index, for as long as somebody reads them."""
        began = self._interruptions
        waiter = self._new_waiter()
        watcher = self._hub.add(keys, since, lambda: _wake(waiter))
        try:
            while self._interruptions == began:
                delivery = watcher.take(self._machine)
                yield WatchResponse(delivery.index, delivery.transactions)
                if not delivery.more and self._interruptions == began:
                    self._idle[waiter] = None
                    await waiter
                    del self._idle[waiter]
                    waiter = self._new_waiter()
            raise Unavailable("this node was cut off, or its state was replaced: resume the watch")
        finally:
            self._idle.pop(waiter, None)
            self._hub.remove(watcher)


def _wake(waiter: Any) -> None:
    if not waiter.done():
        waiter.set_result(None)
