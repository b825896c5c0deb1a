"""Jobs that are disturbed at every step happen once, wholly, or not at all, and say so clearly.

A few of them are in the gate. `make chaos-spark` takes all kinds in turn, with other dice for each.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.spark.matrix import WORLDS, cases_of
from tests.chaos.spark.worker_faults import arm_workers

SEED = int(os.environ.get("STELE_CHAOS_SEED", "7"))
JOBS = int(os.environ.get("STELE_CHAOS_SPARK_JOBS", "8"))

FIRED_MIN = 0.9
"""Of the jobs: a fault may come too late for one, but not for many."""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3_600),
    # PySpark's own doing, at import and at the end of a session.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.mark.parametrize("kind", WORLDS)
def test_a_disturbed_job_happens_once_or_not_at_all(spark: Any, tmp_path: Path, kind: str) -> None:
    counters: Counter[str] = Counter()
    spark.sparkContext.setLogLevel("OFF")
    cases = cases_of(kind, JOBS)
    for number, fault in cases:
        seed = SEED * 1_000 + number
        print(f"{kind}: {fault.__name__}, seed {seed}", flush=True)
        world = WORLDS[kind](spark, tmp_path / str(number), seed, counters)
        try:
            fault(world)
        finally:
            arm_workers(spark, None)
            world.close()
        counters[fault.__name__] += 1
    print(json.dumps({"kind": kind, "seed": SEED, "jobs": len(cases), **counters}), flush=True)
    fired = sum(count for name, count in counters.items() if name.startswith("fired "))
    assert cases, "a run has some of every kind"
    assert counters["jobs done"] == len(cases)
    assert fired >= FIRED_MIN * len(cases), "too few faults took place"
