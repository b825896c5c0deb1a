"""Reads that are running hold the horizon back (T27: a scanner that nobody uses is let go)."""

from __future__ import annotations

import gc
import threading

from stele.env.memory import MemoryClock
from stele.tablet.active_reads import IDLE_US_MAX, ActiveReads


def new_reads() -> tuple[ActiveReads, MemoryClock]:
    clock = MemoryClock()
    return ActiveReads(clock), clock


def test_the_oldest_of_a_table_counts() -> None:
    reads, _ = new_reads()
    assert reads.oldest("t") is None
    newer, older, other = reads.begin("t", 5), reads.begin("t", 3), reads.begin("u", 1)
    assert newer is not None
    assert older is not None
    assert other is not None
    assert (reads.oldest("t"), reads.oldest("u")) == (3, 1)
    reads.end(older)
    assert reads.oldest("t") == 5
    reads.end(newer)
    assert reads.oldest("t") is None


def test_two_reads_at_one_txn_both_hold_it() -> None:
    reads, _ = new_reads()
    first, second = reads.begin("t", 3), reads.begin("t", 3)
    assert first is not None
    assert second is not None
    reads.end(first)
    reads.end(first)
    assert reads.oldest("t") == 3
    reads.end(second)
    assert reads.oldest("t") is None


def test_the_horizon_moves_up_to_what_is_being_read_and_never_back() -> None:
    reads, _ = new_reads()
    assert reads.grant("t", 5) == 5
    hold = reads.begin("t", 7)
    assert hold is not None
    assert reads.grant("t", 9) == 7
    assert reads.grant("t", 6) == 7
    reads.end(hold)
    assert reads.grant("t", 9) == 9
    assert reads.granted("t") == 9
    assert reads.grant("u", 1) == 1


def test_a_read_below_the_horizon_is_not_let_in() -> None:
    reads, _ = new_reads()
    reads.grant("t", 5)
    assert reads.begin("t", 4) is None
    assert reads.oldest("t") is None
    assert reads.begin("t", 5) is not None


def test_a_read_that_goes_on_is_held_for_as_long_as_it_takes() -> None:
    reads, clock = new_reads()
    hold = reads.begin("t", 3)
    assert hold is not None
    for _ in range(3):
        clock.advance(IDLE_US_MAX)
        assert reads.use(hold)
        assert reads.grant("t", 9) == 3


def test_t27_a_read_that_was_forgotten_loses_its_hold() -> None:
    reads, clock = new_reads()
    hold = reads.begin("t", 3)
    assert hold is not None
    clock.advance(IDLE_US_MAX + 1)
    assert reads.grant("t", 3) == 3, "the horizon is not above it yet"
    assert reads.use(hold), "so it may go on, and counts again"
    assert reads.grant("t", 9) == 3
    clock.advance(IDLE_US_MAX + 1)
    assert reads.grant("t", 9) == 9
    assert not reads.use(hold)
    reads.end(hold)
    assert reads.oldest("t") is None


class CollectingClock(MemoryClock):
    """Time stands still, and whoever asks for it finds that garbage is collected just then."""

    def monotonic_us(self) -> int:
        gc.collect()
        return super().monotonic_us()


def test_a_forgotten_read_may_end_in_the_middle_of_another() -> None:
    reads = ActiveReads(CollectingClock())

    class Forgotten:
        def __init__(self, txn: int) -> None:
            self.itself = self
            self.hold = reads.begin("t", txn)

        def __del__(self) -> None:
            assert self.hold is not None
            reads.end(self.hold)

    def forget_and_begin() -> None:
        for txn in range(1, 5):
            Forgotten(txn)
        Forgotten(5)
        granted.append(reads.grant("t", 100))

    granted: list[int] = []
    thread = threading.Thread(target=forget_and_begin, daemon=True)
    thread.start()
    thread.join(60)
    assert granted == [100], "it waits for itself"
    assert reads.oldest("t") is None
