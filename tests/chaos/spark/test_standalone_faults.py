"""A standalone Spark with two workers: executors are killed, tasks run twice, drivers end.

The owner of the tables is this process; drivers are attached to it. Part of `make chaos-spark`.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stele.env.failpoints import EXIT_STATUS
from tests.chaos.spark.matrix import WORLDS
from tests.chaos.spark.worker_faults import WorkerFault
from tests.chaos.spark.worlds import Done, World
from tests.spark.standalone import run_driver, standalone

SEED = int(os.environ.get("STELE_CHAOS_SEED", "7"))
JOBS_PER_KIND = int(os.environ.get("STELE_CHAOS_SPARK_KILLS", str(len(WORLDS))))
FIRED_MIN = 0.75
DRIVER = "tests.chaos.spark.standalone_driver"

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7_200)]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("spark")) as address:
        yield address


class Disturbed:
    """A world and what is to happen to its job."""

    def __init__(self, name: str, path: Path, seed: int, counters: Counter[str]):
        self.name = name
        self.world: World = WORLDS[name](None, path, seed, counters)

    def job(self, kind: str, point: str = "") -> dict[str, Any]:
        """What a driver is told."""
        return {
            "world": self.name,
            "address": self.world.address,
            "seed": self.world.seed,
            "kind": kind,
            "point": point,
            "marker": self.world.marker(kind),
        }


def drive(master: str, jobs: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]], str]:
    """Let a driver run jobs: its exit status, what it said of each, and its errors."""
    ended = run_driver(DRIVER, master, json.dumps(jobs))
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return ended.returncode, lines, ended.stderr[-3_000:]


@pytest.mark.parametrize("kind", ["kill executor", "sleep", "exit"])
def test_lost_executors_and_second_attempts_change_nothing(
    master: str, tmp_path: Path, kind: str
) -> None:
    dice, counters = random.Random(SEED), Counter[str]()
    names = dice.sample(sorted(WORLDS), len(WORLDS))
    some = [
        Disturbed(names[n % len(names)], tmp_path / str(n), SEED * 100 + n, counters)
        for n in range(JOBS_PER_KIND)
    ]
    # An attempt that hangs has written its files, and those of another lie beside them.
    first = -1 if kind == "sleep" else 0
    jobs = [each.job(kind, dice.choice(each.world.worker_points[first:])) for each in some]
    status, found, said = drive(master, [*jobs, *(each.job("none") for each in some)])
    assert status == 0, (found, said)
    ends = zip(some, found[: len(some)], found[len(some) :], jobs, strict=True)
    for each, before, after, job in ends:
        print(f"{kind}: {each.name}, seed {each.world.seed}: {before}", flush=True)
        check_ends(each.world, before, after)
        fault = WorkerFault(kind, job["point"], job["marker"])
        counters[f"fired {kind}"] += fault.happened
        counters["repeated parts"] += fault.repeated
        each.world.close()
    print(json.dumps({"seed": SEED, "jobs": len(some), **counters}), flush=True)
    assert counters[f"fired {kind}"] >= FIRED_MIN * len(some), "too few faults took place"
    if kind == "sleep":
        assert counters["repeated parts"], "nothing was tried twice"


def check_ends(world: World, before: dict[str, Any], after: dict[str, Any]) -> None:
    """A job that was run twice has happened once."""
    assert "txn" in after, after
    world.check_done(Done(**after))
    if "txn" in before:
        world.check_again(Done(**before), Done(**after))
    else:
        assert not after["done_before"], before


def test_drivers_that_end_leave_all_or_nothing(master: str, tmp_path: Path) -> None:
    counters = Counter[str]()
    steps = [
        (name, point)
        for name, world in WORLDS.items()
        for point in world.driver_points
        if point.startswith("spark.")
    ]
    ended: list[tuple[Disturbed, bool]] = []
    steps = random.Random(SEED).sample(steps, min(len(steps), 2 * JOBS_PER_KIND))
    for number, (name, point) in enumerate(steps):
        each = Disturbed(name, tmp_path / str(number), SEED * 100 + number, counters)
        status, found, said = drive(master, [each.job("driver", point)])
        assert (status, found) == (EXIT_STATUS, []), (name, point, said)
        happened = each.world.is_decided_at(point)
        each.world.check(happened=happened)
        ended.append((each, happened))
        print(f"{name}: a driver ended at {point}, seed {each.world.seed}", flush=True)
        counters[f"fired {point}"] += 1
    status, found, said = drive(master, [each.job("none") for each, _ in ended for _ in range(2)])
    assert status == 0, (found, said)
    for (each, happened), first, again in zip(ended, found[::2], found[1::2], strict=True):
        assert first["done_before"] == happened, (each.name, first)
        each.world.check_again(Done(**first), Done(**again))
        each.world.check_done(Done(**again))
        each.world.close()
    print(json.dumps({"seed": SEED, "jobs": len(ended), **counters}), flush=True)
