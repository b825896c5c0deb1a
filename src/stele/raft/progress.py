"""What a leader knows about one follower, and how fast it may talk to it.

    PROBE ──accepted──▶ REPLICATE      PROBE: where the logs meet is unknown; one message at a
      ▲ ▲                  │ │         time, the next one after an answer or a heartbeat's.
      │ └────rejected──────┘ │         REPLICATE: entries stream ahead of their acknowledgements,
      │                      │         as many bytes as the window allows.
      └─ reported ─ SNAPSHOT ◀─ what it needs is compacted away; nothing is sent until the host
                                 reports, or an acknowledgement shows that the log reaches again.

``match`` only grows while one leader leads: it counts what the follower said is durable.
``next`` is a guess and may go back, but never to ``match`` or below.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence

from stele.raft.entries import Entry, size_of_all


class ProgressState(enum.Enum):
    """How the follower is being served."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class InflightWindow:
    """Append messages without an answer, counted in bytes."""

    __slots__ = ("_bytes_max", "_sent", "bytes_total")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sent: deque[tuple[int, int]] = deque()
        self.bytes_total = 0

    @property
    def full(self) -> bool:
        """No further entries until an answer makes room. One large message always passes."""
        return self.bytes_total >= self._bytes_max

    def add(self, entries: Sequence[Entry]) -> None:
        """One message with these entries is on its way."""
        size = size_of_all(entries)
        self._sent.append((entries[-1].index, size))
        self.bytes_total += size

    def free_to(self, index: int) -> None:
        """Everything up to ``index`` has arrived."""
        while self._sent and self._sent[0][0] <= index:
            self.bytes_total -= self._sent.popleft()[1]

    def clear(self) -> None:
        """Forget what was sent: it has to be sent again."""
        self._sent.clear()
        self.bytes_total = 0


class Progress:
    """Invariant: ``match < next``."""

    __slots__ = (
        "answer_due",
        "check_due",
        "commit_sent",
        "inflight",
        "match",
        "next",
        "pending_snapshot",
        "recently_active",
        "silent_periods",
        "state",
    )

    def __init__(self, next_index: int, inflight_bytes_max: int) -> None:
        self.state = ProgressState.PROBE
        self.match = 0
        self.next = next_index
        self.inflight = InflightWindow(inflight_bytes_max)
        self.answer_due = False
        """A probe is out, and nothing more is sent before its answer or the next heartbeat's."""

        self.check_due = False
        """Ask, with an empty message if need be, whether what was streamed has arrived."""

        self.commit_sent = 0
        """The commit index the follower was last told, lost or not."""

        self.pending_snapshot = 0
        """The index of the image on its way; 0 while the host has not begun."""

        self.recently_active = True
        """Heard from since the last quorum check. A newcomer gets one period to say something."""

        self.silent_periods = 0
        """Whole periods between quorum checks without a word, up to the last check."""

    def has_all(self, last_index: int) -> bool:
        """Whether all entries were streamed already: the common case, and cheap to tell."""
        return (
            self.next > last_index and not self.check_due and self.state is ProgressState.REPLICATE
        )

    def knows(self, last_index: int, commit: int) -> bool:
        """The same, and whether it was told what is committed."""
        return self.commit_sent >= commit and self.has_all(last_index)

    def note_sent(self, entries: Sequence[Entry], commit: int) -> None:
        """An append message went out."""
        self.commit_sent = commit
        self.check_due = False
        if self.state is ProgressState.PROBE:
            self.answer_due = True
        elif entries:
            self.next = entries[-1].index + 1
            self.inflight.add(entries)

    def note_alive(self, last_index: int) -> None:
        """The follower answered a heartbeat. An append or its answer may have been lost since the
        last one: a probe is repeated, a stream is checked."""
        self.recently_active = True
        self.answer_due = False
        self.check_due = self.match < last_index

    def begin_period(self) -> None:
        """The quorum was checked; listen anew."""
        self.silent_periods = 0 if self.recently_active else self.silent_periods + 1
        self.recently_active = False

    def accept(self, index: int, log_first_index: int) -> bool:
        """The follower holds the leader's log up to ``index``. Whether that was news."""
        if index < self.match:
            return False
        news = index > self.match
        self.match = index
        self.next = max(self.next, index + 1)
        self.inflight.free_to(index)
        caught_up_to_log = self.state is ProgressState.SNAPSHOT and index + 1 >= log_first_index
        if caught_up_to_log or self.state is ProgressState.PROBE:
            self._enter(ProgressState.REPLICATE, self.match + 1)
        return news

    def reject(self, prev_index: int, next_index: int) -> bool:
        """The follower lacks ``prev_index``; try from ``next_index``. False if the answer is old.

        While streaming, anything above ``match`` may be the sign of a lost message. While probing,
        only the probe that is out can have been meant.
        """
        if self.state is ProgressState.SNAPSHOT or prev_index <= self.match:
            return False
        if self.state is ProgressState.PROBE and prev_index != self.next - 1:
            return False
        self.probe(min(prev_index, next_index))
        return True

    def probe(self, next_index: int) -> None:
        """Fall back to asking where the logs meet."""
        self._enter(ProgressState.PROBE, max(next_index, self.match + 1))

    def want_snapshot(self) -> None:
        """The log does not reach back far enough."""
        self._enter(ProgressState.SNAPSHOT, self.next)

    def finish_snapshot(self, *, arrived: bool) -> None:
        """The host's transfer ended; go on from behind the image, or from where it was."""
        self.probe(self.pending_snapshot + 1 if arrived else self.match + 1)

    def _enter(self, state: ProgressState, next_index: int) -> None:
        self.state = state
        self.next = next_index
        self.answer_due = False
        self.pending_snapshot = 0
        self.inflight.clear()
