"""The queue: order, groups, and that nothing is taken or acknowledged when it must not be."""

from __future__ import annotations

import threading

import pytest

from stele.errors import OutOfSpace, StorageFailed, TabletNotServing, Unavailable
from stele.storage.log_queue import TRANSITIONS, LogQueue, QueueEvent, QueueState, Ticket
from tests.unit.storage.log_support import rows


def pushed(queue: LogQueue, *txns: int) -> list[Ticket]:
    tickets = [Ticket(rows(txn)) for txn in txns]
    for ticket in tickets:
        queue.push(ticket)
    return tickets


SIZE = rows(1).size


def test_a_group_is_everything_that_fits() -> None:
    queue = LogQueue(group_bytes_max=2 * SIZE)
    tickets = pushed(queue, 1, 2, 3)
    assert queue.take() == tickets[:2]
    assert queue.take() == tickets[2:]
    assert queue.take() == []


def test_a_commit_over_the_limit_is_a_group_of_its_own() -> None:
    queue = LogQueue(group_bytes_max=1)
    tickets = pushed(queue, 1, 2)
    assert queue.take() == tickets[:1]


def test_txns_only_rise() -> None:
    queue = LogQueue()
    pushed(queue, 5)
    with pytest.raises(AssertionError, match="order of their txns"):
        pushed(queue, 5)


def test_settled_tickets_are_done_and_their_bytes_gone() -> None:
    queue = LogQueue()
    (ticket,) = pushed(queue, 1)
    assert queue.queued_bytes == SIZE
    queue.settle(queue.take())
    assert ticket.done
    assert ticket.error is None
    assert queue.queued_bytes == 0


def test_a_full_disk_fails_all_that_is_queued_and_all_that_comes() -> None:
    queue = LogQueue(group_bytes_max=1)
    tickets = pushed(queue, 1, 2, 3)
    error = OutOfSpace("full")
    assert queue.refuse(queue.take(), error) == tickets
    assert [ticket.error for ticket in tickets] == [error] * 3
    assert all(ticket.done for ticket in tickets)
    assert (len(queue), queue.queued_bytes) == (0, 0)
    with pytest.raises(OutOfSpace, match="full"):
        pushed(queue, 4)
    queue.resume()
    assert pushed(queue, 5) == queue.take()


def test_txns_of_failed_commits_are_not_used_again() -> None:
    queue = LogQueue()
    pushed(queue, 7)
    queue.refuse(queue.take(), OutOfSpace("full"))
    queue.resume()
    with pytest.raises(AssertionError, match="order of their txns"):
        pushed(queue, 7)


def test_a_dead_log_stays_dead_and_says_why() -> None:
    queue = LogQueue()
    tickets = pushed(queue, 1)
    queue.die(queue.take(), TabletNotServing("sealed"))
    queue.die([], StorageFailed("later"))
    assert isinstance(tickets[0].error, TabletNotServing)
    queue.resume()
    with pytest.raises(TabletNotServing, match="sealed"):
        pushed(queue, 2)
    assert queue.close() is None
    assert queue.state is QueueState.DEAD


def test_death_after_a_full_disk_is_told_as_what_it_is() -> None:
    queue = LogQueue()
    pushed(queue, 1)
    queue.refuse(queue.take(), OutOfSpace("full"))
    queue.die([], StorageFailed("sync"))
    with pytest.raises(StorageFailed, match="sync"):
        pushed(queue, 2)


def test_closing_comes_after_what_is_queued_and_alone() -> None:
    queue = LogQueue()
    tickets = pushed(queue, 1, 2)
    end = queue.close()
    assert end is not None
    with pytest.raises(Unavailable, match="closed"):
        pushed(queue, 3)
    assert queue.take() == tickets
    assert queue.take() == [end]
    assert queue.close() is None


def test_a_full_disk_while_closing_leaves_it_closed() -> None:
    queue = LogQueue()
    end = queue.close()
    assert queue.refuse(queue.take(), OutOfSpace("full")) == [end]
    queue.resume()
    with pytest.raises(Unavailable, match="closed"):
        pushed(queue, 1)


def test_the_first_blocked_thread_is_found() -> None:
    queue = LogQueue()
    tickets = pushed(queue, 1, 2, 3)
    assert queue.first_waiting() is None
    tickets[1].gate = threading.Lock()
    tickets[2].gate = threading.Lock()
    assert queue.first_waiting() is tickets[1]


def test_nothing_leads_out_of_death() -> None:
    leaving = {state for (start, _), state in TRANSITIONS.items() if start is QueueState.DEAD}
    assert leaving == {QueueState.DEAD}


@pytest.mark.parametrize("state", QueueState)
def test_every_state_can_fail(state: QueueState) -> None:
    assert TRANSITIONS[state, QueueEvent.FAIL] is QueueState.DEAD
