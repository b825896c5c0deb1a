"""What must hold at every apply, and that each violation is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from types import SimpleNamespace
from unittest import mock

import pytest

from stele.env.memory import MemoryClock
from stele.metastore.commands import (
    NOBODY,
    Acquire,
    CloseSession,
    Command,
    Done,
    Execute,
    ExpireSessions,
    LockInfo,
    OpenSession,
    encode_command,
)
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.state import locks
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import Identity, Put
from stele.raft import Entry, EntryKind, Snapshot, StoredState
from stele.sim.metastore_checks import MetastoreChecker, MetastoreViolation, require, text_of


class Listened:
    """A member, as far as the checker looks at it."""

    def __init__(self, stored: StoredState = StoredState()) -> None:  # noqa: B008 - it is frozen
        self.machine = StateMachine(MemoryKeyValues())
        self.log = SimpleNamespace(stored=stored)


def put(value: bytes) -> bytes:
    return encode_command(Execute(Identity(1, 1), (Put("/a", value),)))


def checker() -> MetastoreChecker:
    return MetastoreChecker(MemoryClock(), Counter())


def listened(to: MetastoreChecker, node: int) -> StateMachine:
    member = Listened()
    to.listen(node, member)  # type: ignore[arg-type]
    return member.machine


def test_members_that_agree_are_left_alone() -> None:
    check = checker()
    for node in (1, 2):
        listened(check, node).apply([(1, b""), (2, put(b"x"))])
    assert check.applied_max == 2
    commits = [o for o in check.watches.history().operations() if o.kind == "commit"]
    assert [(o.argument, o.answer) for o in commits] == [(2, (("/a", "x"),))]


def test_two_entries_at_one_index_are_noticed() -> None:
    check = checker()
    listened(check, 1).apply([(1, put(b"x"))])
    with pytest.raises(MetastoreViolation, match="agreement: node 2"):
        listened(check, 2).apply([(1, put(b"y"))])


def test_two_effects_of_one_entry_are_noticed() -> None:
    check = checker()
    listened(check, 1).apply([(1, b""), (2, put(b"x"))])
    with mock.patch.object(StateMachine, "_execute", return_value=Done(99)):
        other = listened(check, 2)
    with pytest.raises(MetastoreViolation, match="determinism: node 2"):
        other.apply([(1, b""), (2, put(b"x"))])


def test_a_session_that_ends_before_its_owner_can_know_is_noticed() -> None:
    clock = MemoryClock()
    check = MetastoreChecker(clock, Counter())
    machine = listened(check, 1)
    machine.apply([(1, encode_command(OpenSession(Identity(1, 1), 1_000_000, "me", 0)))])
    check.promise(1, 500)
    check.promise(1, 100)
    expire = encode_command(ExpireSessions(NOBODY, (1,), 0))
    with pytest.raises(MetastoreViolation, match="sessions live: session 1"):
        machine.apply([(2, expire)])


def test_a_session_may_end_when_its_promise_is_over() -> None:
    clock = MemoryClock()
    check = MetastoreChecker(clock, Counter())
    machine = listened(check, 1)
    machine.apply([(1, encode_command(OpenSession(Identity(1, 1), 1_000_000, "me", 0)))])
    check.promise(1, 500)
    clock.advance(500)
    machine.apply([(2, encode_command(ExpireSessions(NOBODY, (1,), 0)))])
    (expired,) = check.locks.history().operations()
    assert (expired.kind, expired.argument, expired.answer) == ("expire", "1", 2)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_lock_that_passes_to_the_dead_is_noticed(is_wrong: bool) -> None:
    check = checker()
    machine = listened(check, 1)
    commands: list[Command] = [
        OpenSession(Identity(1, 1), 1_000_000, "me", 0),
        OpenSession(Identity(2, 1), 1_000_000, "you", 0),
        Acquire(Identity(1, 2), 1, "/lock", True),
        Acquire(Identity(2, 2), 2, "/lock", True),
        CloseSession(Identity(2, 3), 2),
        CloseSession(Identity(1, 3), 1),
    ]
    entries = [(index, encode_command(command)) for index, command in enumerate(commands, 1)]
    if not is_wrong:
        machine.apply(entries)
        return
    with (
        mock.patch.object(locks, "without", _without_holders),
        pytest.raises(MetastoreViolation, match="living holders: session 2 is granted /lock"),
    ):
        machine.apply(entries)


def _without_holders(info: LockInfo, sessions: Collection[int]) -> LockInfo:
    return LockInfo(tuple(r for r in info.holders if r.session not in sessions), info.waiters)


class Leading:
    """A leader, as far as the checker looks at it: it counts itself and one of two followers."""

    def __init__(self, term: int) -> None:
        self.id = 1
        self.core = SimpleNamespace(leading_term=term)
        self.applied = 0

    def status(self) -> SimpleNamespace:
        peers = (SimpleNamespace(node=2, match=self.applied), SimpleNamespace(node=3, match=0))
        return SimpleNamespace(node=1, commit=self.applied, persisted=self.applied, peers=peers)


def counted_for(index: int) -> MetastoreChecker:
    check, leader = checker(), Leading(term=2)
    for leader.applied in (1, index):
        check.note_progress(leader)  # type: ignore[arg-type]
    return check


def stored(base: int, *terms: int) -> StoredState:
    entries = tuple(Entry(term, base + 1 + i, EntryKind.DATA, b"") for i, term in enumerate(terms))
    return StoredState(snapshot=Snapshot(base, 1), entries=entries)


@pytest.mark.parametrize("found", [stored(0, 1), stored(0, 1, 1), stored(1), StoredState()])
@pytest.mark.parametrize("node", [1, 2])
def test_what_a_member_was_counted_for_must_be_there_after_a_restart(
    node: int, found: StoredState
) -> None:
    with pytest.raises(MetastoreViolation, match=f"durability: node {node} was counted for 2/2"):
        counted_for(2).listen(node, Listened(found))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (1, stored(0, 1, 2)),
        (1, stored(0, 1, 2, 2)),
        (2, stored(2)),
        (2, stored(1, 2)),
        (3, stored(0)),
    ],
)
def test_what_is_there_in_the_log_or_the_state_will_do(node: int, found: StoredState) -> None:
    counted_for(2).listen(node, Listened(found))  # type: ignore[arg-type]


def test_what_was_committed_in_earlier_terms_is_not_counted_for_this_one() -> None:
    check = counted_for(1)
    check.listen(2, Listened())  # type: ignore[arg-type]


def test_an_impossible_read_is_judged() -> None:
    check = checker()
    check.registers.note(1, "put", "/r", 1)
    check.judge()
    check.registers.note(2, "get", "/r", None, 2)
    with pytest.raises(MetastoreViolation, match="register"):
        check.judge()


def test_values_are_texts() -> None:
    assert text_of(b"x") == "x"
    assert text_of(None) is None
    require(True, "truth", "holds")
    with pytest.raises(MetastoreViolation, match="truth: does not"):
        require(False, "truth", "does not")
