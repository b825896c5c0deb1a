"""The order of durability, as the shape of Readys shows it."""

from __future__ import annotations

from stele.raft import HardState
from stele.raft import messages as msg
from stele.raft.entries import Entry, EntryKind
from tests.unit.raft.group import make_group, make_node, work


def entry(index: int, term: int) -> Entry:
    return Entry(term, index, EntryKind.DATA, b"")


def test_a_promise_needs_a_sync_and_its_answer_waits() -> None:
    node = make_node()
    work(node)
    node.step(msg.VoteRequest(2, 1, 2, 1, 1, transfer=False))
    ready = node.ready()
    assert ready is not None
    assert ready.needs_sync
    assert ready.hard_state == HardState(2, 2, 1)
    assert ready.messages == ()
    assert ready.messages_after_sync == (msg.VoteResponse(1, 2, 2, granted=True),)


def test_a_commit_index_alone_needs_none() -> None:
    node = make_node()
    node.step(msg.AppendRequest(2, 1, 1, 1, 1, (entry(2, 1),), 1))
    work(node)
    node.step(msg.Heartbeat(2, 1, 1, 2, 0))
    ready = node.ready()
    assert ready is not None
    assert not ready.needs_sync
    assert ready.hard_state == HardState(1, 0, 2)
    assert [applied.index for applied in ready.committed] == [2]


def test_an_answer_with_nothing_to_wait_for_leaves_at_once() -> None:
    node = make_node()
    node.step(msg.AppendRequest(2, 1, 1, 1, 1, (entry(2, 1),), 1))
    work(node)
    node.step(msg.AppendRequest(2, 1, 1, 1, 1, (entry(2, 1),), 1))
    ready = node.ready()
    assert ready is not None
    assert ready.messages == (msg.AppendAccepted(1, 2, 1, 2),)


def test_an_answer_waits_for_writes_of_earlier_readys() -> None:
    node = make_node()
    node.step(msg.AppendRequest(2, 1, 1, 1, 1, (entry(2, 1),), 1))
    first = node.ready()
    node.step(msg.AppendRequest(2, 1, 1, 1, 1, (entry(2, 1),), 1))
    second = node.ready()
    assert first is not None
    assert second is not None
    assert not second.needs_sync
    assert second.messages == ()
    assert second.messages_after_sync == (msg.AppendAccepted(1, 2, 1, 2),)


def test_each_instruction_is_given_once() -> None:
    leader, *_ = make_group()
    leader.propose([b"a"])
    ready = leader.ready()
    assert ready is not None
    assert [written.index for written in ready.entries] == [3]
    assert leader.ready() is None


def test_numbers_grow_by_one() -> None:
    leader, *_ = make_group()
    numbers = []
    for _ in range(3):
        leader.propose([b"a"])
        ready = leader.ready()
        assert ready is not None
        numbers.append(ready.number)
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
