"""What listeners hear of tablets, and how they are told.

Whoever changes a table's layout collects events while it holds its lock, lets go of the lock, and
only then dispatches: a listener may call back into the engine. Listeners register for one tablet
or for all; registered twice for the same event they hear it once; each registration needs its own
removal. Adding and removing from inside a callback is legal and takes effect after the event
being dispatched. A listener must not raise; one that does is a bug and ends the dispatch.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from stele.model.ranges import RowRange


@dataclass(frozen=True, slots=True)
class FragmentsReplaced:
    """A tablet lost the fragments ``removed`` and got ``added``; an insertion removes nothing."""

    tablet: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowRangeChanged:
    """A tablet's rows changed: smaller after a split, larger after a join, or none at all.

    ``rows`` is ``None`` for the tablet that a join absorbed and for one that was unloaded.
    """

    tablet: str
    rows: RowRange | None


TabletEventNotice = FragmentsReplaced | RowRangeChanged


class TabletListener(Protocol):
    """Hears of changes; compared by identity."""

    def on_tablet_event(self, event: TabletEventNotice) -> None:
        """Called without any engine lock held."""


ALL_TABLETS = None


class TabletEvents:
    """Registry and dispatcher. Threads may share it; events of one call are told in order."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._registered: dict[str | None, Counter[int]] = {}
        self._listeners: dict[int, TabletListener] = {}
        self._dispatching = False
        self._put_off: list[tuple[bool, TabletListener, str | None]] = []

    def add(self, listener: TabletListener, tablet: str | None = ALL_TABLETS) -> None:
        """Tell ``listener`` of one tablet's events, or of all."""
        self._change(True, listener, tablet)

    def remove(self, listener: TabletListener, tablet: str | None = ALL_TABLETS) -> None:
        """Undo one :meth:`add` with the same arguments."""
        self._change(False, listener, tablet)

    def dispatch(self, events: Iterable[TabletEventNotice]) -> None:
        """Tell everybody concerned. Call it without holding any lock of the engine."""
        for event in events:
            with self._lock:
                self._dispatching = True
                try:
                    for listener in self._concerned(event.tablet):
                        listener.on_tablet_event(event)
                finally:
                    self._dispatching = False
                    self._catch_up()

    def _concerned(self, tablet: str) -> list[TabletListener]:
        keys = self._registered.get(tablet, Counter()) | self._registered.get(
            ALL_TABLETS, Counter()
        )
        return [self._listeners[key] for key in keys]

    def _change(self, add: bool, listener: TabletListener, tablet: str | None) -> None:
        with self._lock:
            if self._dispatching:
                self._put_off.append((add, listener, tablet))
            else:
                self._change_now(add, listener, tablet)

    def _catch_up(self) -> None:
        put_off, self._put_off = self._put_off, []
        for add, listener, tablet in put_off:
            self._change_now(add, listener, tablet)

    def _change_now(self, add: bool, listener: TabletListener, tablet: str | None) -> None:
        counts = self._registered.setdefault(tablet, Counter())
        key = id(listener)
        if add:
            counts[key] += 1
            self._listeners[key] = listener
            return
        assert counts[key] > 0, "a listener is removed more often than it was added"
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
        if not counts:
            del self._registered[tablet]
        if not any(key in registered for registered in self._registered.values()):
            del self._listeners[key]
