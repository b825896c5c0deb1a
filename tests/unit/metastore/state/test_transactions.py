"""Compares, branches, quota, and two ways to validate that agree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.metastore.commands import (
    NOBODY,
    Answer,
    ClearAlarm,
    CommitTransaction,
    Done,
    Execute,
    Executed,
    RaiseAlarm,
    Refused,
    SetQuota,
    encode_command,
)
from stele.metastore.state import transactions
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    Get,
    KeyRange,
    KeyValue,
    Put,
    Relation,
)
from tests.unit.metastore.state.replica import Replica


def error_of(answer: Answer) -> str:
    assert isinstance(answer, Refused), answer
    return answer.error


@pytest.mark.parametrize(
    ("field", "operand"),
    [
        (CompareField.VALUE, b"v"),
        (CompareField.VERSION, 2),
        (CompareField.CREATED, 3),
        (CompareField.INDEX, 4),
        (CompareField.SESSION, 2),
        (CompareField.TOKEN, 5),
    ],
)
def test_what_can_be_compared(field: CompareField, operand: int | bytes) -> None:
    replica = Replica()
    replica.put("/other", b"")
    session = replica.open_session()
    replica.put("/a", b"", session)
    replica.put("/a", b"v", session)
    replica.acquire(session, "/a")
    below, above = (b"u", b"w") if isinstance(operand, bytes) else (operand - 1, operand + 1)
    for relation, right, holds in (
        (Relation.EQUAL, operand, True),
        (Relation.EQUAL, below, False),
        (Relation.NOT_EQUAL, below, True),
        (Relation.NOT_EQUAL, operand, False),
        (Relation.LESS, above, True),
        (Relation.LESS, operand, False),
        (Relation.GREATER, below, True),
        (Relation.GREATER, operand, False),
    ):
        done = replica.execute(compares=(Compare("/a", field, relation, right),))
        assert done.succeeded is holds, (relation, right)


@pytest.mark.parametrize("field", sorted(set(CompareField) - {CompareField.TOKEN}))
def test_what_is_missing_is_zero_or_empty(field: CompareField) -> None:
    operand = b"" if field == CompareField.VALUE else 0
    done = Replica().execute(compares=(Compare("/none", field, Relation.EQUAL, operand),))
    assert done.succeeded


def test_the_token_of_a_free_lock_is_below_all_others() -> None:
    free = Compare("/none", CompareField.TOKEN, Relation.LESS, 1)
    assert Replica().execute(compares=(free,)).succeeded


def test_a_branch_is_done_whole_and_the_other_not_at_all() -> None:
    replica = Replica()
    absent = Compare("/a", CompareField.VERSION, Relation.EQUAL, 0)
    first = replica.execute(Put("/a", b"1"), compares=(absent,), failure=(Get("/a"),))
    assert first.results == (1,)
    second = replica.execute(Put("/a", b"2"), compares=(absent,), failure=(Get("/a"),))
    assert not second.succeeded
    assert second.results == (KeyValue("/a", b"1", 1, 1, 1),)


def test_operations_see_those_before_them() -> None:
    replica = Replica()
    replica.put("/a", b"1")
    results = replica.execute(Delete("/a"), Get("/a"), Put("/b", b"2"), Get("/b")).results
    assert results[:3] == (1, None, 1)
    assert isinstance(results[3], KeyValue)


def test_a_range_is_deleted_and_counted() -> None:
    replica = Replica()
    for key in ("/a", "/a/1", "/a/2", "/b"):
        replica.put(key, b"")
    assert replica.execute(Delete("/a/", "/a0")).results == (2,)
    assert list(replica.contents()) == ["/a", "/b"]


def test_a_range_that_is_too_large_is_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "DELETED_KEYS_MAX", 3)
    replica = Replica()
    for number in range(4):
        replica.put(f"/a/{number}", b"")
    command = Execute(replica.identity(1), (Put("/x", b""), Delete("/a/", "/a0")))
    assert error_of(replica.answer(command)) == "LimitExceeded"
    assert len(replica.contents()) == 4


def test_a_compare_of_the_wrong_kind_does_not_stop_a_replica() -> None:
    replica = Replica()
    odd = Compare("/a", CompareField.VALUE, Relation.LESS, 5)
    payload = encode_command(Execute(replica.identity(1), (Put("/a", b""),), (odd,)))
    answer = replica.machine.apply([(1, payload)])[0].answer
    assert answer == Executed(1, False, ())


def test_an_alarm_stops_puts_and_nothing_else() -> None:
    replica = Replica()
    replica.put("/a", b"")
    replica.answer(RaiseAlarm(NOBODY, 3, "disk full"))
    replica.restart()
    assert replica.machine.alarms() == {3: "disk full"}
    refused = replica.answer(Execute(replica.identity(1), (Put("/b", b""),)))
    assert error_of(refused) == "OutOfSpace"
    assert "node 3" in str(refused)
    commit = CommitTransaction(replica.identity(1), 1, (), (Put("/b", b""),))
    assert error_of(replica.answer(commit)) == "OutOfSpace"
    session = replica.open_session()
    replica.acquire(session, "/l")
    replica.delete("/a")
    replica.answer(ClearAlarm(NOBODY, 3))
    replica.put("/b", b"")
    assert replica.contents() == {"/b": b""}


def test_all_alarms_are_cleared_together() -> None:
    replica = Replica()
    replica.answer(RaiseAlarm(NOBODY, 1, "x"))
    replica.answer(RaiseAlarm(NOBODY, 2, "y"))
    replica.answer(ClearAlarm(NOBODY, 0))
    assert replica.machine.alarms() == {}


def test_the_quota_counts_history_and_lets_go_with_it() -> None:
    replica = Replica()
    replica.answer(SetQuota(replica.identity(1), 3000))
    answer: Answer = Done(0)
    while not isinstance(answer, Refused):
        answer = replica.answer(Execute(replica.identity(1), (Put("/a", b"x" * 100),)))
    assert error_of(answer) == "OutOfSpace"
    assert "3000" in answer.message
    replica.advance(replica.machine.applied_index)
    replica.put("/a", b"again")
    assert replica.machine.usage().quota_bytes == 3000


def test_a_read_index_of_the_future_or_the_past_is_refused() -> None:
    replica = Replica()
    at = replica.put("/a", b"")
    assert error_of(replica.commit(at + 1, ())) == "InvalidArgument"
    replica.put("/a", b"")
    replica.advance(at + 1)
    assert error_of(replica.commit(at, ())) == "SnapshotTooOld"


KEYS = ["/a", "/a/x", "/b", "/b/y"]
RANGES = [KeyRange("/a"), KeyRange("/a/", "/a0"), KeyRange("/a", "/b"), KeyRange("/", "0")]


@settings(max_examples=80, deadline=None)
@given(
    before=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=6),
    after=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=6),
    ranges=st.lists(st.sampled_from(RANGES), max_size=3),
)
def test_both_ways_of_validation_agree(
    before: list[tuple[str, bool]], after: list[tuple[str, bool]], ranges: list[KeyRange]
) -> None:
    verdicts = []
    for walk_max in (0, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transactions, "CHANGELOG_WALK_MAX", walk_max)
            replica = Replica()
            changed: set[str] = set()
            for part in (before, after):
                changed = set()
                at = replica.machine.applied_index
                for key, is_put in part:
                    if is_put or replica.machine.get(key):
                        changed.add(key)
                    _ = replica.put(key, b"") if is_put else replica.delete(key)
            answer = replica.commit(at, tuple(ranges), Put("/w", b""))
            hit = any(
                start <= key < end
                for key in changed
                for start, end in [(r.start, r.end or r.start + "\0") for r in ranges]
            )
            assert isinstance(answer, Refused) is hit
            verdicts.append(type(answer))
    assert verdicts[0] is verdicts[1]
