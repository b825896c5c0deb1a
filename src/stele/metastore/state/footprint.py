"""What one entry does, while it is being applied."""

from __future__ import annotations

from stele.metastore.commands import Answer, Effects, LockGranted, SessionInfo
from stele.protocol.metastore_values import Change


class Footprint:
    """Collects the effects of the entry at ``index``."""

    __slots__ = ("changes", "ended", "granted", "index", "opened", "superseded")

    def __init__(self, index: int):
        self.index = index
        self.changes: dict[str, Change] = {}
        """By key, so that a key comes once however often the entry touched it."""
        self.superseded: dict[str, int] = {}
        """For each key that changed: when its version before this entry was written, or 0."""
        self.granted: tuple[LockGranted, ...] = ()
        self.opened: tuple[SessionInfo, ...] = ()
        self.ended: tuple[int, ...] = ()

    def effects(self, answer: Answer) -> Effects:
        """All of it, for those who wait and watch."""
        return Effects(
            self.index, answer, tuple(self.changes.values()), self.granted, self.opened, self.ended
        )
