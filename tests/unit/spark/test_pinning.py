"""Pins are renewed while the driver lives and released at its end."""

from __future__ import annotations

from stele.env.memory import MemoryClock, MemoryTasks
from stele.errors import NotFound, Unavailable
from stele.spark.pinning import RENEWALS_PER_TTL, HeldPin, PinKeeper

TTL_US = 3_000_000


class Owner:
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.renewed = 0
        self.released = 0
        self.failure: Exception | None = None

    def renew(self) -> None:
        self.renewed += 1
        if self.failure is not None:
            raise self.failure

    def release(self) -> None:
        self.released += 1
        if self.failure is not None:
            raise self.failure


def keeper() -> tuple[PinKeeper, Owner, MemoryTasks]:
    tasks = MemoryTasks(MemoryClock())
    kept, owner = PinKeeper(tasks), Owner()
    kept.hold(HeldPin("pin/t/1", TTL_US, owner.renew, owner.release))
    return kept, owner, tasks


def test_a_pin_is_renewed_well_before_it_ends() -> None:
    kept, owner, tasks = keeper()
    tasks.advance(TTL_US + 1)
    assert owner.renewed == RENEWALS_PER_TTL
    assert kept.leases() == ("pin/t/1",)


def test_a_pin_that_has_ended_is_asked_for_once() -> None:
    kept, owner, tasks = keeper()
    owner.failure = NotFound("ended")
    tasks.advance(2 * TTL_US)
    assert owner.renewed == 1
    assert kept.leases() == ()


def test_an_owner_that_cannot_answer_now_is_asked_again() -> None:
    kept, owner, tasks = keeper()
    owner.failure = Unavailable("restarting")
    tasks.advance(TTL_US // 2)
    owner.failure = None
    tasks.advance(TTL_US)
    assert owner.renewed >= RENEWALS_PER_TTL
    assert kept.leases() == ("pin/t/1",)


def test_at_the_end_every_pin_is_released() -> None:
    kept, owner, tasks = keeper()
    kept.release_all()
    kept.release_all()
    tasks.advance(2 * TTL_US)
    assert (owner.renewed, owner.released) == (0, 1)
    kept, owner, _ = keeper()
    owner.failure = Unavailable("gone")
    kept.release_all()
    assert kept.leases() == ()


def test_a_forgotten_pin_runs_out_by_itself() -> None:
    kept, owner, tasks = keeper()
    kept.forget("pin/t/1")
    kept.forget("pin/t/1")
    tasks.advance(2 * TTL_US)
    assert (owner.renewed, owner.released) == (0, 0)


def test_a_pin_that_nobody_needs_is_released_once() -> None:
    kept, owner, tasks = keeper()
    kept.release("pin/t/1")
    kept.release("pin/t/1")
    kept.release("never held")
    tasks.advance(2 * TTL_US)
    assert (owner.renewed, owner.released) == (0, 1)
    kept, owner, _ = keeper()
    owner.failure = Unavailable("gone")
    kept.release("pin/t/1")
    assert kept.leases() == ()
