"""What one entry does, while it is being applied."""

from __future__ import annotations

import msgspec

from stele.metastore.commands import Answer, Effects, LockGranted, SessionInfo
from stele.protocol.metastore_values import Change


class Footprint(msgspec.Struct, eq=False, gc=False):
    """Collects the effects of the entry at ``index``."""

    index: int
    changes: dict[str, Change] = msgspec.field(default_factory=dict)
    """By key, so that a key comes once however often the entry touched it."""
    superseded: dict[str, int] = msgspec.field(default_factory=dict)
    """For each key that changed: when its version before this entry was written, or 0."""
    granted: tuple[LockGranted, ...] = ()
    opened: tuple[SessionInfo, ...] = ()
    ended: tuple[int, ...] = ()

    def effects(self, answer: Answer) -> Effects:
        """All of it, for those who wait and watch."""
        return Effects(
            self.index, answer, tuple(self.changes.values()), self.granted, self.opened, self.ended
        )
