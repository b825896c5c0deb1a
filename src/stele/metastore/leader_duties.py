"""What a leader proposes by itself: the end of sessions, the waterline, alarms.

These commands belong to no client and are idempotent, so one that is lost with its leader does no
harm: the next leader comes to the same conclusion, or to a better one.
"""

from __future__ import annotations

from stele.errors import RetryElsewhere, RetryLater
from stele.metastore.commands import (
    NOBODY,
    AdvanceWaterline,
    ClearAlarm,
    Command,
    ExpireSessions,
    RaiseAlarm,
    encode_command,
)
from stele.metastore.session_timers import SessionTimers
from stele.metastore.waterline_policy import WaterlinePolicy
from stele.raft import RaftCore


class LeaderDuties:
    """Only a leader is asked to do them; ``begin`` and ``end`` enclose its time."""

    __slots__ = ("_alarms", "_core", "_timers", "_waterline")

    def __init__(self, core: RaftCore, timers: SessionTimers, waterline: WaterlinePolicy) -> None:
        self._core = core
        self._timers = timers
        self._waterline = waterline
        self._alarms: dict[int, str | None] = {}
        """By node: the reason of an alarm to raise, or None for one that is over."""

    def begin(self) -> None:
        """Leadership begins."""
        self._alarms.clear()
        self._waterline.forget()
        self._timers.lead()

    def end(self) -> None:
        """Leadership is lost."""
        self._timers.follow()

    def tick(self, now_us: int, wall_us: int, applied: int) -> None:
        """See what is due."""
        self._expire_sessions(now_us, wall_us)
        index = self._waterline.tick(now_us, applied)
        if index is not None:
            self._propose(AdvanceWaterline(NOBODY, index))
        for node, reason in list(self._alarms.items()):
            if self._propose(_alarm_change(node, reason)):
                del self._alarms[node]

    def raise_alarm(self, node: int, reason: str) -> None:
        """At the next tick; a second reason of the same node can wait for the first."""
        self._alarms.setdefault(node, reason)

    def clear_alarm(self, node: int) -> None:
        """At the next tick, unless something else is to be said of the node then."""
        self._alarms.setdefault(node, None)

    def _expire_sessions(self, now_us: int, wall_us: int) -> None:
        due = self._timers.tick(now_us)
        if due and self._propose(ExpireSessions(NOBODY, tuple(due), wall_us)):
            self._timers.expire(due)
        else:
            self._timers.put_back(due)

    def _propose(self, command: Command) -> bool:
        """Whether the command is in the log now."""
        try:
            self._core.propose([encode_command(command)])
        except (RetryLater, RetryElsewhere):
            return False
        return True


def _alarm_change(node: int, reason: str | None) -> Command:
    return ClearAlarm(NOBODY, node) if reason is None else RaiseAlarm(NOBODY, node, reason)
