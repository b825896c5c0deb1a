"""What must never happen in a Raft group, checked after every event.

- **Election safety**: one leader a term.
- **Leader append-only**: a leader never overwrites or drops an entry of its log.
- **Log matching**: an index and a term name one entry with one predecessor, everywhere.
- **Leader completeness**: what is committed is in the log of every leader of a later term.
- **State machine safety**: no two nodes apply different entries at one index, nor reach different
  states.
- **Durable commit**: when a leader commits, a majority of its voters has the entry on disk. It
  follows from the rest, but fails at the moment of the mistake and not seeds later.
- **Linearizable reads**: a read index is at or above all that was committed when the read was
  asked.
- **Membership from the log**: at one commit index, all nodes know the same members.
- **Single steps**: consecutive memberships differ by one voter at most.

All state of the checker is fed by what nodes did, never by what they should have done.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable

from stele.raft import Entry, EntryKind, Membership, Ready, Role, decode_membership
from stele.raft.quorum import majority_of
from stele.raft.state import RaftState
from stele.sim.raft_host import Host


class InvariantViolation(AssertionError):
    """The algorithm broke its promise."""


def require(condition: bool, invariant: str, detail: str) -> None:
    """Fail with the invariant's name first, so that reports can be grouped by it."""
    if not condition:
        raise InvariantViolation(f"{invariant}: {detail}")


class RaftChecker:
    """Watches all nodes of one simulated group."""

    def __init__(self, hosts: dict[int, Host], counters: Counter[str]) -> None:
        self._hosts = hosts
        self._counters = counters
        self._leader_of_term: dict[int, int] = {}
        self._leader_tail: dict[int, tuple[int, int, int]] = {}
        self._entries: dict[tuple[int, int], tuple[int, int]] = {}
        self._committed: dict[int, int] = {}
        self._digests: dict[int, int] = {}
        self._memberships: dict[int, Membership] = {}
        self._membership_at: dict[int, Membership] = {}
        self._asked: dict[int, int] = {}
        self._seen_commit: dict[int, int] = {}
        self.commit_max = 0

    def found(self, entries: Iterable[Entry]) -> None:
        """Entries every founder starts with."""
        for entry in entries:
            self._log_matching(entry, 0)
            self._committed[entry.index] = entry.term
            self.commit_max = entry.index

    def before_restart(self, node: int) -> None:
        """What a node knew in memory is gone."""
        self._leader_tail.pop(node, None)
        self._seen_commit.pop(node, None)

    def asked(self, context: int) -> None:
        """A client asks for a read now."""
        self._asked[context] = self.commit_max

    def on_ready(self, state: RaftState, ready: Ready) -> None:
        """A node spoke."""
        if ready.entries:
            prev_term = state.log.term_at(ready.entries[0].index - 1) or 0
            for entry in ready.entries:
                self._log_matching(entry, prev_term)
                prev_term = entry.term
        for entry in ready.committed:
            self._state_machine_safety(state, entry)
        for read in ready.read_states:
            floor = self._asked.pop(read.context)
            self._counters["reads confirmed"] += 1
            require(
                read.index >= floor,
                "linearizable reads",
                f"node {state.id} reads at {read.index}, {floor} was committed before",
            )
        for context in ready.aborted_reads:
            self._counters["reads aborted"] += 1
            self._asked.pop(context, None)

    def on_applied(self, host: Host) -> None:
        """A state machine reached a new state."""
        image = host.image
        known = self._digests.setdefault(image.index, image.digest)
        agrees = known == image.digest
        require(agrees, "state machine safety", f"node {host.id} differs at {image.index}")

    def after_event(self, state: RaftState) -> None:
        """Whatever happened, this must hold for the node it happened to."""
        log = state.log
        log.check_invariants()
        if state.role is Role.LEADER:
            self._leader(state)
        if log.commit > self._seen_commit.get(state.id, 0):
            self._seen_commit[state.id] = log.commit
            self._commit(state)

    def _log_matching(self, entry: Entry, prev_term: int) -> None:
        identity = (prev_term, zlib.crc32(entry.data))
        known = self._entries.setdefault((entry.index, entry.term), identity)
        require(known == identity, "log matching", f"two entries at {entry.index}/{entry.term}")

    def _leader(self, state: RaftState) -> None:
        log, term = state.log, state.term
        first = self._leader_of_term.setdefault(term, state.id)
        require(first == state.id, "election safety", f"{first} and {state.id} lead term {term}")
        tail = self._leader_tail.get(state.id)
        if tail is None or tail[0] != term:
            self._counters["elections"] += 1
            self._leader_completeness(state, self.commit_max)
        else:
            require(
                log.last_index >= tail[1] and log.term_at(tail[1]) in (tail[2], None),
                "leader append-only",
                f"node {state.id} had {tail[1]}/{tail[2]} in term {term}",
            )
        self._leader_tail[state.id] = (term, log.last_index, log.last_term)

    def _commit(self, state: RaftState) -> None:
        index = state.log.commit
        term = state.log.term_at(index)
        assert term is not None, "a node compacts only what it applied"
        known = self._committed.get(index)
        if known is None:
            self._durable_commit(state, index, term)
        else:
            require(
                known == term,
                "state machine safety",
                f"node {state.id} commits {index}/{term}, committed is term {known}",
            )
            self._same_membership(state, index)

    def _same_membership(self, state: RaftState, index: int) -> None:
        mine, known = state.log.history.at(index), self._membership_at.get(index)
        agrees = known is None or mine == known
        require(agrees, "membership from the log", f"node {state.id} has {mine} at {index}")

    def _durable_commit(self, state: RaftState, index: int, term: int) -> None:
        """The first to know is the leader, or was until it left office over this very entry."""
        log = state.log
        voters = state.membership.voters
        holding = [node for node in voters if self._hosts[node].disk.holds(index, term)]
        require(
            len(holding) >= majority_of(voters),
            "durable commit",
            f"node {state.id} commits {index}/{term}, durable on {holding} of {list(voters)}",
        )
        self.commit_max = max(self.commit_max, index)
        at = index
        while at not in self._committed and at > log.base_index:
            self._committed[at] = log.term_at(at) or 0
            self._membership_at[at] = log.history.at(at)
            self._counters["commits"] += 1
            at -= 1
        for host in self._hosts.values():
            if host.core is not None and host.core.state.role is Role.LEADER:
                self._leader_completeness(host.core.state, index)

    def _leader_completeness(self, state: RaftState, index: int) -> None:
        term = self._committed[index]
        if term <= state.term:
            require(
                index <= state.log.base_index or state.log.matches(index, term),
                "leader completeness",
                f"node {state.id} leads term {state.term} without committed {index}/{term}",
            )

    def _state_machine_safety(self, state: RaftState, entry: Entry) -> None:
        known = self._committed.get(entry.index)
        require(
            known == entry.term,
            "state machine safety",
            f"node {state.id} applies {entry.index}/{entry.term}, committed is term {known}",
        )
        if entry.kind is EntryKind.MEMBERSHIP and entry.index not in self._memberships:
            self._single_step(entry)

    def _single_step(self, entry: Entry) -> None:
        membership = decode_membership(entry.data)
        if self._memberships:
            before = self._memberships[max(self._memberships)]
            changed = set(before.voters) ^ set(membership.voters)
            require(len(changed) <= 1, "single steps", f"{before.voters} to {membership.voters}")
            self._counters["membership changes"] += 1
        self._memberships[entry.index] = membership
