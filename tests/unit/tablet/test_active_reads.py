"""Reads that are running hold the horizon back."""

from __future__ import annotations

from contextlib import suppress

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


def test_a_read_that_fails_lets_go() -> None:
    reads = ActiveReads()
    with suppress(ZeroDivisionError), reads.reading("t", 7):
        assert reads.oldest("t") == 7
        raise ZeroDivisionError
    assert reads.oldest("t") is None
