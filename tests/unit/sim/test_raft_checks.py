"""A checker that cannot fail proves nothing: each invariant is broken by hand once."""

from __future__ import annotations

from collections import Counter

import pytest

from stele.raft import (
    Entry,
    EntryKind,
    HardState,
    Membership,
    RaftConfig,
    ReadState,
    Ready,
    Role,
    Snapshot,
    bootstrap,
)
from stele.raft.membership import MembershipHistory
from stele.raft.state import RaftState
from stele.sim.raft_checks import InvariantViolation, RaftChecker
from stele.sim.raft_host import Disk, Host, Image

GROUP = Membership((1, 2, 3))


class Stage:
    """Three founders on three machines, and their checker."""

    def __init__(self) -> None:
        stored = bootstrap(GROUP)
        self.hosts: dict[int, Host] = {}
        self.counters: Counter[str] = Counter()
        self.checker = RaftChecker(self.hosts, self.counters)
        self.checker.found(stored.entries)
        for node in GROUP.voters:
            disk = Disk(stored.hard_state, stored.snapshot, list(stored.entries))
            self.hosts[node] = Host(node, disk)
            self.hosts[node].start(RaftConfig(), lambda _: 0)

    def state(self, node: int) -> RaftState:
        core = self.hosts[node].core
        assert core is not None
        return core.state

    def lead(self, node: int, term: int) -> RaftState:
        """Make a node leader by decree."""
        state = self.state(node)
        state.role, state.term = Role.LEADER, term
        return state

    def store(self, node: int, *entries: Entry) -> None:
        """Put entries into a node's log and on its disk."""
        self.state(node).log.append(entries)
        self.hosts[node].disk.entries.extend(entries)


def entry(index: int, term: int, data: bytes = b"x") -> Entry:
    return Entry(term, index, EntryKind.DATA, data)


def spoken(
    *entries: Entry, committed: tuple[Entry, ...] = (), reads: tuple[ReadState, ...] = ()
) -> Ready:
    return Ready(1, None, None, entries, True, (), (), committed, reads, (), ())


def broken(invariant: str) -> pytest.RaisesExc[InvariantViolation]:
    return pytest.raises(InvariantViolation, match=f"^{invariant}")


def test_election_safety() -> None:
    stage = Stage()
    stage.checker.after_event(stage.lead(1, 2))
    stage.checker.after_event(stage.lead(2, 3))
    with broken("election safety"):
        stage.checker.after_event(stage.lead(3, 2))
    assert stage.counters["elections"] == 2


@pytest.mark.parametrize("replacement", [(), (entry(2, 2),)])
def test_leader_append_only(replacement: tuple[Entry, ...]) -> None:
    stage = Stage()
    leader = stage.lead(1, 3)
    stage.store(1, entry(2, 3))
    stage.checker.after_event(leader)
    leader.log.merge(1, [entry(2, 2)])
    if not replacement:
        leader.log.merge(1, [entry(2, 1)])
    with broken("leader append-only"):
        stage.checker.after_event(leader)


def test_log_matching_by_content_and_by_predecessor() -> None:
    stage = Stage()
    stage.checker.on_ready(stage.state(1), spoken(entry(2, 2)))
    stage.checker.on_ready(stage.state(2), spoken(entry(2, 2)))
    with broken("log matching"):
        stage.checker.on_ready(stage.state(3), spoken(entry(2, 2, b"other")))
    stage.checker.on_ready(stage.state(1), spoken(entry(2, 2), entry(3, 4)))
    with broken("log matching"):
        stage.checker.on_ready(stage.state(2), spoken(entry(2, 3), entry(3, 4)))


def commit(stage: Stage, node: int, index: int) -> None:
    stage.state(node).log.commit_to(index)
    stage.checker.after_event(stage.state(node))


def test_durable_commit_needs_a_majority_of_disks() -> None:
    stage = Stage()
    stage.lead(1, 2)
    for node in (1, 2):
        stage.store(node, entry(2, 2))
    commit(stage, 1, 2)
    assert stage.checker.commit_max == 2
    stage.store(1, entry(3, 2))
    with broken("durable commit"):
        commit(stage, 1, 3)


