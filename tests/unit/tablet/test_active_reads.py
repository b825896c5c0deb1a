"""Reads that are running hold the horizon back."""

from __future__ import annotations

from stele.tablet.active_reads import ActiveReads


def test_the_oldest_of_a_table_counts() -> None:
    reads = ActiveReads()
    assert reads.oldest("t") is None
    reads.begin("t", 5)
    reads.begin("t", 3)
    reads.begin("u", 1)
    assert (reads.oldest("t"), reads.oldest("u")) == (3, 1)
    reads.end("t", 3)
    assert reads.oldest("t") == 5
    reads.end("t", 5)
    assert reads.oldest("t") is None


def test_two_reads_at_one_txn_both_hold_it() -> None:
    reads = ActiveReads()
    reads.begin("t", 3)
    reads.begin("t", 3)
    reads.end("t", 3)
    assert reads.oldest("t") == 3
    reads.end("t", 3)
    assert reads.oldest("t") is None


def test_the_horizon_moves_up_to_what_is_being_read_and_never_back() -> None:
    reads = ActiveReads()
    assert reads.grant("t", 5) == 5
    assert reads.begin("t", 7)
    assert reads.grant("t", 9) == 7
    assert reads.grant("t", 6) == 7
    reads.end("t", 7)
    assert reads.grant("t", 9) == 9
    assert reads.granted("t") == 9
    assert reads.grant("u", 1) == 1


def test_a_read_below_the_horizon_is_not_let_in() -> None:
    reads = ActiveReads()
    reads.grant("t", 5)
    assert not reads.begin("t", 4)
    assert reads.oldest("t") is None
    assert reads.begin("t", 5)
