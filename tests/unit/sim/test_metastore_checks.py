"""What must hold at every apply, and that each violation is named."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest

from stele.env.memory import MemoryClock
from stele.metastore.commands import (
    NOBODY,
    Done,
    Execute,
    ExpireSessions,
    OpenSession,
    encode_command,
)
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import Identity, Put
from stele.sim.metastore_checks import MetastoreChecker, MetastoreViolation, require, text_of


class Listened:
    """A member, as far as the checker looks at it."""

    def __init__(self) -> None:
        self.machine = StateMachine(MemoryKeyValues())


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
