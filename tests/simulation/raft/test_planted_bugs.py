"""Every planted bug must be noticed by all who are named for it. A survivor fails the build."""

from __future__ import annotations

from pathlib import Path

import pytest

from stele.sim.raft_sim import run_seed
from tests.scenarios.raft_environment import RaftEnvironment
from tests.scenarios.scenario_file import run_scenario
from tests.simulation.raft.planted_bugs import PLANTED_BUGS, PlantedBug

SCENARIOS = Path(__file__).parents[2] / "scenarios" / "raft"

IN_SCENARIOS = [(bug, name) for bug in PLANTED_BUGS for name in bug.scenarios]
IN_SIMULATION = [bug for bug in PLANTED_BUGS if bug.seeds_max]


@pytest.mark.parametrize(
    ("bug", "scenario"), IN_SCENARIOS, ids=[f"{bug.name} - {name}" for bug, name in IN_SCENARIOS]
)
def test_scenario_notices(bug: PlantedBug, scenario: str) -> None:
    path = SCENARIOS / f"{scenario}.txt"
    run_scenario(path, RaftEnvironment().execute)
    with bug.planted(), pytest.raises((AssertionError, KeyError, IndexError)):
        run_scenario(path, RaftEnvironment().execute)


@pytest.mark.parametrize("bug", IN_SIMULATION, ids=lambda bug: bug.name)
def test_simulation_notices(bug: PlantedBug) -> None:
    with bug.planted():
        found = any(run_seed(seed).failure is not None for seed in range(bug.seeds_max))
    assert found, f"{bug.name}: not noticed in {bug.seeds_max} seeds"


def test_every_bug_has_a_hunter() -> None:
    assert all(bug.seeds_max or bug.scenarios for bug in PLANTED_BUGS)
    assert len(PLANTED_BUGS) >= 15
