"""Every planted bug must be noticed, by the promise that it breaks. A survivor fails the build."""

from __future__ import annotations

import pytest

from stele.sim.metastore_sim import run_seed
from tests.simulation.metastore.planted_bugs import PLANTED_BUGS, PlantedBug

SEEDS_MAX = 120

IN_SIMULATION = [bug for bug in PLANTED_BUGS if bug.unit_test is None]
BY_UNIT_TEST = [bug for bug in PLANTED_BUGS if bug.unit_test is not None]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", IN_SIMULATION, ids=lambda bug: bug.name)
def test_simulation_notices(bug: PlantedBug) -> None:
    with bug.planted():
        failures = (run_seed(seed).failure for seed in range(SEEDS_MAX))
        found = next((failure for failure in failures if failure is not None), None)
    assert found is not None, f"{bug.name}: not noticed in {SEEDS_MAX} seeds"
    assert bug.promise in found


@pytest.mark.parametrize("bug", BY_UNIT_TEST, ids=lambda bug: bug.name)
def test_unit_test_notices(bug: PlantedBug) -> None:
    assert bug.unit_test is not None
    bug.unit_test()
    with bug.planted(), pytest.raises(AssertionError):
        bug.unit_test()


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED_BUGS) >= 15
    assert len({bug.name for bug in PLANTED_BUGS}) == len(PLANTED_BUGS)
