"""Taking new entries: data, and changes of the membership (§3.5, chapter 4 of the dissertation).

Every refusal is typed and leaves nothing behind. A change of the membership is refused

- until an entry of the leader's own term is committed. Without this, two leaders in turn could each
  change one voter of the same old membership, and their majorities need not meet (Ongaro's note of
  2015 on the single-server change);
- while an earlier change is not committed;
- if it would make a voter of a learner that is far behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from stele.errors import LimitExceeded, Throttled, Unavailable
from stele.raft.entries import ENTRY_OVERHEAD_BYTES, Entry, EntryKind
from stele.raft.membership import Change, Promote, apply_change
from stele.raft.progress import ProgressState
from stele.raft.reading import commit_is_current, release_confirmed
from stele.raft.ready import Proposed
from stele.raft.replication import advance_commit
from stele.raft.roles import refresh_peers
from stele.raft.state import RaftState
from stele.raft.transfer import refuse_during_transfer


def propose(s: RaftState, payloads: Sequence[bytes]) -> Proposed:
    """Append the host's payloads, all or none of them."""
    s.require_leader()
    refuse_during_transfer(s)
    return _append(s, EntryKind.DATA, payloads)


def propose_change(s: RaftState, change: Change) -> Proposed:
    """Append the membership after ``change``. It holds from this moment, here first."""
    s.require_leader()
    refuse_during_transfer(s)
    refuse_unsafe_change(s)
    if isinstance(change, Promote):
        refuse_straggler(s, change.node)
    membership = apply_change(s.membership, change)
    proposed = _append(s, EntryKind.MEMBERSHIP, [membership.encode()])
    refresh_peers(s)
    # With fewer voters, what was short of a majority may have one now: reads and entries.
    release_confirmed(s)
    advance_commit(s)
    return proposed


def refuse_unsafe_change(s: RaftState) -> None:
    """One change at a time, and only by a leader that knows what is committed."""
    if not commit_is_current(s):
        raise Unavailable(f"no entry of term {s.term} is committed yet")
    pending = s.log.history.current_index
    if pending > s.log.commit:
        raise Unavailable(f"the membership change at {pending} is not committed yet")


def refuse_straggler(s: RaftState, node: int) -> None:
    """A voter that lacks most of the log would stop the group as soon as another one fails."""
    progress = s.peers.get(node)
    if progress is None:
        return
    lag = s.log.last_index - progress.match
    limit = s.config.promotion_lag_entries_max
    if progress.silent_periods and not progress.recently_active:
        beats = progress.silent_periods * s.config.election_ticks // s.config.heartbeat_ticks
        raise Unavailable(
            f"node {node} has not caught up: it answered none of the last {beats} heartbeats"
        )
    if lag > limit:
        raise Unavailable(
            f"node {node} is {lag} entries behind (promotion_lag_entries_max {limit})"
        )
    if progress.state is not ProgressState.REPLICATE:
        raise Unavailable(f"node {node} has not caught up: what its log holds is not known yet")


def _append(s: RaftState, kind: EntryKind, payloads: Sequence[bytes]) -> Proposed:
    size_max = s.config.entry_bytes_max
    for payload in payloads:
        if len(payload) > size_max:
            raise LimitExceeded(f"entry of {len(payload)} bytes (entry_bytes_max {size_max})")
    size = sum(map(len, payloads)) + ENTRY_OVERHEAD_BYTES * len(payloads)
    if s.uncommitted_bytes + size > s.config.uncommitted_bytes_max:
        raise Throttled(
            f"{s.uncommitted_bytes} bytes are uncommitted, {size} more exceed "
            f"uncommitted_bytes_max {s.config.uncommitted_bytes_max}"
        )
    first = s.log.last_index + 1
    s.uncommitted_bytes += size
    s.log.append([Entry(s.term, first + i, kind, data) for i, data in enumerate(payloads)])
    return Proposed(s.term, first, s.log.last_index)
