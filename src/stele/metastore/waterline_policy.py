"""When history is given up: after it has been kept for a chosen time.

The leader notes now and then how far the state is. Once a note is as old as history shall be kept,
its index is where the waterline may go. A new leader has no notes and so keeps history for longer
rather than shorter, as readers are promised.
"""

from __future__ import annotations

from collections import deque


class WaterlinePolicy:
    """Takes facts, gives an index; the entry that moves the waterline is the node's business."""

    __slots__ = ("_history_us", "_notes", "_period_us")

    def __init__(self, history_us: int, period_us: int) -> None:
        self._history_us = history_us
        self._period_us = period_us
        self._notes: deque[tuple[int, int]] = deque()

    def forget(self) -> None:
        """Leadership began or ended: the notes may be another's business."""
        self._notes.clear()

    def tick(self, now_us: int, applied: int) -> int | None:
        """The index up to which history may go now, if there is a new one."""
        notes = self._notes
        if not notes or now_us - notes[-1][0] >= self._period_us:
            notes.append((now_us, applied))
        reached = None
        while notes and now_us - notes[0][0] >= self._history_us:
            reached = notes.popleft()[1]
        return reached
