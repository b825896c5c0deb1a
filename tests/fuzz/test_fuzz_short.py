"""The short form of fuzzing, in the gate: every target takes a few thousand seeded mutations."""

from __future__ import annotations

import json
import os

import pytest

from tests.fuzz.driver import EXECS_DEFAULT, SEED_DEFAULT, Options, fuzz
from tests.fuzz.driver_targets import target_names

EXECS = int(os.environ.get("STELE_FUZZ_EXECS", EXECS_DEFAULT))
SEED = int(os.environ.get("STELE_FUZZ_SEED", SEED_DEFAULT))


@pytest.mark.parametrize("name", target_names())
def test_only_errors_of_our_own_leave_a_decoder(name: str) -> None:
    counters = fuzz(Options(name, seed=SEED, execs=EXECS))
    print(json.dumps(counters))
    assert counters["execs"] == EXECS
