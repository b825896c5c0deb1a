"""When garbage is collected: now and then, and at once when the disk is full."""

from __future__ import annotations

import logging
from collections.abc import Callable

from stele.cluster.store import Store
from stele.cluster.turns import CatalogLock
from stele.env.ports import Timer
from stele.errors import SteleError

COLLECTION_PERIOD_US = 30_000_000
"""Between two rounds: a file is deleted in the second after the one that found it useless, so a
minute later at the earliest."""

MAKE_ROOM_PERIOD_US = 1_000_000
"""Between two searches on a full disk: there may be no garbage."""

log = logging.getLogger("stele.store")


class Collector:
    """Rounds for one store. They keep away from changes of the catalog, whose files may be spoken
    of nowhere yet."""

    def __init__(
        self,
        store: Store,
        catalog: CatalogLock,
        tidy: Callable[[], None],
        report: Callable[[str, SteleError | None], None],
    ) -> None:
        """``tidy`` ends what holds files and should not any more, before a round."""
        self._store = store
        self._catalog = catalog
        self._tidy = tidy
        self._report = report
        self._next: Timer | None = None
        self._stopped = False
        self._made_room_us: int | None = None

    def start(self) -> None:
        """Collect now and then, from now on."""
        self._next = self._store.world.tasks.call_later(COLLECTION_PERIOD_US, self._collect)

    def stop(self) -> None:
        """Collect no more."""
        self._stopped = True
        if self._next is not None:
            self._next.cancel()

    def _collect(self) -> None:
        """One round, unless the catalog is being changed just now."""
        with self._catalog.held_if_free() as is_free:
            if self._stopped:
                return
            if is_free:
                try:
                    self._tidy()
                    self._store.collect_garbage()
                    self._report("collection", None)
                except SteleError as error:
                    self._report("collection", error)
        self.start()

    def make_room(self) -> None:
        """The disk is full: give back what garbage takes, before anybody is refused for it."""
        for engine in (self._store.user, self._store.meta):
            engine.log_spares.give_back()
        now_us = self._store.world.clock.monotonic_us()
        last_us = self._made_room_us
        if last_us is not None and now_us - last_us < MAKE_ROOM_PERIOD_US:
            return
        with self._catalog.held_if_free() as is_free:
            if not is_free or self._stopped:
                return
            self._made_room_us = now_us
            try:
                self._store.collect_garbage(at_once=True)
            except SteleError as error:
                log.warning("no room could be made on a full disk: %s", error)
