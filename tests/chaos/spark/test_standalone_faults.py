"""A standalone Spark with two workers: executors are killed, tasks run twice, drivers end.

The owner of the tables is this process; drivers are attached to it. Part of `make chaos-spark`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stele.env.failpoints import EXIT_STATUS
from tests.chaos.spark.load_world import LoadWorld
from tests.chaos.spark.worker_faults import POINTS
from tests.spark.standalone import standalone

SEED = int(os.environ.get("STELE_CHAOS_SEED", "7"))
JOBS_PER_KIND = int(os.environ.get("STELE_CHAOS_SPARK_KILLS", "4"))
DRIVER_POINTS = ("spark.load.after_begin", "spark.load.after_tasks", "spark.load.after_commit")
DRIVER_SECONDS_MAX = 1_800

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7_200)]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("spark")) as address:
        yield address


def drive(master: str, jobs: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]], str]:
    """Let a driver run jobs: its exit status, what it said of each, and its errors."""
    words = [sys.executable, "-m", "tests.chaos.spark.standalone_driver", master, json.dumps(jobs)]
    ended = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=DRIVER_SECONDS_MAX,
        check=False,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
    )
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr


def world(path: Path, seed: int, counters: Counter[str]) -> LoadWorld:
    path.mkdir()
    return LoadWorld(None, path, seed, counters)


def job(one: LoadWorld, kind: str, point: str = "") -> dict[str, Any]:
    return {
        "directory": str(one.directory / "db"),
        "seed": one.seed,
        "kind": kind,
        "point": point,
        "marker": one.marker(kind),
    }


@pytest.mark.parametrize("kind", ["kill executor", "sleep", "exit"])
def test_lost_executors_and_second_attempts_change_nothing(
    master: str, tmp_path: Path, kind: str
) -> None:
    dice, counters = random.Random(SEED), Counter[str]()
    # An attempt that hangs has written its files: those of two attempts lie side by side.
    points = ("spark.load.after_files",) if kind == "sleep" else POINTS
    worlds = [world(tmp_path / str(n), SEED * 100 + n, counters) for n in range(JOBS_PER_KIND)]
    jobs = [job(one, kind, dice.choice(points)) for one in worlds]
    status, found, said = drive(master, [*jobs, *(job(one, "none") for one in worlds)])
    assert status == 0, said[-3_000:]
    first, again = found[: len(worlds)], found[len(worlds) :]
    for one, before, after in zip(worlds, first, again, strict=True):
        assert "txn" in after, after
        assert after["done_before"] == ("txn" in before)
        one.check_all(after["txn"])
        counters[f"fired {kind}"] += Path(one.marker(kind)).exists()
        counters["repeated parts"] += repeated_parts(one)
        one.close()
    print(json.dumps({"seed": SEED, "jobs": len(worlds), **counters}))
    assert counters[f"fired {kind}"] >= 0.75 * len(worlds), "too few faults took place"
    if kind == "sleep":
        assert counters["repeated parts"], "nothing was tried twice"


def repeated_parts(one: LoadWorld) -> int:
    """Parts of the job of which more than one attempt has left files."""
    attempts: dict[tuple[str, str], set[str]] = {}
    for file in (one.directory / "db").rglob("i*.*.*-*"):
        token, part, attempt = file.name.partition("-")[0].split(".")[:3]
        attempts.setdefault((token, part), set()).add(attempt)
    return sum(len(several) > 1 for several in attempts.values())


@pytest.mark.parametrize("point", DRIVER_POINTS)
def test_a_driver_that_ends_leaves_all_or_nothing(master: str, tmp_path: Path, point: str) -> None:
    counters = Counter[str]()
    one = world(tmp_path / "w", SEED, counters)
    status, found, said = drive(master, [job(one, "driver", point)])
    assert (status, found) == (EXIT_STATUS, []), said[-3_000:]
    happened = point.endswith("after_commit")
    assert one.outcome() == ("all" if happened else "none")
    status, found, said = drive(master, [job(one, "none"), job(one, "none")])
    assert status == 0, said[-3_000:]
    assert [line["done_before"] for line in found] == [happened, True]
    one.check_all(found[0]["txn"])
    one.close()
