"""The port between consensus and its host: everything a driver may ask of a Raft core.

Small on purpose, so that another core could stand in its place. Nothing here blocks, and nothing
here may be called from two threads at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stele.raft.entries import Entry, Snapshot
from stele.raft.membership import Change, Membership
from stele.raft.messages import InstallSnapshot, Message
from stele.raft.ready import Proposed, Ready
from stele.raft.state import Role
from stele.raft.status import Status


class RaftCore(Protocol):
    """Events go in through the other methods, instructions come out of ``ready``."""

    @property
    def role(self) -> Role:
        """What this node is at present."""

    @property
    def term(self) -> int:
        """The newest term it has seen."""

    @property
    def leader(self) -> int:
        """The leader of that term, as far as known; ``NOBODY`` otherwise."""

    @property
    def membership(self) -> Membership:
        """The newest membership in its log: whom to connect to, and where."""

    @property
    def commit(self) -> int:
        """Up to here the log is known to be decided."""

    @property
    def membership_index(self) -> int:
        """The entry that brought it; where the log begins if it is older than that."""

    @property
    def removed_at(self) -> int:
        """The entry of its own log that took this node out of its group; 0 while it belongs to
        one, or never did. Most that are removed are not sent that entry any more."""

    @property
    def leading_term(self) -> int:
        """The term in which it leads; 0 while it does not."""

    def tick(self) -> None:
        """A unit of time has passed."""

    def step(self, message: Message) -> None:
        """A message has arrived. Old, doubled and reordered ones do no harm."""

    def has_ready(self) -> bool:
        """Whether ``ready`` may have something to say. Costs little, for who asks often."""

    def has_work(self) -> bool:
        """The same, but for news of a commit, which cost less with the next entries."""

    def owes_news(self) -> bool:
        """Whether a follower waits for such news."""

    def ready(self) -> Ready | None:
        """What is to be done now; None if nothing is. Each instruction is given once."""

    def take_committed(self) -> tuple[Entry, ...]:
        """The next entries to apply, ahead of the Ready that would bring them."""

    def persisted(self, number: int) -> None:
        """The writes of all Readys up to ``number`` are durable."""

    def applied(self, index: int) -> None:
        """The state machine holds the effects of everything up to ``index``."""

    def propose(self, payloads: Sequence[bytes]) -> Proposed:
        """Append entries. Raises NotLeader, Unavailable, Throttled or LimitExceeded."""

    def propose_change(self, change: Change) -> Proposed:
        """Change the membership by one step. Raises as ``propose`` does, and InvalidArgument,
        NotFound or AlreadyExists when the step makes no sense."""

    def read_index(self, context: int) -> None:
        """Ask for a linearizable read; answered in ``Ready.read_states`` or ``aborted_reads``.

        A context must not be used again before it is answered. A message may be lost, so a read
        at a follower may also get no answer: ask again under a new context.
        """

    def transfer_leadership(self, target: int) -> None:
        """Hand leadership to ``target``; watch ``status`` for the outcome."""

    def abstain(self, *, undo: bool = False) -> None:
        """Leave leading to others, or no longer; vote and replicate as before. A leader stays one
        until it has handed over, and if nobody else can be elected for long this node stands all
        the same. A new life of the node knows nothing of it."""

    def campaign(self) -> None:
        """Stand for election now, with the pre-vote; nothing happens at a leader or learner, or
        at a node that abstains."""

    def compact(self, index: int) -> Snapshot:
        """Forget the log up to an applied ``index``; where it begins now."""

    def describe_snapshot(self, index: int) -> Snapshot:
        """What a state image taken at ``index`` stands for."""

    def begin_snapshot(self, peer: int, index: int) -> InstallSnapshot:
        """An image at ``index`` is being sent to ``peer``; the message that concludes it."""

    def report_snapshot(self, peer: int, *, arrived: bool) -> None:
        """That transfer has ended."""

    def report_unreachable(self, peer: int) -> None:
        """Messages to ``peer`` are being lost: stop streaming, probe."""

    def status(self) -> Status:
        """A look inside."""
