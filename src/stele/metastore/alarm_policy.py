"""When an alarm is due, and when it is over.

An alarm is part of the replicated state: while there is one, nothing can be put. Two things raise
one: a disk that is full but for its reserve, and a state that is larger than its quota. Both end
by themselves, with some room between the two limits, so that a store at its limit does not flicker:

    disk     raised when the log had to give up its reserve
             over when the reserve is written again, which is tried while twice its size is free
    quota    raised when more is stored than the quota
             over when no more than ``QUOTA_CLEAR_PERCENT`` of it is, or there is no quota any more

What is the case is compared with what the state says at every tick, and said until they agree: a
report that is lost, or a leader that changes, delays an alarm or its end and nothing more. So an
operator may end an alarm at any time, and one whose reason lasts comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from stele.metastore.events import AlarmOver, SpaceShort

DISK_FULL: Final = "disk full"
OVER_QUOTA: Final = "quota"

QUOTA_CLEAR_PERCENT: Final = 90

REPEAT_TICKS: Final = 20
"""How long what was said has time to take effect: an election, or a second of a server."""


_REMEDIES: Final = {
    DISK_FULL: "make room on the disk that it is on, and it goes on by itself",
    OVER_QUOTA: "delete something and let history go, or raise the quota",
}


def remedy(reason: str) -> str:
    """What ends an alarm."""
    return _REMEDIES.get(reason, "make room")


class Facts(NamedTuple):
    """What a member knows."""

    node: int
    leads: bool
    is_disk_full: bool
    """Its own."""
    alarms: Mapping[int, str]
    members: Collection[int]
    used_bytes: int
    quota_bytes: int


def due_news(facts: Facts) -> tuple[SpaceShort | AlarmOver, ...]:
    """Where the alarms are not what they should be, as far as this member is to say so: each
    speaks for its own disk, the leader for the quota and for those who are gone."""
    news: list[SpaceShort | AlarmOver] = []
    is_alarmed = facts.alarms.get(facts.node) == DISK_FULL
    if facts.is_disk_full and not is_alarmed:
        news.append(SpaceShort(facts.node))
    elif is_alarmed and not facts.is_disk_full:
        news.append(AlarmOver(facts.node))
    if facts.leads and facts.alarms:
        is_within = _is_within_quota(facts.used_bytes, facts.quota_bytes)
        for node, reason in sorted(facts.alarms.items()):
            is_gone = reason == DISK_FULL and node not in facts.members
            if is_gone or (reason == OVER_QUOTA and is_within):
                news.append(AlarmOver(node))
    return tuple(news)


def _is_within_quota(used_bytes: int, quota_bytes: int) -> bool:
    return quota_bytes == 0 or used_bytes * 100 <= quota_bytes * QUOTA_CLEAR_PERCENT


class AlarmWatch:
    """Says what is news at once, and again every ``REPEAT_TICKS`` while it has no effect."""

    __slots__ = ("_age_ticks", "_said")

    def __init__(self) -> None:
        self._said: tuple[SpaceShort | AlarmOver, ...] = ()
        self._age_ticks = 0

    def tick(self, facts: Facts) -> tuple[SpaceShort | AlarmOver, ...]:
        """What the node has to hear now."""
        news = due_news(facts)
        if news != self._said:
            self._said, self._age_ticks = news, 0
            return news
        self._age_ticks += 1
        return () if self._age_ticks % REPEAT_TICKS else news
