"""The gate: a thousand seeds of whole metastore nodes, and the same history for the same seed.

``STELE_METASTORE_SEEDS`` asks for more of them, ``STELE_METASTORE_FIRST_SEED`` for others.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stele.sim.metastore_sim import SIMULATION, run_seed

SEEDS = int(os.environ.get("STELE_METASTORE_SEEDS", "1000"))
FIRST_SEED = int(os.environ.get("STELE_METASTORE_FIRST_SEED", "0"))
PARTS = 4


@pytest.mark.timeout(60 + SEEDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_the_metastore(part: int) -> None:
    reports = SIMULATION.run_seeds(range(FIRST_SEED + part, FIRST_SEED + SEEDS, PARTS))
    assert reports[-1].failure is None, SIMULATION.summarize(reports)
    assert not SIMULATION.find_vacuous(reports), SIMULATION.summarize(reports)


@pytest.mark.parametrize("seed", range(3))
def test_one_seed_is_one_history_in_every_process(seed: int) -> None:
    """Sets and hashes must not leak into the order of things."""
    program = f"from stele.sim.metastore_sim import run_seed; print(run_seed({seed}).trace_hash)"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for salt in ("1", "2")
    }
    assert hashes == {str(run_seed(seed).trace_hash)}
