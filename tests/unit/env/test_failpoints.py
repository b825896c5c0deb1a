"""Failpoints: nothing when disarmed, exactly one action when armed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from stele.env import failpoints
from stele.env.failpoints import (
    ENVIRONMENT_VARIABLE,
    EXIT_STATUS,
    SimulatedCrash,
    arm,
    arm_from_environment,
    armed,
    counting,
    crash,
    declare,
    declared,
    disarm,
    fail,
    failpoint,
    sleep,
)
from stele.errors import InvalidArgument, OutOfSpace, StorageFailed

HERE = declare("tests.failpoints.here")
THERE = declare("tests.failpoints.there")


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    disarm(HERE)
    disarm(THERE)
    assert not failpoints._active


def test_disarmed_failpoints_do_nothing() -> None:
    failpoint(HERE)
    with armed(THERE, fail()):
        failpoint(HERE)
    failpoint(THERE)
    assert not failpoints._active


def test_declared_names_are_listed_once() -> None:
    assert {HERE, THERE} <= set(declared())
    assert declared() == sorted(set(declared()))
    with pytest.raises(AssertionError, match="twice"):
        declare(HERE)


def test_an_undeclared_name_is_a_bug() -> None:
    with armed(HERE, fail()), pytest.raises(AssertionError, match=r"tests\.no\.such"):
        failpoint("tests.no.such")


def test_fail_raises_an_error_that_names_the_failpoint() -> None:
    with armed(HERE, fail()), pytest.raises(StorageFailed, match=HERE):
        failpoint(HERE)
    with armed(HERE, fail(OutOfSpace)), pytest.raises(OutOfSpace, match=HERE):
        failpoint(HERE)


def test_a_crash_is_not_an_exception_that_code_swallows() -> None:
    def careless() -> None:
        try:
            failpoint(HERE)
        except Exception:  # noqa: BLE001 - the carelessness is the point
            return

    with armed(HERE, crash()), pytest.raises(SimulatedCrash, match=HERE):
        careless()


def test_only_the_chosen_pass_acts() -> None:
    seen: list[str] = []
    with armed(HERE, seen.append, hit=3) as point:
        for _pass in range(5):
            failpoint(HERE)
    assert seen == [HERE]
    assert (point.passes, point.fired) == (5, 1)


def test_without_a_number_every_pass_acts() -> None:
    with armed(HERE, sleep(1)) as point:
        failpoint(HERE)
        failpoint(HERE)
    assert (point.passes, point.fired) == (2, 2)


def test_an_action_may_pass_failpoints_itself() -> None:
    relay = armed(HERE, lambda _name: failpoint(THERE))
    with relay, armed(THERE, fail(OutOfSpace)), pytest.raises(OutOfSpace, match=THERE):
        failpoint(HERE)


def test_passes_are_counted_across_threads() -> None:
    def pass_often() -> None:
        for _pass in range(200):
            failpoint(HERE)

    with counting() as passes:
        threads = [threading.Thread(target=pass_often) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failpoint(THERE)
    failpoint(THERE)
    assert passes == {HERE: 800, THERE: 1}


def test_counting_does_not_nest() -> None:
    with counting(), pytest.raises(AssertionError), counting():
        pass


def test_the_environment_arms() -> None:
    points = arm_from_environment({ENVIRONMENT_VARIABLE: f"{HERE}=fail@2 ; {THERE}=sleep:10;"})
    failpoint(HERE)
    failpoint(THERE)
    with pytest.raises(StorageFailed):
        failpoint(HERE)
    assert [(point.name, point.hit, point.fired) for point in points] == [
        (HERE, 2, 1),
        (THERE, None, 1),
    ]
    assert arm_from_environment({}) == []


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "a=explode",
        "a=sleep",
        "a=sleep:soon",
        "a=fail@x",
        "a=fail@0",
        "a=exit:no",
        "=fail@",
    ],
)
def test_nonsense_in_the_environment_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        arm_from_environment({ENVIRONMENT_VARIABLE: text})
    assert not failpoints._active


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least 1"):
        arm(HERE, fail(), hit=0)


PROGRAM = """
from stele.env.failpoints import arm_from_environment, declare, failpoint
arm_from_environment()
POINT = declare("program.step")
for step in range(5):
    print(step, flush=True)
    failpoint(POINT)
"""


@pytest.mark.parametrize(
    ("action", "status", "steps"),
    [("exit@3", EXIT_STATUS, 3), ("exit:7", 7, 1), ("crash@2", 1, 2), ("exit@9", 0, 5)],
)
def test_a_process_ends_where_it_is_told(action: str, status: int, steps: int) -> None:
    environment = {**os.environ, ENVIRONMENT_VARIABLE: f"program.step={action}"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert done.stdout.split() == [str(step) for step in range(steps)]
