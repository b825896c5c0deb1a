"""What holds for every test: how Hypothesis chooses, and what a missing Java looks like.

Fixtures of the product itself do not live here: simulated worlds, clusters and file systems are
product code, typed and tested, under ``stele.env``, ``stele.sim`` and ``stele.cluster``.
"""

from __future__ import annotations

import os
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from stele.env.java import find_java
from stele.errors import SteleError

PROFILE_VARIABLE = "STELE_HYPOTHESIS"
"""``gate`` (default): the same examples every time. ``explore``: new ones, and many more."""

# Time is no verdict: the machine may be busy, so neither deadlines nor slow data fail a test.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("gate", derandomize=True, print_blob=True, **_PATIENT)  # type: ignore[arg-type]
settings.register_profile("explore", max_examples=2_000, print_blob=True, **_PATIENT)  # type: ignore[arg-type]
settings.load_profile(os.environ.get(PROFILE_VARIABLE, "gate"))


@cache
def why_spark_cannot_start() -> str | None:
    """One sentence, or None when there is a Java that Spark can use."""
    try:
        find_java()
    except SteleError as error:
        return str(error)
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs Spark fails with one sentence where there is no Java, not with a trace."""
    if item.get_closest_marker("spark") is not None:
        reason = why_spark_cannot_start()
        if reason is not None:
            pytest.fail(reason, pytrace=False)
