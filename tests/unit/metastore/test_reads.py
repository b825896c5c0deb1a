"""Reads and renewals on their way through a round."""

from __future__ import annotations

from stele.metastore.events import KeepAlive
from stele.metastore.reads import WaitingReads


def asked(*requests: int) -> WaitingReads:
    reads = WaitingReads()
    reads.asked.reads.extend(requests)
    return reads


def test_all_that_was_asked_shares_a_context() -> None:
    reads = asked(1, 2)
    reads.asked.renewals.append(KeepAlive(3, 30))
    context = reads.begin()
    assert not reads.wants_round
    reads.confirm(context, 10)
    assert reads.take_served(9) == []
    ((served, renewals),) = reads.take_served(10)
    assert (served.requests, served.index) == ((1, 2), 10)
    assert renewals == [KeepAlive(3, 30)]
    assert reads.take_served(11) == []


def test_a_read_is_served_in_the_order_of_what_it_may_see() -> None:
    reads = asked(1)
    first = reads.begin()
    reads.asked.reads.append(2)
    second = reads.begin()
    reads.confirm(first, 20)
    reads.confirm(second, 10)
    assert [served.requests for served, _ in reads.take_served(20)] == [(2,), (1,)]


def test_a_lost_leader_sends_reads_back_and_gives_renewals_up() -> None:
    reads = asked(1)
    reads.asked.renewals.append(KeepAlive(2, 20))
    context = reads.begin()
    assert reads.abort(context) == [KeepAlive(2, 20)]
    assert reads.asked.reads == [1]
    assert reads.abort(context) == []
    reads.confirm(context, 1)
    assert reads.take_served(100) == []


def test_a_round_without_an_answer_begins_again() -> None:
    reads = asked(1)
    context = reads.begin()
    assert reads.tick(2) == []
    assert reads.tick(2) == []
    assert reads.asked.reads == []
    reads.tick(2)
    assert reads.asked.reads == [1]
    reads.confirm(context, 5)
    assert reads.take_served(5) == []


def test_without_a_leader_all_that_has_no_round_is_given_up() -> None:
    reads = asked(1, 2)
    assert reads.give_up_asked().reads == [1, 2]
    assert not reads.wants_round


def test_everything_can_be_given_up_at_once() -> None:
    reads = asked(1)
    reads.begin()
    reads.asked.reads.append(2)
    confirmed = reads.begin()
    reads.confirm(confirmed, 9)
    reads.asked.reads.append(3)
    reads.asked.renewals.append(KeepAlive(4, 40))
    assert sorted(reads.drain()) == [1, 2, 3, 4]
    assert reads.drain() == []
