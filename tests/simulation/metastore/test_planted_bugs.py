"""Every planted bug must be noticed, by the promise that it breaks. A survivor fails the build.

A bug may break other things first, in other seeds: those are passed over.
"""

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
        failures = [run_seed(0).failure]
        while not bug.is_noticed_by(failures[-1]) and len(failures) < SEEDS_MAX:
            failures.append(run_seed(len(failures)).failure)
    seen = {failure.partition("\n")[0] for failure in failures if failure is not None}
    assert bug.is_noticed_by(failures[-1]), f"{bug.name}: {bug.promise} is not among {seen}"


@pytest.mark.parametrize(
    "failure",
    [None, "MetastoreViolation: equal states: nodes differ", "Corruption: register: log lost?"],
)
def test_any_other_failure_does_not_count(failure: str | None) -> None:
    bug = PlantedBug("a mistake", (), "register")
    assert bug.is_noticed_by("MetastoreViolation: register: invalid: 1 of 3 keys")
    assert not bug.is_noticed_by(failure)


@pytest.mark.parametrize("bug", BY_UNIT_TEST, ids=lambda bug: bug.name)
def test_unit_test_notices(bug: PlantedBug) -> None:
    assert bug.unit_test is not None
    bug.unit_test()
    with bug.planted(), pytest.raises(AssertionError):
        bug.unit_test()


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED_BUGS) >= 15
    assert len({bug.name for bug in PLANTED_BUGS}) == len(PLANTED_BUGS)
