"""The queue and the network that all simulated worlds share."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stele.sim.world import Weather, World


@dataclass(slots=True)
class Thing:
    """A machine that does nothing."""

    id: int
    life: int = 1
    tick_ms: int = 10
    resumes_at_ms: int = 0
    is_up: bool = True
    leads: bool = False


class Plain(World[Thing]):
    def __init__(self, seed: int = 1, *, keep_trace: bool = False) -> None:
        super().__init__(seed, keep_trace=keep_trace)
        self.turns: list[int] = []
        self.hosts[1] = Thing(1)

    def start(self, host: Thing) -> None:
        host.is_up = True
        host.life += 1

    def _after_event(self, host: Thing) -> None:
        self.turns.append(host.id)

    def _describe(self, host: Thing) -> str:
        return f"life {host.life}"


def run(world: Plain, events: int) -> None:
    for _ in range(events):
        world.step()


def test_events_happen_in_the_order_of_time_then_of_asking() -> None:
    world = Plain()
    seen: list[str] = []
    for delay_ms, name in ((5, "c"), (2, "a"), (2, "b")):
        world.after(delay_ms, name, None, seen.append, name)
    run(world, 3)
    assert seen == ["a", "b", "c"]
    assert world.now_ms == 5
    assert world.events == 3
    assert world.turns == []


def test_events_of_an_earlier_life_are_void_and_messages_are_not() -> None:
    world = Plain(keep_trace=True)
    host = world.hosts[1]
    seen: list[str] = []
    world.after(1, "timer", host, seen.append, "timer")
    world.deliver(2, "message", host, seen.append, "message")
    world.start(host)
    run(world, 2)
    assert seen == ["message"]
    assert world.turns == [1]
    assert world.trace == ["2 message 1 life 2"]


def test_a_machine_that_is_down_hears_nothing() -> None:
    world = Plain()
    world.hosts[1].is_up = False
    world.deliver(1, "message", world.hosts[1], pytest.fail, "heard")
    run(world, 1)
    assert world.events == 0


def test_a_paused_machine_finds_its_mail_later() -> None:
    world = Plain()
    world.hosts[1].resumes_at_ms = 50
    seen: list[int] = []
    world.deliver(5, "mail", world.hosts[1], lambda _: seen.append(world.now_ms), None)
    run(world, 2)
    assert seen == [50]


def test_a_seed_fixes_the_dice_and_the_hash_tells_histories_apart() -> None:
    def history(seed: int) -> tuple[list[int], int]:
        world = Plain(seed)
        draws = [world.draw(100) for _ in range(5)]
        world.after(draws[0], "x", None, lambda _: None, None)
        run(world, 1)
        return draws, world.trace_hash

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_messages_are_lost_doubled_and_late_as_the_weather_is() -> None:
    world = Plain()
    world.blocked.add((1, 2))
    assert world.delays_of_copies((1, 2)) == []
    world.weather = Weather(loss=1.0)
    assert world.delays_of_copies((2, 1)) == []
    world.weather = Weather(duplication=1.0, delay_ms_max=4)
    copies = world.delays_of_copies((2, 1))
    assert len(copies) == 2
    assert all(1 <= delay_ms <= 4 for delay_ms in copies)
    assert world.counters == {"messages lost": 2, "messages doubled": 1}
