"""What holds for every test: how Hypothesis chooses, who hears Ctrl-C, what a missing Java is like.

Fixtures of the product itself do not live here: simulated worlds, clusters and file systems are
product code, typed and tested, under ``stele.env``, ``stele.sim`` and ``stele.cluster``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from stele.env.interrupts import Uninterrupted
from stele.env.java import find_java
from stele.errors import SteleError

PROFILE_VARIABLE = "STELE_HYPOTHESIS"
"""``gate`` (default): the same examples every time. ``explore``: new ones, and many more."""

# Time is no verdict: the machine may be busy, so neither deadlines nor slow data fail a test.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("gate", derandomize=True, print_blob=True, **_PATIENT)  # type: ignore[arg-type]
settings.register_profile("explore", max_examples=2_000, print_blob=True, **_PATIENT)  # type: ignore[arg-type]
settings.load_profile(os.environ.get(PROFILE_VARIABLE, "gate"))


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """Interrupts are raised, and none is held back for good.

    A shell lets what it starts in the background ignore them, and a Spark session that has ended
    leaves a handler that fails.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    left = signal.default_int_handler if before is None else before  # C code's cannot be put back
    held_back = isinstance(signal.signal(signal.SIGINT, left), Uninterrupted)
    assert not held_back, "somebody still holds interrupts back"


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
