"""Operations on the group: single steps, a newcomer's way to a vote, handing over leadership.

    JoinGroup:  not a member ──AddLearner──▶ learner ──caught up, Promote──▶ voter, answered
                       (each step waits for the one before it to be committed)

Everything here lives in the leader's memory. When leadership is lost the requests are refused, and
whoever asked asks the next leader, for which each step that was done is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from stele.errors import GiveUp, NotLeader, OutcomeUnknown, RetryElsewhere, RetryLater, Unavailable
from stele.metastore.events import ChangeMembership, JoinGroup, TransferLeadership
from stele.metastore.outbox import Outbox
from stele.raft import NOBODY, AddLearner, Promote, RaftCore, Role


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
        "_joining",
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

    def _furthest(self) -> int:
        status = self._core.status()
        voters = [peer for peer in status.peers if peer.node in status.membership.voters]
        if not voters:
            raise Unavailable("there is no other voter to lead")
        return max(voters, key=lambda peer: (peer.recently_active, peer.match)).node

    def _end_transfer(self, error: Unavailable) -> None:
        if self._transfer is not None:
            self._out.refuse(self._transfer.request, error)
            self._transfer = None

    def tick(self) -> None:
        """Try the next steps; give up a transfer that does not succeed."""
        for event in list(self._joining.values()):
            self._advance(event)
        self._answer_steps()
        if self._transfer is not None:
            self._transfer.age_ticks += 1
            if self._core.role is Role.LEADER and self._transfer.age_ticks > self._patience_ticks:
                self._end_transfer(Unavailable(f"node {self._transfer.target} did not take over"))

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
