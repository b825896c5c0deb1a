"""How long a change waits for others."""

from __future__ import annotations

import threading

import pytest

from stele.cluster.turns import CatalogLock, Turn
from stele.env.memory import MemoryClock
from stele.errors import DeadlineExceeded


def test_a_turn_bounds_all_waits_of_a_call_together() -> None:
    clock = MemoryClock()
    turn = Turn(clock, 3_000_000)
    assert turn.left_s == 3.0
    clock.advance(2_000_000)
    assert turn.left_s == 1.0
    clock.advance(5_000_000)
    assert turn.left_s == 0.0


def test_who_is_late_hears_what_became_of_the_call() -> None:
    turn = Turn(MemoryClock(), 2_000_000, "it goes on")
    assert turn.left_us == 2_000_000
    assert str(turn.late("a flush has been under way")).endswith("under way for 2 s: it goes on")


def test_what_is_free_is_taken_even_when_the_time_is_over() -> None:
    turn = Turn(MemoryClock(), 0)
    lock = threading.Lock()
    turn.acquire(lock, "somebody")
    assert lock.locked()
    with pytest.raises(DeadlineExceeded, match="somebody for 0 s: nothing was changed"):
        turn.acquire(lock, "somebody")
    condition = threading.Condition()
    with condition:
        turn.wait_for(condition, lambda: True, "a flush")
        with pytest.raises(DeadlineExceeded, match="a flush for 0 s"):
            turn.wait_for(condition, lambda: False, "a flush")


def test_a_change_within_a_change_is_one_s_own_turn_and_leaves_the_catalog_not_free() -> None:
    catalog = CatalogLock(MemoryClock())
    with catalog.held_if_free() as is_free:
        assert is_free
    with catalog.held():
        with catalog.held(), catalog.held_if_free() as is_free:
            assert not is_free
        with catalog.held_if_free() as is_free:
            assert not is_free
    with catalog.held_if_free() as is_free:
        assert is_free


def test_a_catalog_that_another_changes_is_not_free_and_not_waited_for_for_ever() -> None:
    catalog = CatalogLock(MemoryClock())
    held, over = threading.Event(), threading.Event()

    def change() -> None:
        with catalog.held():
            held.set()
            over.wait(60)

    other = threading.Thread(target=change)
    other.start()
    assert held.wait(60)
    with catalog.held_if_free() as is_free:
        assert not is_free
    with (
        pytest.raises(DeadlineExceeded, match="another change of the catalog"),
        catalog.held(Turn(MemoryClock(), 1_000)),
    ):
        raise AssertionError("it is not our turn")
    over.set()
    other.join()
    with catalog.held_if_free() as is_free:
        assert is_free
