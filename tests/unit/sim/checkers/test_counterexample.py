"""A failure is explained by few operations, and by none that have nothing to do with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from stele.sim.checkers.counterexample import Counterexample, describe, draw, explain
from stele.sim.checkers.history import Operation, Outcome
from stele.sim.checkers.linearizability import Budget, check
from stele.sim.checkers.models import MODELS, Counter, FencedLock, Model, Register, Transactions
from tests.unit.sim.checkers import brute_force, generated, notation
from tests.unit.sim.checkers.generated import Counters, Locks, Object, Registers, Workload


def explained(text: str, model: Model) -> Counterexample:
    report = check(notation.operations(text), model)
    return explain(report.failures[0], model)


def said(operations: Sequence[Operation]) -> list[str]:
    return [str(operation) for operation in operations]


def test_a_stale_read_is_three_operations() -> None:
    text = "a>put/1 a< b>get b<1 a>put/2 a< b>get b<2 a>put/3 c>get c<3 a< b>get b<2 c>get c<3"
    found = explained(text, Register())
    assert said(found.operations) == ["put 2", "put 3", "get -> 2"]
    assert found.left_out == 5
    assert said(found.order) == ["put 2", "put 3"]
    assert found.state == 3


def test_the_drawing() -> None:
    text = "a>put/1 a< b>put/2 b< c>get c<1"
    report = check(notation.operations(text), Register())
    assert describe(report, Register()).splitlines() == [
        "invalid: 1 of 1 keys, 3 operations",
        "key 'k': no order explains these 3 operations (of 3)",
        "  client 0   |-----|                                  put 1",
        "  client 1               |-----|                      put 2",
        "  client 2                           |-----|          get -> 1",
        "  the longest order: put 1, put 2",
        "  the state then: 2",
        "  left over: get -> 1",
    ]


def test_an_unknown_operation_is_drawn_open() -> None:
    rows = draw(notation.operations("a>put/1 a? b>get b<7"))
    assert rows[0].rstrip().endswith("put 1 (unknown)")
    assert "|-----------------..." in rows[0]


def test_values_that_have_nothing_to_do_with_it_are_left_out() -> None:
    found = explained("a>put/1 a< a>put/5 a< a>put/2 a< b>get b<5 c>get c<1", Register())
    assert said(found.operations) == ["put 5", "put 2", "get -> 5"]


def test_a_chain_of_compares_stays_together() -> None:
    text = "a>put/1 a< a>cas/[1 2] a<yes a>cas/[2 3] a<yes b>get b<2"
    assert len(explained(text, Register()).operations) == 4


def test_a_delete_that_has_nothing_to_do_with_it_is_left_out() -> None:
    text = "a>put/9 a< a>delete a<yes a>put/1 a< a>put/2 a< b>get b<1"
    assert said(explained(text, Register()).operations) == ["put 1", "put 2", "get -> 1"]


def test_a_delete_that_matters_stays() -> None:
    text = "a>put/9 a< a>delete a<yes b>get b<9"
    assert len(explained(text, Register()).operations) == 3
    assert said(explained("a>put/9 a< a>put/nil a< a>delete a<yes", Register()).operations) == [
        "put 9", "put", "delete -> True"
    ]  # fmt: skip


def test_an_operation_that_may_notice_anything_keeps_everything() -> None:
    text = "a>put/9 a< a>put/1 a< b>cas/[1 3] b<no"
    assert len(explained(text, Register()).operations) == 3


def test_what_happened_after_the_failure_is_left_out() -> None:
    found = explained("a>add/1 a< b>get b<0 a>add/1 a< b>get b<5", Counter())
    assert said(found.operations) == ["add 1", "get -> 0"]


def test_sessions_that_have_nothing_to_do_with_it_are_left_out() -> None:
    text = (
        "a>acquire/[r exclusive] a<1 a>release/r a<yes "
        "a>acquire/[s exclusive] a<2 b>acquire/[t exclusive] b<3"
    )
    found = explained(text, FencedLock())
    assert said(found.operations) == ["acquire [s exclusive] -> 2", "acquire [t exclusive] -> 3"]
    assert "the state then: [2 exclusive {s}]" in str(found)


def test_names_that_have_nothing_to_do_with_it_are_left_out() -> None:
    text = (
        "a>txn/[[] [[put z 1]] []] a<[yes []] a>txn/[[[y nil]] [[put x 1]] []] "
        "b>txn/[[[x nil]] [[put y 1]] []] a<[yes []] b<[yes []]"
    )
    assert len(explained(text, Transactions()).operations) == 2


def test_what_takes_too_long_to_cut_down_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stele.sim.checkers.counterexample.STEPS_MAX", 0)
    text = "a>put/1 a< b>put/2 b< c>get c<2 c>get c<1"
    assert len(explained(text, Register()).operations) == 4


def test_the_state_of_transactions_is_shown() -> None:
    text = "a>txn/[[] [[put y 2] [put x 1]] []] a<[yes []] b>txn/[[] [[get x]] []] b<[yes [nil]]"
    assert "the state then: {[x 1] [y 2]}" in str(explained(text, Transactions()))


def test_nothing_can_be_placed() -> None:
    assert "the longest order: none at all" in str(explained("a>get a<1", Register()))


def test_a_key_without_a_verdict_is_named() -> None:
    puts = " ".join(f"{client}>put/1" for client in "abcdef")
    text = f"{puts} g>get g<2 {' '.join(f'{client}<' for client in 'abcdef')}"
    report = check(notation.operations(text), Register(), Budget(steps_max=0))
    assert "key 'k': no verdict within 1 steps" in describe(report, Register())


LIES: list[tuple[str, type[Object], Callable[..., list[Operation]], int]] = [
    ("register", Registers, generated.plant_stale_read, 12),
    ("register", Registers, generated.plant_lost_update, 12),
    ("lock", Locks, generated.plant_double_grant, 40),
    ("counter", Counters, generated.plant_lost_addition, 150),
]


@pytest.mark.parametrize(("name", "kind", "plant", "operations_max"), LIES)
def test_a_counterexample_fails_by_itself(
    name: str, kind: type[Object], plant: Callable[..., list[Operation]], operations_max: int
) -> None:
    model = MODELS[name]
    sizes = []
    for seed in range(8):
        lying = plant(Workload(kind(), seed, clients=4).run(150), random.Random(seed))
        found = explain(check(lying, model).failures[0], model)
        assert not check(found.operations, model).ok
        assert len(found.operations) + found.left_out == len(lying)
        if len(found.operations) <= 6:
            assert not brute_force.linearizable(found.operations, model)
        assert all(operation.outcome is not Outcome.FAILED for operation in found.operations)
        sizes.append(len(found.operations))
    assert sorted(sizes)[len(sizes) // 2] <= operations_max
