"""Operations on the group: single steps, a newcomer's way to a vote, handing over leadership.

    JoinGroup:  not a member ──AddLearner──▶ learner ──caught up, Promote──▶ voter, answered
                       (each step waits for the one before it to be committed)

Everything here lives in the leader's memory. When leadership is lost the requests are refused, and
whoever asked asks the next leader, for which each step that was done is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from stele.errors import (
    GiveUp,
    InvalidArgument,
    NotLeader,
    OutcomeUnknown,
    RetryElsewhere,
    RetryLater,
    Unavailable,
)
from stele.metastore.events import ChangeMembership, Drain, JoinGroup, TransferLeadership
from stele.metastore.outbox import Outbox
from stele.raft import NOBODY, AddLearner, PeerStatus, Promote, RaftCore, Role


@dataclass(frozen=True, slots=True)
class _Step:
    """A change that is in the log: answered when the state has applied ``index``."""

    request: int
    index: int


@dataclass(slots=True)
class _Transfer:
    request: int
    target: int
    age_ticks: int = 0


class MembershipDesk:
    """Takes requests, and answers them as the core and the log move on."""

    __slots__ = (
        "_applied",
        "_core",
        "_declined",
        "_is_drained",
        "_joining",
        "_leading_ticks",
        "_offered",
        "_out",
        "_patience_ticks",
        "_steps",
        "_transfer",
    )

    def __init__(self, core: RaftCore, patience_ticks: int, out: Outbox) -> None:
        self._core = core
        self._patience_ticks = patience_ticks
        self._out = out
        self._applied = 0
        self._steps: list[_Step] = []
        self._joining: dict[int, JoinGroup] = {}
        self._transfer: _Transfer | None = None
        self._declined: set[int] = set()
        """Who did not take over when asked: others are asked first the next time."""
        self._is_drained = False
        self._leading_ticks = 0
        """Since a drained node came to lead, or asked somebody to take over."""
        self._offered = NOBODY

    def change(self, event: ChangeMembership) -> None:
        """Propose one step."""
        try:
            proposed = self._core.propose_change(event.change)
        except (RetryLater, RetryElsewhere, GiveUp) as refusal:
            self._out.refuse(event.request, refusal)
        else:
            self._steps.append(_Step(event.request, proposed.last_index))

    def join(self, event: JoinGroup) -> None:
        """Begin, or go on with, a newcomer's way. Of several requests the latest is answered."""
        if self._core.role is not Role.LEADER:
            self._out.refuse(event.request, self._not_leader())
            return
        before = self._joining.get(event.node)
        if before is not None:
            repeated = Unavailable(f"node {event.node} asked again")
            self._out.refuse(before.request, repeated)
        self._joining[event.node] = event
        self._advance(event)

    def _not_leader(self) -> NotLeader:
        leader = self._core.leader
        hint = None if leader == NOBODY else self._core.membership.address_of(leader)
        return NotLeader("this node does not lead its group", leader=hint)

    def _advance(self, event: JoinGroup) -> None:
        membership = self._core.membership
        if event.node in membership.voters:
            # Its vote may not be committed yet, but it is in the log.
            del self._joining[event.node]
            self._steps.append(_Step(event.request, self._core.status().last_index))
            return
        learner = event.node in membership.learners
        step = Promote(event.node) if learner else AddLearner(event.node, event.address)
        try:
            self._core.propose_change(step)
        except RetryLater:
            return  # An earlier step is under way, or it has not caught up: the next tick tries.
        except (RetryElsewhere, GiveUp) as refusal:
            del self._joining[event.node]
            self._out.refuse(event.request, refusal)

    def transfer(self, event: TransferLeadership) -> None:
        """Begin to hand over. Whoever leads already need not be waited for: the request may be one
        that was sent again."""
        try:
            target = event.target or self._furthest()
            self._core.transfer_leadership(target)
        except (RetryLater, RetryElsewhere, GiveUp) as refusal:
            self._out.refuse(event.request, refusal)
            return
        if target == self._core.leader:
            self._out.answer(event.request, target)
            return
        self._end_transfer(Unavailable("another transfer was asked for"))
        self._transfer = _Transfer(event.request, target)

    def drain(self, event: Drain) -> None:
        """Abstain from leading, and hand over what there is to hand over."""
        node = self._core.status().node
        if not event.undo and self._core.membership.voters == (node,):
            alone = InvalidArgument(f"node {node} is the only voter: nobody else could lead")
            self._out.refuse(event.request, alone)
            return
        self._core.abstain(undo=event.undo)
        self._is_drained = not event.undo
        if self._core.role is Role.LEADER and not event.undo:
            self.transfer(TransferLeadership(event.request))
        else:
            self._out.answer(event.request, self._core.leader)

    def _hand_over_again(self) -> None:
        """A drained node leads when nobody else can; now and then it looks whether somebody can.
        Nothing is proposed while it asks, so who has declined is not asked twice."""
        if self._transfer is not None or self._core.role is not Role.LEADER:
            self._leading_ticks, self._offered = 0, NOBODY
            return
        self._leading_ticks += 1
        if self._leading_ticks < self._patience_ticks:
            return
        self._declined.add(self._offered)
        able = [peer for peer in self._other_voters() if peer.recently_active]
        able = [peer for peer in able if peer.node not in self._declined]
        if able:
            self._leading_ticks = 0
            self._offered = max(able, key=lambda peer: peer.match).node
            self._core.transfer_leadership(self._offered)

    def _other_voters(self) -> list[PeerStatus]:
        status = self._core.status()
        return [peer for peer in status.peers if peer.node in status.membership.voters]

    def _furthest(self) -> int:
        voters = self._other_voters()
        if not voters:
            raise Unavailable("there is no other voter to lead")
        return max(
            voters,
            key=lambda peer: (peer.node not in self._declined, peer.recently_active, peer.match),
        ).node

    def _end_transfer(self, error: Unavailable) -> None:
        if self._transfer is not None:
            self._out.refuse(self._transfer.request, error)
            self._transfer = None

    def tick(self) -> None:
        """Try the next steps; give up a transfer that does not succeed."""
        for event in list(self._joining.values()):
            self._advance(event)
        self._answer_steps()
        if self._is_drained:
            self._hand_over_again()
        if self._transfer is not None:
            self._transfer.age_ticks += 1
            if self._core.role is Role.LEADER and self._transfer.age_ticks > self._patience_ticks:
                self._declined.add(self._transfer.target)
                slow = f"node {self._transfer.target} did not take over: it is slow, or drained"
                self._end_transfer(Unavailable(slow))

    def look(self) -> None:
        """Somebody may lead: the transfer was a success if that is another."""
        transfer = self._transfer
        if transfer is None:
            return
        leader = self._core.leader
        if self._core.role is not Role.LEADER and leader != NOBODY:
            self._out.answer(transfer.request, leader)
            self._transfer = None

    def applied(self, index: int) -> None:
        """Everything up to ``index`` is applied, by a leader that has led since it was asked."""
        self._applied = index
        if self._steps:
            self._answer_steps()

    def _answer_steps(self) -> None:
        for step in self._steps:
            if step.index <= self._applied:
                self._out.answer(step.request, self._core.membership)
        self._steps = [step for step in self._steps if step.index > self._applied]

    def lose_leadership(self) -> None:
        """What waits for the log is open; a transfer waits for the new leader's name."""
        lost = OutcomeUnknown("leadership was lost before the change was committed")
        waiting = [step.request for step in self._steps]
        waiting += [event.request for event in self._joining.values()]
        for request in waiting:
            self._out.refuse(request, lost)
        self._steps.clear()
        self._joining.clear()
        self._declined.clear()
