"""Mistakes that Raft implementations really made, or easily make, each as a small patch.

A patch replaces one decision of the core for the length of a ``with`` block; the product itself
knows nothing of it. Each bug names who must notice: the simulation within so many seeds, or
scenario files (under ``tests/scenarios/raft``), whose expected output must then no longer come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from stele.raft import election, leadership, node, proposals, reading, replication, transfer
from stele.raft.entries import NOBODY, Entry, HardState, Snapshot
from stele.raft.ledger import WriteLedger
from stele.raft.log import RaftLog
from stele.raft.membership import Membership, MembershipHistory
from stele.raft.messages import (
    AppendAccepted,
    Heartbeat,
    InstallSnapshot,
    Message,
    TimeoutNow,
    VoteRequest,
)
from stele.raft.progress import InflightWindow
from stele.raft.quorum import VoteOutcome, majority_of
from stele.raft.read_index import ForwardedReads, ReadRounds
from stele.raft.ready import Ready
from stele.raft.state import RaftState, Role


@dataclass(frozen=True, slots=True)
class Patch:
    """``owner.name`` becomes ``replacement``; in a dict it is the item of that name."""

    owner: Any
    name: Any
    replacement: Any

    def plant(self) -> AbstractContextManager[object]:
        """In place until the context ends."""
        if isinstance(self.owner, dict):
            return mock.patch.dict(self.owner, {self.name: self.replacement})
        return mock.patch.object(self.owner, self.name, self.replacement)


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """One mistake and who has to find it."""

    name: str
    patches: tuple[Patch, ...]
    seeds_max: int = 0
    """The simulation finds it within this many seeds; 0: it is not asked."""

    scenarios: tuple[str, ...] = ()

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The core has this bug until the context ends."""
        with ExitStack() as stack:
            for patch in self.patches:
                stack.enter_context(patch.plant())
            yield


def bug(
    name: str, owner: Any, attribute: Any, wrong: Any, *scenarios: str, seeds_max: int = 0
) -> PlantedBug:
    """A bug of one patch."""
    return PlantedBug(name, (Patch(owner, attribute, wrong),), seeds_max, scenarios)


def _truncate_always(self: RaftLog, prev_index: int, entries: Sequence[Entry]) -> int:
    if prev_index < self.last_index:
        self._truncate(prev_index + 1)
    self.append(entries)
    return prev_index + len(entries)


_take_ready = RaftState.take_ready


def _forget_vote(
    self: RaftState, number: int, hard_state: HardState | None, *rest: Any, **named: Any
) -> Ready:
    if hard_state is not None:
        hard_state = HardState(hard_state.term, NOBODY, hard_state.commit)
    return _take_ready(self, number, hard_state, *rest, **named)


def _write_no_hard_state(
    self: RaftState, number: int, hard_state: HardState | None, *rest: Any, **named: Any
) -> Ready:
    return _take_ready(self, number, None, *rest, **named)


def _accept_whole_log(s: RaftState, leader: int, index: int) -> None:
    s.send_after_sync(AppendAccepted(s.id, leader, s.term, s.log.last_index))


def _count_any_vote(voters: Sequence[int], votes: Mapping[int, bool]) -> VoteOutcome:
    won = sum(votes.values()) >= majority_of(voters)
    return VoteOutcome.WON if won else VoteOutcome.PENDING


def _ask_all_members(s: RaftState) -> list[int]:
    return [member for member in s.membership.members if member != s.id]


