"""The embedded store against a plain model, over random courses of everything that can happen.

The gate takes a bounded number of courses from the same seed every time. ``make model`` takes as
many as it is told to, from a seed that it prints:

    STELE_MODEL_SEED       where the dice start
    STELE_MODEL_EXAMPLES   how many courses
    STELE_MODEL_STEPS      how long each may be
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, run_state_machine_as_test

from tests.model.check_changes import ChangeChecks
from tests.model.machine_base import COUNTS
from tests.model.rules_faults import FaultRules
from tests.model.rules_handles import HandleRules
from tests.model.rules_reading import ReadingRules
from tests.model.rules_updates import UpdateRules

SEED = int(os.environ.get("STELE_MODEL_SEED", "1"))
EXAMPLES = int(os.environ.get("STELE_MODEL_EXAMPLES", "40"))
STEPS = int(os.environ.get("STELE_MODEL_STEPS", "40"))
RULES_MIN = 25
CHANGES_SHARE = 0.1
"""How often the changes of a table are looked at as well: they take as long as ten scans."""
IDLE_RULES_MAX = 0 if EXAMPLES >= 200 else 6
"""Some rules need others before them and are rare in a few courses."""
TURNS_MAX = 3
"""As many courses again if they left out too much: what a course may do next depends on flushes and
compactions in the background, and so on the machine."""


class EmbeddedMachine(FaultRules, HandleRules, UpdateRules, ReadingRules, ChangeChecks):
    """All rules together. After every step, a moment of each table is compared with its model."""

    @initialize(seed=st.integers(0, 1 << 16))
    def roll(self, seed: int) -> None:
        """For choices that Hypothesis need not know of."""
        self.dice.seed(seed)

    @invariant()
    def contents_are_right(self) -> None:
        for name in sorted(self.models):
            self.base(name, self.readable(name))
            if self.dice.random() < CHANGES_SHARE:
                self.check_changes(name)


def test_the_store_does_what_the_model_does() -> None:
    COUNTS.clear()
    rules = {rule.function.__name__ for rule in EmbeddedMachine().rules}
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=False,
        database=None,
        print_blob=True,
        report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    idle = rules
    for turn in range(TURNS_MAX):
        try:
            run_state_machine_as_test(seed(SEED + turn)(EmbeddedMachine), settings=chosen)
        finally:
            print({"seed": SEED + turn, "examples": EXAMPLES, "steps": COUNTS.total(), **COUNTS})
        idle = rules - COUNTS.keys()
        if len(idle) <= IDLE_RULES_MAX:
            break
    assert len(rules) >= RULES_MIN
    assert len(idle) <= IDLE_RULES_MAX, f"rules that never did anything: {sorted(idle)}"
    assert COUNTS.total() >= EXAMPLES * STEPS // 4
