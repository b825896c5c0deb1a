"""Loads that are disturbed at every step: all rows once, or none, and a clear sentence.

A few of them are in the gate. `make chaos-spark` takes all kinds in turn, with other dice for each.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.spark.load_faults import FAULTS
from tests.chaos.spark.load_world import LoadWorld
from tests.chaos.spark.worker_faults import disarm_workers

SEED = int(os.environ.get("STELE_CHAOS_SEED", "7"))
JOBS = int(os.environ.get("STELE_CHAOS_SPARK_JOBS", "5"))

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3_600),
    # PySpark's own doing, at import and at the end of a session.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_a_disturbed_load_happens_once_or_not_at_all(spark: Any, tmp_path: Path) -> None:
    counters: Counter[str] = Counter()
    spark.sparkContext.setLogLevel("OFF")
    for number in range(JOBS):
        fault = FAULTS[number % len(FAULTS)]
        seed = SEED * 1_000 + number
        directory = tmp_path / str(number)
        directory.mkdir()
        world = LoadWorld(spark, directory, seed, counters)
        print(f"{fault.__name__}, seed {seed}")
        try:
            fault(world)
        finally:
            disarm_workers(spark)
            world.close()
        counters["faulted jobs"] += 1
        counters[fault.__name__] += 1
    print(json.dumps({"seed": SEED, **dict(sorted(counters.items()))}))
    fired = sum(count for name, count in counters.items() if name.startswith("fired "))
    assert counters["faulted jobs"] == counters["jobs done"] == JOBS
    assert fired >= 0.9 * JOBS, "too few faults took place"
    assert set(counters) >= {fault.__name__ for fault in FAULTS[:JOBS]}
