"""What locks promise, by hand, by working locks, and by planted lies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import assume, given, settings

from stele.sim.checkers.history import Operation, Outcome
from stele.sim.checkers.locks import check_locks
from stele.sim.checkers.models import FencedLock
from tests.unit.sim.checkers import brute_force, generated, notation, tiny
from tests.unit.sim.checkers.generated import Locks, Workload

HAND_MADE = notation.catalogue("lock_promises")


@pytest.mark.parametrize(
    ("promise", "text"), [(p, t) for p, _, t in HAND_MADE], ids=[title for _, title, _ in HAND_MADE]
)
def test_hand_made_histories(promise: str, text: str) -> None:
    report = check_locks(notation.operations(text))
    assert set(report.counts) == (set() if promise == "valid" else {promise}), report


def test_what_working_locks_did_is_fine() -> None:
    grants = 0
    for seed in range(30):
        operations = Workload(Locks(), seed, clients=6, unknown=0.03).run(200)
        report = check_locks(operations)
        assert report.ok, report
        grants += report.checked["grants"]
    assert grants > 1_000


@pytest.mark.parametrize(
    ("plant", "promise"),
    [(generated.plant_double_grant, "exclusion"), (generated.plant_old_token, "growing tokens")],
)
def test_every_planted_lie_is_found(
    plant: Callable[[Sequence[Operation], random.Random], list[Operation]], promise: str
) -> None:
    for seed in range(60):
        operations = Workload(Locks(), seed, clients=4).run(120)
        assert promise in check_locks(plant(operations, random.Random(seed))).counts, seed


@settings(max_examples=200)
@given(operations=tiny.histories("lock"))
def test_what_a_lock_could_have_done_breaks_no_promise(operations: list[Operation]) -> None:
    """The model lets sessions live again and readers share tokens; nothing else may differ."""
    tokens = [operation.answer for operation in generated.certain(operations, "acquire")]
    assume(len(set(tokens)) == len(tokens))
    report = check_locks(operations)
    broken = set(report.counts) - {"living holders"}
    assert not broken or not brute_force.linearizable(operations, FencedLock()), report


def increments(seed: int, count: int) -> list[Operation]:
    """Holders take turns; each adds a few times under its token, some without an answer."""
    dice = random.Random(seed)
    operations, value, token = [], 0, 0
    for place in range(count):
        token += dice.randrange(2)
        outcome = Outcome.UNKNOWN if dice.random() < 0.05 else Outcome.OK
        value += outcome is Outcome.OK or dice.random() < 0.5
        answer = value if outcome is Outcome.OK else None
        span = (4 * place - dice.randrange(3), 4 * place + 1 + dice.randrange(3))
        operations.append(Operation(token, "increment", "n", ("l", token), answer, outcome, *span))
    end = 4 * count + 10
    total = Operation(99, "total", "n", None, value, Outcome.OK, end, end + 1)
    return [*operations, total]


def test_increments_that_were_all_kept_are_fine() -> None:
    for seed in range(20):
        report = check_locks(increments(seed, 300))
        assert report.ok, report
        assert report.checked["increments"] > 200
        assert report.checked["totals"] == 1


def test_every_lost_increment_is_found() -> None:
    """A paused holder writes what it computed from what it had read before the pause."""
    for seed in range(60):
        dice = random.Random(seed)
        operations = increments(seed, 100)
        done = generated.certain(operations, "increment")
        early, late = sorted(dice.sample(done, 2), key=lambda operation: operation.start)
        overwritten = msgspec.structs.replace(late, answer=early.answer)
        report = check_locks(generated.exchanged(operations, late, overwritten))
        assert report.counts["nothing lost"], seed


def test_a_long_history_is_checked() -> None:
    assert check_locks(increments(1, 10_000)).ok


def test_a_violation_names_both_sides() -> None:
    operations = notation.operations(
        "a>acquire/[s exclusive] a<5 b>acquire/[t exclusive] b<6 a>release/s a<yes"
    )
    [violation] = check_locks(operations).violations
    assert str(violation) == (
        "exclusion, k: s (exclusive, token 5, 0 to 1) held it until 4 at least, "
        "t (exclusive, token 6, 2 to 3) got it too"
    )