def test_leader_completeness_at_the_election_and_at_the_commit() -> None:
    stage = Stage()
    stage.lead(1, 2)
    for node in (1, 2):
        stage.store(node, entry(2, 2))
    commit(stage, 1, 2)
    with broken("leader completeness"):
        stage.checker.after_event(stage.lead(3, 3))
    stage = Stage()
    stage.lead(1, 2)
    stage.checker.after_event(stage.lead(3, 3))
    for node in (1, 2):
        stage.store(node, entry(2, 2))
    with broken("leader completeness"):
        commit(stage, 1, 2)


def test_a_leader_of_an_earlier_term_need_not_have_it() -> None:
    stage = Stage()
    stage.checker.after_event(stage.lead(3, 2))
    stage.lead(1, 3)
    for node in (1, 2):
        stage.store(node, entry(2, 3))
    commit(stage, 1, 2)
    assert stage.counters["commits"] == 1


def test_state_machine_safety_by_entry_commit_and_state() -> None:
    stage = Stage()
    stage.lead(1, 2)
    for node in (1, 2):
        stage.store(node, entry(2, 2))
    stage.store(3, entry(2, 1))
    commit(stage, 1, 2)
    stage.checker.on_ready(stage.state(1), spoken(committed=(entry(2, 2),)))
    with broken("state machine safety"):
        stage.checker.on_ready(stage.state(3), spoken(committed=(entry(2, 1),)))
    with broken("state machine safety"):
        commit(stage, 3, 2)
    stage.hosts[1].image = Image(2, 11)
    stage.checker.on_applied(stage.hosts[1])
    stage.hosts[2].image = Image(2, 12)
    with broken("state machine safety"):
        stage.checker.on_applied(stage.hosts[2])


def test_linearizable_reads() -> None:
    stage = Stage()
    stage.checker.asked(7)
    stage.checker.on_ready(stage.state(1), spoken(reads=(ReadState(7, 1),)))
    stage.checker.asked(8)
    with broken("linearizable reads"):
        stage.checker.on_ready(stage.state(1), spoken(reads=(ReadState(8, 0),)))


def test_membership_from_the_log() -> None:
    stage = Stage()
    stage.lead(1, 2)
    for node in GROUP.voters:
        stage.store(node, entry(2, 2))
    commit(stage, 1, 2)
    stage.state(2).log.history = MembershipHistory(Membership((9,)))
    with broken("membership from the log"):
        commit(stage, 2, 2)


def test_single_steps() -> None:
    stage = Stage()
    stage.lead(1, 2)
    first = bootstrap(GROUP).entries[0]
    stage.checker.on_ready(stage.state(1), spoken(committed=(first,)))
    leap = Entry(2, 2, EntryKind.MEMBERSHIP, Membership((1, 4)).encode())
    for node in GROUP.voters:
        stage.hosts[node].disk.entries.append(leap)
    stage.hosts[4] = Host(4, Disk(HardState(), Snapshot(), [first, leap]))
    stage.state(1).log.append([leap])
    commit(stage, 1, 2)
    with broken("single steps"):
        stage.checker.on_ready(stage.state(1), spoken(committed=(leap,)))


def test_a_restart_forgets_what_was_only_in_memory() -> None:
    stage = Stage()
    leader = stage.lead(1, 2)
    stage.store(1, entry(2, 2), entry(3, 2))
    stage.checker.after_event(leader)
    stage.checker.before_restart(1)
    leader.log.merge(1, [entry(2, 1)])
    stage.checker.after_event(leader)
    assert stage.counters["elections"] == 2


def test_given_up_reads_are_forgotten() -> None:
    stage = Stage()
    stage.checker.asked(7)
    ready = Ready(1, None, None, (), False, (), (), (), (), (7, 99), ())
    stage.checker.on_ready(stage.state(1), ready)
    assert stage.counters["reads aborted"] == 2
