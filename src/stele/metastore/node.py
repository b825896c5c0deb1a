"""One member of the metastore: everything it decides, and nothing it does.

The node joins the Raft core with those who wait for it: writes for their entry to be applied, reads
and renewals for their round, sessions for their deadline, newcomers for their vote. Events go in by
``handle``, instructions come out of ``take``; ``events.py`` says what the host owes in return. The
same events give the same instructions: no clock, no dice but the core's, no I/O, no threads.

What makes it safe:

- messages that rest on the own disk are kept here until ``Persisted``: no host can send them early;
- a write is answered from ``Applied`` only, by index *and* term;
- a read is served only after a round that began later than it, by a state that reached its index;
- a session ends only by an entry, and its deadline moves only when a round proved leadership;
- after ``StorageLost`` nothing comes out any more but ``stop``.

What makes it fast: everything of one turn shares one proposal, one context, one Ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stele.errors import (
    GiveUp,
    InvalidArgument,
    LimitExceeded,
    NotLeader,
    RetryElsewhere,
    RetryLater,
    SessionExpired,
    SteleError,
    Throttled,
)
from stele.metastore import events as e
from stele.metastore.alarm_policy import DISK_FULL, OVER_QUOTA
from stele.metastore.leader_duties import LeaderDuties
from stele.metastore.membership import MembershipDesk
from stele.metastore.outbox import Outbox
from stele.metastore.pending import PendingWrites
from stele.metastore.reads import WaitingReads
from stele.metastore.session_timers import SessionTimers
from stele.metastore.standing import Standing
from stele.metastore.waterline_policy import WaterlinePolicy
from stele.raft import NOBODY, RaftCore, Ready, Status

MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How a node keeps house; time in ticks where Raft counts, else in microseconds."""

    read_patience_ticks: int = 10
    """A follower's read that has no answer for so long asks again."""

    transfer_patience_ticks: int = 20
    away_us_max: int = 3_000_000
    """A leader whose ticks pause for longer was suspended: sessions get a full TTL."""

    compact_after_entries: int = 20_000
    """Applied entries in the log at which the state is synced and the log cut."""

    keep_entries: int = 5_000
    """What stays of the log, so that a member that was away for a moment needs no image."""

    history_us: int = 10 * MINUTE_US
    """How long old versions can be read and watches resumed."""

    waterline_period_us: int = MINUTE_US

    def __post_init__(self) -> None:
        if self.keep_entries >= self.compact_after_entries:
            raise InvalidArgument(
                f"keep_entries is {self.keep_entries}, "
                f"must be below compact_after_entries ({self.compact_after_entries})"
            )


