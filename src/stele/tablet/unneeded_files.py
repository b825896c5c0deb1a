"""The cache lets go of files as soon as no tablet refers to them any more (T9).

A compaction, a truncation or a removed column takes files out of a tablet; others may share them,
in the same table after a split or in a clone. What nobody needs makes room for what is read; a scan
that is still at it holds the files it has opened. The files themselves are the collector's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stele.tablet.events import FragmentsReplaced, TabletEventNotice
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.table_state import TableState


class UnneededFiles:
    """A listener to all tablets of an engine."""

    def __init__(self, fragments: FragmentStore, tables: Callable[[], Iterable[TableState]]):
        self._fragments = fragments
        self._tables = tables

    def on_tablet_event(self, event: TabletEventNotice) -> None:
        if not isinstance(event, FragmentsReplaced):
            return
        names = frozenset(event.removed)
        for state in self._tables():
            if not names:
                return
            names = state.layout.graph.unneeded(names)
        self._fragments.forget(names)