def _half_is_enough(voters: Sequence[int], reached: Callable[[int], int]) -> int:
    values = sorted(map(reached, voters))
    return values[len(values) // 2]


def _confirm_without_round(self: ReadRounds, voters: Sequence[int], leader: int) -> Any:
    done = [item.confirmed for item in self._open]
    self._open.clear()
    return done


def _answer_counts_for_all(self: ReadRounds, answering: int, number: int) -> None:
    self._answered[answering] = self.latest


def _install_always(s: RaftState, m: InstallSnapshot) -> None:
    replication.follow(s, m)
    if m.snapshot.index > s.log.commit:
        s.log.restore(m.snapshot)
        s.snapshot_to_install = m.snapshot
    replication.accept(s, m.source, s.log.commit)


_restore = RaftLog.restore


def _restore_without_membership(self: RaftLog, snapshot: Snapshot) -> None:
    kept = Membership(self.membership.voters, self.membership.learners)
    _restore(self, Snapshot(snapshot.index, snapshot.term, kept))


def _truncate_forgetting_writes(self: WriteLedger, first: int) -> None:
    self.offered = min(self.offered, first - 1)
    self.persisted = min(self.persisted, first - 1)


_send_after_sync = RaftState.send_after_sync


def _ask_for_votes_early(self: RaftState, message: Message) -> None:
    if isinstance(message, VoteRequest):
        self.send(message)
    else:
        _send_after_sync(self, message)


def _stand_at_once(s: RaftState) -> None:
    election.stand_for_election(s, transfer=False)


def _broadcast_whole_commit(s: RaftState) -> None:
    for peer in s.peers:
        s.send(Heartbeat(s.id, peer, s.term, s.log.commit, s.reads.latest))


def _offer_at_once(s: RaftState) -> None:
    if s.transfer_target in s.peers:
        s.send(TimeoutNow(s.id, s.transfer_target, s.term))


def _answered_in_any_life(self: ForwardedReads, nonce: int, contexts: Sequence[int]) -> list[int]:
    return [context for context in contexts if self.outstanding.pop(context, False)]


def _commit_old_tail(s: RaftState, leader_commit: int, _: int) -> int:
    return min(leader_commit, s.log.last_index)


def _last_index(s: RaftState) -> int:
    return s.log.last_index


def _commit_index(log: RaftLog) -> int:
    return log.commit


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _no(*_: Any, **__: Any) -> bool:
    return False


def _nothing(*_: Any, **__: Any) -> None:
    return None


PLANTED_BUGS = [
    bug(
        "the log is cut without a conflict",
        RaftLog,
        "merge",
        _truncate_always,
        "append_keeps_matching_entries",
        seeds_max=20,
    ),
    bug(
        "answers leave before the sync",
        RaftState,
        "send_after_sync",
        RaftState.send,
        "election_vote_waits_for_sync",
        "append_basic",
        seeds_max=20,
    ),
    bug(
        "the vote is not persisted",
        RaftState,
        "take_ready",
        _forget_vote,
        "election_one_vote_per_term",
    ),
    bug(
        "the hard state is not persisted",
        RaftState,
        "take_ready",
        _write_no_hard_state,
        seeds_max=20,
    ),
    bug(
        "votes go to logs that are behind",
        election,
        "is_up_to_date",
        _yes,
        "election_up_to_date",
        seeds_max=50,
    ),
    bug(
        "two votes in one term",
        election,
        "may_vote_for",
        _yes,
        "election_one_vote_per_term",
        seeds_max=100,
    ),
    bug("copies commit an old term", replication, "may_commit_by_counting", _yes, "figure_8"),
    bug(
        "the leader counts itself before its sync",
        replication,
        "persisted_here",
        _last_index,
        "append_basic",
        "election_single_node",
        seeds_max=20,
    ),
    bug(
        "a follower commits its old tail",
        replication,
        "follower_commit",
        _commit_old_tail,
        "append_old_tail",
    ),
    bug(
        "a follower acknowledges its old tail",
        replication,
        "accept",
        _accept_whole_log,
        "append_old_tail",
    ),
    PlantedBug(
        "votes of learners are counted",
        (
            Patch(election, "_other_voters", _ask_all_members),
            Patch(election, "count_votes", _count_any_vote),
        ),
        scenarios=("election_non_voters_do_not_count",),
    ),
    bug(
        "half of the voters commit",
        replication,
        "majority_reached",
        _half_is_enough,
        "learner_promotion",
        seeds_max=20,
    ),
    bug(
        "reads before the own term commits",
        reading,
        "commit_is_current",
        _yes,
        "read_index_needs_own_term",
        seeds_max=100,
    ),
    bug(
        "reads without a round",
        ReadRounds,
        "confirm",
        _confirm_without_round,
        "read_index_basic",
        seeds_max=150,
    ),
    bug(
        "an old answer confirms a new read",
        ReadRounds,
        "answer",
        _answer_counts_for_all,
        "read_index_stale_leader",
    ),
    bug(
        "membership changes overlap",
        proposals,
        "refuse_unsafe_change",
        _nothing,
        "membership_one_at_a_time",
        "membership_single_server_bug",
    ),
    bug(
        "an overwritten membership stays",
        MembershipHistory,
        "truncate",
        _nothing,
        "membership_reverts",
        seeds_max=100,
    ),
    bug(
        "an image drops what follows it",
        node.HANDLERS[Role.FOLLOWER],
        InstallSnapshot,
        _install_always,
        "snapshot_keeps_matching_tail",
    ),
    bug(
        "an image comes without its membership",
        RaftLog,
        "restore",
        _restore_without_membership,
        "snapshot_keeps_matching_tail",
        seeds_max=20,
    ),
    bug(
        "a late report vouches for new entries",
        WriteLedger,
        "truncate",
        _truncate_forgetting_writes,
        "late_write_reports",
        "leader_steps_down_with_writes_under_way",
        seeds_max=100,
    ),
    bug(
        "entries are applied before the sync",
        RaftLog,
        "applicable_index",
        _commit_index,
        "append_commit_without_leader_disk",
        seeds_max=150,
    ),
    bug(
        "votes are asked for before the sync",
        RaftState,
        "send_after_sync",
        _ask_for_votes_early,
        "election_vote_waits_for_sync",
    ),
    bug(
        "candidates are heard while a leader lives",
        election,
        "leader_is_alive",
        _no,
        "leader_protected_from_candidates",
        "membership_removed_node_disturbs",
    ),
    bug("no pre-vote", election, "ask_for_pre_votes", _stand_at_once, "pre_vote_partitioned_node"),
    bug("no quorum check", leadership, "quorum_is_active", _yes, "check_quorum"),
    bug(
        "a heartbeat commits more than is there",
        leadership,
        "broadcast_heartbeat",
        _broadcast_whole_commit,
        "snapshot_install_then_append",
        seeds_max=20,
    ),
    bug(
        "leadership is offered too early",
        transfer,
        "offer_leadership",
        _offer_at_once,
        "transfer_target_behind",
    ),
    bug(
        "a removed leader stays", replication, "leave_office", _nothing, "membership_remove_leader"
    ),
    bug(
        "answers to an earlier life are taken",
        ForwardedReads,
        "answered",
        _answered_in_any_life,
        "read_index_forwarded",
    ),
    bug("no window", InflightWindow, "full", False, "window_bytes"),
    bug(
        "a straggler becomes a voter", proposals, "refuse_straggler", _nothing, "learner_promotion"
    ),
]