class Node:
    """Not safe for use from several threads."""

    def __init__(
        self,
        core: RaftCore,
        settings: NodeSettings,
        *,
        applied: int,
        sessions: tuple[tuple[int, int], ...],
    ) -> None:
        self.core = core
        self.settings = settings
        self.applied = applied
        """How far the state machine is, as the host reported."""

        status = core.status()
        self.id = status.node
        self.standing = Standing(core, self.id)
        self.stopped: str | None = None
        """Why, once it has."""

        self.has_news = False
        """Something follows from what was handed in since the last ``take``. Without news, another
        could only tell the followers what is committed: see ``owes_news``."""

        self._log_start = status.first_index
        self._leading_term = 0
        self._writes: list[e.Write | e.WriteMany] = []
        self._out = Outbox()
        self._stop_told = False
        self._state_sync_under_way = False
        self._pending = PendingWrites(self._out)
        self._reads = WaitingReads()
        self._timers = SessionTimers(settings.away_us_max)
        self._timers.replace(sessions)
        waterline = WaterlinePolicy(settings.history_us, settings.waterline_period_us)
        self._duties = LeaderDuties(core, self._timers, waterline)
        self._desk = MembershipDesk(core, settings.transfer_patience_ticks, self._out)

    @property
    def leads(self) -> bool:
        """Whether this node thinks it leads; only a read's round proves it."""
        return self.core.leading_term > 0

    @property
    def leader_address(self) -> str | None:
        """Where the leader listens, as far as is known."""
        leader = self.core.leader
        return None if leader == NOBODY else self.core.membership.address_of(leader)

    def status(self) -> Status:
        """A look inside."""
        return self.core.status()

    def handle(self, event: e.Event) -> None:
        """Take one event. A stopped node takes none."""
        kind = type(event)
        if self.stopped is None:
            self._HANDLERS[kind](self, event)
        if not self.has_news:
            self.has_news = kind not in _OFTEN_IN_VAIN or self._has_work()

    def _has_work(self) -> bool:
        """Answers do not count: of the events that ask this, ``Applied`` alone makes some, and they
        are for ``take_answers``."""
        return (
            self.core.has_work()
            or self._reads.has_confirmed
            or self._reads.wants_round
            or bool(self._writes)
            or self._out.has_more_than_answers
        )

    @property
    def owes_news(self) -> bool:
        """Whether followers wait to hear what is committed. They may, for a moment: entries that
        follow say it too, and that saves a message, its answer, and a turn at both ends."""
        return self.core.owes_news()

    def take(self) -> e.Instructions | None:
        """What is to be done now; None if nothing is. Once a turn, until then."""
        self.has_news = False
        if self.stopped is not None:
            return self._last_words(self.stopped)
        if self.core.leading_term != self._leading_term:
            self._note_leadership()
        if self._writes:
            self._propose_writes()
        elif self._leading_term and (committed := self.core.take_committed()):
            # Somebody waits for their answers; what the followers have to hear can wait a moment.
            return e.Instructions(apply=committed)
        if self._reads.wants_round:
            self._ask_reads()
        ready = self.core.ready() if self.core.has_ready() else None
        self._desk.look()
        if ready is not None:
            self._take_ready(ready)
        if self._reads.has_confirmed:
            self._serve_reads()
        if ready is None and self._out.is_empty:
            return None
        return self._out.take(ready, self.core.leader)

    def take_answers(self) -> list[e.Answer]:
        """Answers that are due, ahead of everything else that ``take`` would give."""
        return self._out.take_answers()

    def _last_words(self, reason: str) -> e.Instructions | None:
        if self._stop_told:
            return None
        self._stop_told = True
        answers, refusals = tuple(self._out.answers), tuple(self._out.refusals)
        return e.Instructions(answers=answers, refusals=refusals, stop=reason)

    # Clients.

    def _on_write(self, event: e.Write | e.WriteMany) -> None:
        self._writes.append(event)

    def _on_read(self, event: e.Read) -> None:
        self._reads.asked.reads.append(event.request)

    def _on_keep_alive(self, event: e.KeepAlive) -> None:
        if self.leads:
            self._reads.asked.renewals.append(event)
        else:
            self._out.refuse(event.request, self._not_leader())

    def _on_forget(self, event: e.Forget) -> None:
        self._out.forgotten.add(event.request)

    def _not_leader(self) -> NotLeader:
        return NotLeader(f"node {self.id} does not lead", leader=self.leader_address)

    def _propose_writes(self) -> None:
        writes, self._writes = self._writes, []
        try:
            self._propose(writes)
        except (Throttled, LimitExceeded) as refusal:
            self._propose_one_by_one(writes, refusal)
        except (RetryLater, RetryElsewhere) as refusal:
            for write in writes:
                self._out.refuse(write.request, refusal)

    def _propose(self, writes: Sequence[e.Write | e.WriteMany]) -> None:
        payloads: list[bytes] = []
        requests: list[tuple[int, int | None]] = []
        for write in writes:
            if type(write) is e.WriteMany:
                payloads += write.payloads
                requests.append((write.request, len(write.payloads)))
            else:
                assert type(write) is e.Write
                payloads.append(write.payload)
                requests.append((write.request, None))
        self._pending.add(self.core.propose(payloads), requests)

    def _propose_one_by_one(self, writes: list[e.Write | e.WriteMany], refusal: SteleError) -> None:
        """Together they are too much. What fits is taken, in order."""
        if len(writes) == 1:
            self._out.refuse(writes[0].request, refusal)
            return
        for write in writes:
            try:
                self._propose((write,))
            except (RetryLater, GiveUp) as single:
                self._out.refuse(write.request, single)

    def _ask_reads(self) -> None:
        reads = self._reads
        context = reads.begin()
        try:
            self.core.read_index(context)
        except (RetryLater, RetryElsewhere) as refusal:
            renewals = reads.abort(context)
            given_up = reads.give_up_asked()
            for request in given_up.reads + [renewal.request for renewal in renewals]:
                self._out.refuse(request, refusal)

    def _serve_reads(self) -> None:
        for serve, renewals in self._reads.take_served(self.applied):
            self._out.serve(serve)
            for renewal in renewals:
                self._answer_renewal(renewal)

    def _answer_renewal(self, renewal: e.KeepAlive) -> None:
        if not self.leads:
            self._out.refuse(renewal.request, self._not_leader())
            return
        ttl_us = self._timers.renew(renewal.session)
        if ttl_us is None:
            ended = SessionExpired(f"session {renewal.session} has ended")
            self._out.refuse(renewal.request, ended)
        else:
            self._out.answer(renewal.request, ttl_us)

    # Consensus.

    def _on_tick(self, event: e.Tick) -> None:
        self.core.tick()
        self.standing.look()
        self._note_leadership()
        if self.leads:
            self._duties.tick(event.now_us, event.wall_us, self.applied)
        else:
            for renewal in self._reads.tick(self.settings.read_patience_ticks):
                self._out.refuse(renewal.request, self._not_leader())
        self._desk.tick()

    def _on_peer_message(self, event: e.PeerMessage) -> None:
        self.core.step(event.message)

    def _on_peer_unreachable(self, event: e.PeerUnreachable) -> None:
        self.core.report_unreachable(event.peer)

    def _on_persisted(self, event: e.Persisted) -> None:
        self._out.release(event.number)
        self.core.persisted(event.number)

    def _note_leadership(self) -> None:
        """Leadership is gone or new: the term tells, also when both came within one turn."""
        leading_term = self.core.leading_term
        if leading_term == self._leading_term:
            return
        if self._leading_term:
            self._pending.abandon()
            self._desk.lose_leadership()
            self._duties.end()
        self._leading_term = leading_term
        if leading_term:
            self._duties.begin()

    def _take_ready(self, ready: Ready) -> None:
        self._out.send.extend(ready.messages)
        if ready.messages_after_sync:
            self._out.after_sync.append((ready.number, ready.messages_after_sync))
        for state in ready.read_states:
            self._reads.confirm(state.context, state.index)
        for context in ready.aborted_reads:
            for renewal in self._reads.abort(context):
                self._out.refuse(renewal.request, self._not_leader())

    # The state machine and its images.

    def _on_applied(self, event: e.Applied) -> None:
        self.applied = event.entries[-1].index
        self.core.applied(self.applied)
        for effect in event.effects:
            for session in effect.opened:
                self._timers.opened(session.id, session.ttl_us)
            for ended in effect.ended:
                self._timers.ended(ended)
        self._pending.settle(event.entries, event.effects)
        self._desk.applied(self.applied)
        if event.over_quota and self.leads:
            self._duties.raise_alarm(self.id, OVER_QUOTA)
        kept = self.applied - self._log_start
        if kept >= self.settings.compact_after_entries and not self._state_sync_under_way:
            self._out.sync_state = self._state_sync_under_way = True

    def _on_state_replaced(self, event: e.StateReplaced) -> None:
        self.applied = max(self.applied, event.index)
        self._log_start = event.index + 1
        self._timers.replace(event.sessions)

    def _on_state_synced(self, event: e.StateSynced) -> None:
        self._state_sync_under_way = False
        upto = event.index - self.settings.keep_entries
        if upto >= self._log_start:
            self._out.cut_log = self.core.compact(upto)
            self._log_start = upto + 1

    def _on_image_made(self, event: e.ImageMade) -> None:
        try:
            message = self.core.begin_snapshot(event.peer, event.index)
        except (NotLeader, InvalidArgument):
            return  # Nobody waits for it any more, or the log has moved past it.
        self._out.send_images.append(e.SendImage(message))

    def _on_image_sent(self, event: e.ImageSent) -> None:
        self.core.report_snapshot(event.peer, arrived=event.arrived)

    def _on_image_arrived(self, event: e.ImageArrived) -> None:
        self.core.step(event.message)

    # Operations and mishaps.

    def _on_change(self, event: e.ChangeMembership) -> None:
        self._desk.change(event)

    def _on_join(self, event: e.JoinGroup) -> None:
        self._desk.join(event)

    def _on_transfer(self, event: e.TransferLeadership) -> None:
        self._desk.transfer(event)

    def _on_drain(self, event: e.Drain) -> None:
        self._desk.drain(event)

    def _on_space_short(self, event: e.SpaceShort) -> None:
        if self.leads:
            self._duties.raise_alarm(event.node, DISK_FULL)
        elif event.node == self.id:
            self._out.report_space = True

    def _on_alarm_over(self, event: e.AlarmOver) -> None:
        if self.leads:
            self._duties.clear_alarm(event.node)
        elif event.node == self.id:
            self._out.report_space = True

    def _on_told_removed(self, event: e.ToldRemoved) -> None:
        self.standing.told(event.index, event.address)

    def _on_storage_lost(self, event: e.StorageLost) -> None:
        self.stopped = f"storage failed: {event.reason}"
        self._pending.abandon()
        self._desk.lose_leadership()
        waiting = [write.request for write in self._writes] + self._reads.drain()
        for request in waiting:
            self._out.refuse(request, NotLeader(f"node {self.id} has stopped"))
        self._out.fall_silent()

    _HANDLERS: ClassVar[dict[type, Callable[[Node, Any], None]]] = {
        e.Tick: _on_tick,
        e.PeerMessage: _on_peer_message,
        e.PeerUnreachable: _on_peer_unreachable,
        e.Write: _on_write,
        e.WriteMany: _on_write,
        e.Read: _on_read,
        e.KeepAlive: _on_keep_alive,
        e.ChangeMembership: _on_change,
        e.JoinGroup: _on_join,
        e.TransferLeadership: _on_transfer,
        e.Drain: _on_drain,
        e.Forget: _on_forget,
        e.Persisted: _on_persisted,
        e.Applied: _on_applied,
        e.StateReplaced: _on_state_replaced,
        e.StateSynced: _on_state_synced,
        e.ImageMade: _on_image_made,
        e.ImageSent: _on_image_sent,
        e.ImageArrived: _on_image_arrived,
        e.SpaceShort: _on_space_short,
        e.AlarmOver: _on_alarm_over,
        e.ToldRemoved: _on_told_removed,
        e.StorageLost: _on_storage_lost,
    }


_OFTEN_IN_VAIN = frozenset({e.PeerMessage, e.Persisted, e.Applied})
"""Of these many change nothing that anybody waits for: the last acknowledgement of an entry, the
own sync that is not the first, an apply that was answered."""
