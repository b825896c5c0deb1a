"""How entries reach the followers and become committed (§3.5, §3.6 and §10.2.1).

Sending is lazy: handlers only change what is known of a follower, and ``send_appends`` runs once
when the host takes a Ready. Proposals and acknowledgements between two Readys thus share messages.

The leader sends entries while its own disk still writes them, and counts itself for what the host
reported durable, like any other voter. A follower's answer waits for its sync.
"""

from __future__ import annotations

from functools import partial

from stele.errors import Corruption
from stele.raft.entries import NOBODY
from stele.raft.messages import (
    AppendAccepted,
    AppendRejected,
    AppendRequest,
    Heartbeat,
    InstallSnapshot,
    TimeoutNow,
)
from stele.raft.progress import Progress, ProgressState
from stele.raft.quorum import majority_reached
from stele.raft.roles import become_follower
from stele.raft.state import RaftState, Role


def send_appends(s: RaftState) -> None:
    """Give every follower what it can take now."""
    last, commit = s.log.last_index, s.log.commit
    for node, progress in s.peers.items():
        while not progress.knows(last, commit) and send_append(s, node, progress):
            pass


def has_entries(s: RaftState) -> bool:
    """Whether some follower lacks entries, as far as is known."""
    last = s.log.last_index
    for progress in s.peers.values():  # noqa: SIM110 - asked for every message
        if not progress.has_all(last):
            return True
    return False


def has_news(s: RaftState) -> bool:
    """Whether some follower was not told yet what is committed, and can be: one that is gone, or
    waits for an image, hears of it when it is back."""
    commit = s.log.commit
    for progress in s.peers.values():
        if progress.commit_sent < commit and progress.state is ProgressState.REPLICATE:
            return True
    return False


def send_append(s: RaftState, node: int, progress: Progress) -> bool:
    """Send one message if there is something to say; whether a further one could follow."""
    if progress.state is ProgressState.SNAPSHOT or progress.answer_due:
        return False
    prev_index = progress.next - 1
    prev_term = s.log.term_at(prev_index)
    if prev_term is None:
        progress.want_snapshot()
        s.snapshots_wanted.append(node)
        return False
    streaming = progress.state is ProgressState.REPLICATE
    room = 0 if progress.inflight.full else s.config.append_bytes_max
    entries = s.log.slice(progress.next, s.log.last_index, room) if room else ()
    told = progress.commit_sent >= s.log.commit and not progress.check_due
    if streaming and told and not entries:
        return False
    s.send(AppendRequest(s.id, node, s.term, prev_index, prev_term, entries, s.log.commit))
    progress.note_sent(entries, s.log.commit)
    return streaming and bool(entries)


def follow(s: RaftState, m: AppendRequest | Heartbeat | InstallSnapshot) -> None:
    """A message only the leader of this term can have sent: it is the leader, and it lives."""
    if s.role is not Role.FOLLOWER or s.leader != m.source:
        become_follower(s, s.term, m.source)
    else:
        s.election_elapsed = 0


def handle_append(s: RaftState, m: AppendRequest) -> None:
    """Take over the leader's entries if the one before them is here; answer after the sync."""
    refuse_broken_chain(m)
    follow(s, m)
    if m.prev_index < s.log.commit:
        accept(s, m.source, s.log.commit)
    elif s.log.matches(m.prev_index, m.prev_term):
        covered = s.log.merge(m.prev_index, m.entries)
        s.log.commit_to(follower_commit(s, m.commit, covered))
        accept(s, m.source, covered)
    else:
        hint = s.log.last_not_above(m.prev_index, m.prev_term)
        term = s.log.term_at(hint) or 0
        s.send_after_sync(AppendRejected(s.id, m.source, s.term, m.prev_index, hint, term))


def refuse_broken_chain(m: AppendRequest) -> None:
    """A leader sends consecutive entries of rising terms up to its own; anything else is damage."""
    index, term = m.prev_index, m.prev_term
    for entry in m.entries:
        if entry.index != index + 1 or not term <= entry.term <= m.term:
            raise Corruption(
                f"node {m.source} sends entry {entry.index}/{entry.term} after {index}/{term} "
                f"in term {m.term}"
            )
        index, term = entry.index, entry.term


def follower_commit(_: RaftState, leader_commit: int, covered: int) -> int:
    """Only what this message compared with the leader's log is known to be the leader's: entries
    behind it may be an old leader's leftovers (§3.5)."""
    return min(leader_commit, covered)


def accept(s: RaftState, leader: int, index: int) -> None:
    """Tell the leader, once it is true on disk, that the logs agree up to ``index``."""
    s.send_after_sync(AppendAccepted(s.id, leader, s.term, index))


def handle_accepted(s: RaftState, m: AppendAccepted) -> None:
    """A follower has more of the log for good: perhaps enough of them do."""
    progress = s.peers.get(m.source)
    if progress is None:
        return
    if m.index > s.log.last_index:
        raise Corruption(f"node {m.source} acknowledges {m.index}, log ends at {s.log.last_index}")
    progress.recently_active = True
    if progress.accept(m.index, s.log.first_index):
        if s.transfer_target != NOBODY:
            offer_leadership(s)
        if m.index > s.log.commit:
            advance_commit(s)


def handle_rejected(s: RaftState, m: AppendRejected) -> None:
    """The logs part before ``prev_index``: skip back a whole term of entries at a time.

    The follower skipped what is newer than the term asked for; the leader skips what is newer than
    the term of the hint. Neither can be common.
    """
    progress = s.peers.get(m.source)
    if progress is not None:
        progress.recently_active = True
        progress.reject(m.prev_index, s.log.last_not_above(m.hint_index, m.hint_term) + 1)


def note_unreachable(s: RaftState, node: int) -> None:
    """What was streamed to ``node`` is probably lost: find out before sending more."""
    progress = s.peers.get(node)
    if progress is not None and progress.state is ProgressState.REPLICATE:
        progress.probe(progress.match + 1)


def persisted_here(s: RaftState) -> int:
    """How far the leader may count itself."""
    return s.log.ledger.persisted


def match_of(s: RaftState, voter: int) -> int:
    """Up to where ``voter`` is known to hold this log on disk."""
    return persisted_here(s) if voter == s.id else s.peers[voter].match


def may_commit_by_counting(s: RaftState, index: int) -> bool:
    """Copies decide only about entries of the leader's own term; older ones follow with them. A
    majority may hold an old entry and a later leader still overwrite it (§3.6.2, figure 3.7)."""
    return s.log.term_at(index) == s.term


def advance_commit(s: RaftState) -> None:
    """Commit what a majority of the voters holds durably."""
    index = majority_reached(s.membership.voters, partial(match_of, s))
    if index > s.log.commit and may_commit_by_counting(s, index):
        s.uncommitted_bytes -= s.log.bytes_between(s.log.commit, index)
        s.log.commit_to(index)
        if not s.is_voter and index >= s.log.history.current_index:
            leave_office(s)


def leave_office(s: RaftState) -> None:
    """The leader's own removal is committed (§4.2.2): tell the others, name a successor, go."""
    send_appends(s)
    successor = max(s.membership.voters, key=lambda voter: s.peers[voter].match)
    s.send(TimeoutNow(s.id, successor, s.term))
    become_follower(s, s.term, NOBODY)


def offer_leadership(s: RaftState) -> None:
    """Tell the target of a transfer to stand as soon as it misses nothing (§3.10)."""
    target = s.peers.get(s.transfer_target)
    if target is not None and target.match == s.log.last_index:
        s.send(TimeoutNow(s.id, s.transfer_target, s.term))
