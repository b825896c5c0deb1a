"""The line in front of memory: in turn, never stuck, and nobody in it for longer than it counts."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.env.memory import MemoryClock
from stele.errors import SteleError, StorageFailed, Throttled, Unavailable
from stele.storage.admission_line import AdmissionLine, AdmissionTicket
from stele.storage.memory_budget import MemoryBudget

MINUTE_US = 60_000_000


class Memory:
    """An owner whose memory goes when the test says so."""

    def __init__(self, limit_bytes: int = 10) -> None:
        self.clock = MemoryClock()
        self.lock = threading.Lock()
        self.budget = MemoryBudget(limit_bytes)
        self.asked_for_room = 0
        self.line = AdmissionLine(self.lock, self.clock, self.budget, self._asked)

    def _asked(self) -> None:
        assert not self.lock.locked()
        self.asked_for_room += 1

    def write(self, size: int, ticket: AdmissionTicket | None = None) -> bool:
        """As an engine does; False when it is refused."""
        try:
            with self.lock:
                if self.budget.held_bytes + size > self.budget.open_bytes:
                    self.line.admit(size, ticket)
                self.budget.held_bytes += size
        except Throttled:
            self.line.refused()
            return False
        return True

    def waiter(self, size: int, timeout_us: int = MINUTE_US) -> AdmissionTicket:
        ticket = self.line.ticket(timeout_us)
        assert not self.write(size, ticket)
        return ticket

    def flush(self, size: int) -> None:
        with self.lock:
            self.budget.held_bytes -= size
        self.line.look()


def decided(ticket: AdmissionTicket) -> bool:
    return ticket.wait(0)


def test_without_waiters_what_fits_passes() -> None:
    memory = Memory()
    assert memory.write(6)
    assert memory.write(4)
    assert memory.asked_for_room == 0
    assert not memory.write(1)
    assert memory.asked_for_room == 1
    assert memory.budget.waiting == 0, "it had no ticket"


def test_a_large_request_is_not_overtaken_by_small_ones() -> None:
    memory = Memory()
    memory.write(2)
    large = memory.waiter(1_000)
    assert not memory.write(1), "somebody waits"
    small = memory.waiter(1)
    memory.flush(1)
    assert not decided(large)
    memory.flush(1)
    assert (decided(large), decided(small)) == (True, False)
    assert not memory.write(1), "the room is somebody's"
    assert memory.write(1_000, large)
    large.leave()
    assert not decided(small)
    memory.flush(1_000)
    assert decided(small)
    assert memory.write(1, small)
    small.leave()
    assert memory.write(9)


def test_who_gives_up_lets_those_behind_in() -> None:
    memory = Memory()
    memory.write(5)
    large, small = memory.waiter(6), memory.waiter(5)
    large.leave()
    large.leave()
    assert decided(small)
    assert not decided(large)


def test_who_gives_up_its_turn_lets_others_in() -> None:
    memory = Memory()
    memory.write(5)
    first, second = memory.waiter(10), memory.waiter(10)
    memory.flush(5)
    assert (decided(first), decided(second)) == (True, False)
    first.leave()
    assert decided(second)


def test_a_ticket_that_never_stood_in_the_line_leaves_nothing_behind() -> None:
    memory = Memory()
    ticket = memory.line.ticket(MINUTE_US)
    assert memory.write(6, ticket)
    assert not ticket.stands
    ticket.leave()
    memory.write(4)
    assert not memory.write(1, ticket)
    assert memory.budget.waiting == 0, "it has left"


def test_room_is_asked_for_as_long_as_somebody_waits_and_nobody_is_about_to_write() -> None:
    memory = Memory()
    memory.write(8)
    first, second = memory.waiter(4), memory.waiter(8)
    asked = memory.asked_for_room
    memory.flush(1)
    assert memory.asked_for_room == asked + 1, "it was not enough"
    memory.flush(7)
    assert memory.asked_for_room == asked + 1, "what is written now has to be flushed first"
    assert memory.write(4, first)
    first.leave()
    assert memory.line.is_stuck
    assert memory.asked_for_room == asked + 2
    second.leave()
    assert memory.asked_for_room == asked + 2


def test_a_listener_is_called_once_and_at_once_if_it_is_late() -> None:
    memory = Memory()
    memory.write(8)
    ticket = memory.waiter(4)
    called: list[str] = []
    ticket.then(lambda: called.append("waited"))
    assert called == []
    memory.flush(8)
    ticket.then(lambda: called.append("late"))
    assert called == ["waited", "late"]
    memory.line.look()
    assert called == ["waited", "late"]


def test_who_is_forgotten_is_passed_over_when_its_time_is_over() -> None:
    memory = Memory()
    memory.write(8)
    forgotten, other = memory.waiter(4, timeout_us=1_000), memory.waiter(5)
    memory.clock.advance(1_001)
    memory.line.look()
    assert not decided(other)
    memory.flush(3)
    assert decided(other)
    assert not decided(forgotten)
    assert not memory.write(4, forgotten)
    assert not forgotten.stands
    forgotten.leave()


def test_a_turn_that_nobody_takes_is_over_with_its_time() -> None:
    memory = Memory()
    memory.write(8)
    forgotten, other = memory.waiter(10, timeout_us=1_000), memory.waiter(5)
    memory.flush(8)
    assert (decided(forgotten), decided(other)) == (True, False)
    memory.clock.advance(1_001)
    memory.line.look()
    assert decided(other)


@pytest.mark.parametrize("error", [Unavailable("closed"), StorageFailed("the disk is gone")])
def test_the_end_is_heard_by_all_who_wait_and_all_who_come(error: SteleError) -> None:
    memory = Memory()
    memory.write(8)
    waiting = memory.waiter(4)
    memory.line.close(error)
    memory.line.close(Unavailable("something else"))
    assert decided(waiting)
    for ticket in (waiting, None):
        with pytest.raises(type(error), match=str(error)):
            memory.write(1, ticket)
    asked = memory.asked_for_room
    waiting.leave()
    memory.line.look()
    assert memory.asked_for_room == asked


Step = tuple[str, int]
STEPS = st.tuples(st.sampled_from(["write", "wait", "flush", "go", "leave"]), st.integers(0, 14))


@given(st.lists(STEPS, max_size=80))
def test_in_any_course_turns_come_in_order_and_memory_keeps_to_its_limit(steps: list[Step]) -> None:
    memory = Memory()
    line: list[tuple[AdmissionTicket, int]] = []
    come: list[AdmissionTicket] = []
    for what, number in steps:
        if what == "write":
            assert memory.write(number) is False or not any(not decided(t) for t, _ in line)
        elif what == "wait":
            ticket = memory.line.ticket(MINUTE_US)
            if not memory.write(number, ticket):
                line.append((ticket, number))
        elif what == "flush":
            memory.flush(min(number, memory.budget.held_bytes))
        elif line:
            ticket, size = line[number % len(line)]
            if decided(ticket) and what == "go":
                assert memory.write(size, ticket)
            if decided(ticket) or what == "leave":
                ticket.leave()
                line = [entry for entry in line if entry[0] is not ticket]
        come += [ticket for ticket, _ in line if decided(ticket) and ticket not in come]
        stands = [decided(ticket) for ticket, _ in line]
        assert stands == sorted(stands, reverse=True), "nobody is overtaken"
        taken = [size for ticket, size in line if decided(ticket)]
        held = memory.budget.held_bytes
        assert held + sum(taken) <= 10 or min(held, sum(taken)) == 0
        assert memory.budget.waiting == stands.count(False)
        if not held and not any(stands):
            assert not line, "somebody always goes on"
