"""Many seeds: stopping, judging whether they tested anything, telling people."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from stele.errors import Conflict
from stele.sim.seeds import Report, Simulation, observe


def world() -> SimpleNamespace:
    return SimpleNamespace(events=7, trace_hash=99, trace=None, counters=Counter(hits=3))


def one_seed(seed: int, chaos: int, keep_trace: bool) -> Report:
    def live() -> None:
        assert seed != 4, "four is unlucky"

    report = observe(seed, 3, world(), live)
    report.counters["chaos"] = chaos
    report.trace = [f"event of {seed}"] if keep_trace else []
    return report


SIMULATION = Simulation("the.module", "about", one_seed, 5, {"hits": 2.0, "chaos": 4.0}, 3)


def test_a_report_holds_what_the_world_counted() -> None:
    report = observe(1, 3, world(), lambda: None)
    assert (report.events, report.trace_hash, report.trace) == (7, 99, [])
    assert report.counters == {"hits": 3}
    assert report.failure is None


@pytest.mark.parametrize("error", [Conflict("x"), AssertionError("x"), KeyError("x"), IndexError()])
def test_what_the_product_did_wrong_is_reported(error: Exception) -> None:
    def live() -> None:
        raise error

    failure = observe(1, 3, world(), live).failure
    assert failure is not None
    assert failure.startswith(type(error).__name__)


def test_a_mistake_of_the_harness_is_not() -> None:
    def live() -> None:
        raise TypeError("our own")

    with pytest.raises(TypeError):
        observe(1, 3, world(), live)


def test_the_first_failure_ends_the_run_and_names_its_replay() -> None:
    reports = SIMULATION.run_seeds(range(3, 9))
    assert [report.seed for report in reports] == [3, 4]
    told = SIMULATION.summarize(reports)
    assert "FAILED seed 4 (3 nodes): AssertionError: four is unlucky" in told
    assert "replay: python -m the.module --first 4 --seeds 1 --trace" in told
    assert "hits: 6" in told


def test_runs_that_did_too_little_are_noticed() -> None:
    busy = SIMULATION.run_seeds(range(3))
    assert SIMULATION.find_vacuous(busy) == []
    lazy = SIMULATION.run_seeds(range(3), chaos=3)
    assert SIMULATION.find_vacuous(lazy) == ["chaos: 9 in 3 seeds, expected 12"]
    assert "TOO LITTLE chaos" in SIMULATION.summarize(lazy)
    assert SIMULATION.find_vacuous(lazy[:2]) == []


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert SIMULATION.main(["--seeds", "2", "--trace"]) == 0
    told = capsys.readouterr().out
    assert "event of 1" in told
    assert "2 seeds, 14 events" in told
    assert SIMULATION.main(["--first", "4"]) == 1
    assert SIMULATION.main(["--seeds", "3", "--chaos", "1"]) == 1
