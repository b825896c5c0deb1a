"""The checker agrees with hand-made histories, with brute force, and with planted lies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.memory import MemoryClock
from stele.errors import InvalidArgument
from stele.sim.checkers.history import NEVER, Operation, Outcome
from stele.sim.checkers.linearizability import Budget, Verdict, by_key, check, check_key
from stele.sim.checkers.models import MODELS, Model, Register, Transactions
from tests.unit.sim.checkers import brute_force, generated, notation, tiny
from tests.unit.sim.checkers.generated import Counters, Locks, Object, Registers, Workload

HAND_MADE = [(name, *entry) for name in MODELS for entry in notation.catalogue(name)]


@pytest.mark.parametrize(
    ("model", "verdict", "text"),
    [(model, verdict, text) for model, verdict, _, text in HAND_MADE],
    ids=[f"{model}-{title}" for model, _, title, _ in HAND_MADE],
)
def test_hand_made_histories(model: str, verdict: str, text: str) -> None:
    operations = notation.operations(text)
    report = check(operations, MODELS[model])
    assert report.verdict.value == verdict
    assert report.ok is (verdict == "valid")
    groups = by_key(operations).values()
    by_force = all(brute_force.linearizable(group, MODELS[model]) for group in groups)
    assert by_force is report.ok, "the history itself is wrong"


def test_there_are_enough_hand_made_histories() -> None:
    verdicts = [verdict for _, verdict, _, _ in HAND_MADE]
    assert verdicts.count("valid") >= 60
    assert verdicts.count("invalid") >= 60


def assert_as_by_force(name: str, operations: Sequence[Operation]) -> None:
    report = check(operations, MODELS[name])
    assert report.ok is brute_force.linearizable(operations, MODELS[name])
    assert report.verdict is not Verdict.UNKNOWN


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=400)
@given(data=st.data())
def test_tiny_histories_against_every_permutation(name: str, data: st.DataObject) -> None:
    assert_as_by_force(name, data.draw(tiny.histories(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=5_000)
@given(data=st.data())
def test_many_tiny_histories_against_every_permutation(name: str, data: st.DataObject) -> None:
    assert_as_by_force(name, data.draw(tiny.histories(name)))


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=100)
@given(data=st.data())
def test_foresight_changes_no_verdict(name: str, data: st.DataObject) -> None:
    operations = data.draw(tiny.histories(name))
    model = MODELS[name]
    far = check_key("k", operations, model, Budget())
    near = check_key("k", operations, model, Budget(), foresight=False)
    assert far.verdict is near.verdict
    assert len(far.order) <= len(near.order)


def assert_is_an_order(operations: Sequence[Operation], model: Model) -> None:
    """What the checker returns is a proof: it is an order, it keeps real time, and it runs."""
    report = check_key("k", operations, model, Budget())
    assert report.verdict is Verdict.VALID
    assert len(set(report.order)) == len(report.order)
    assert {o for o in operations if o.outcome is Outcome.OK} <= set(report.order)
    assert set(report.order) <= set(operations)
    assert brute_force.keeps_real_time(report.order)
    assert brute_force.runs(report.order, model)


OBJECTS: dict[str, Callable[[], Object]] = {
    "register": Registers,
    "counter": Counters,
    "lock": Locks,
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("unknown", [0.0, 0.1])
def test_what_a_working_object_did_is_valid(name: str, unknown: float) -> None:
    for seed in range(20):
        operations = Workload(OBJECTS[name](), seed, clients=6, unknown=unknown).run(120)
        assert_is_an_order(operations, MODELS[name])


LIES: list[tuple[str, Callable[[Sequence[Operation], random.Random], list[Operation]]]] = [
    ("register", generated.plant_stale_read),
    ("register", generated.plant_lost_update),
    ("counter", generated.plant_lost_addition),
    ("lock", generated.plant_double_grant),
    ("lock", generated.plant_old_token),
]


@pytest.mark.parametrize(("name", "plant"), LIES, ids=[plant.__name__ for _, plant in LIES])
def test_every_planted_lie_is_found(
    name: str, plant: Callable[[Sequence[Operation], random.Random], list[Operation]]
) -> None:
    for seed in range(60):
        operations = Workload(OBJECTS[name](), seed, clients=4).run(120)
        lying = plant(operations, random.Random(seed))
        assert check(lying, MODELS[name]).verdict is Verdict.INVALID, seed


@pytest.mark.parametrize("seed", range(5))
def test_lies_are_found_among_unknown_outcomes(seed: int) -> None:
    operations = Workload(Registers(), seed, clients=4, unknown=0.05).run(150)
    lying = generated.plant_stale_read(operations, random.Random(seed))
    assert check(lying, Register()).verdict is Verdict.INVALID


def test_a_lie_on_one_key_of_many_is_found() -> None:
    operations = Workload(Registers(keys=10), 1, clients=8).run(800)
    assert check(operations, Register()).keys == 10
    lying = generated.plant_stale_read(operations, random.Random(1))
    report = check(lying, Register())
    assert report.operations == 800
    assert [failure.verdict for failure in report.failures] == [Verdict.INVALID]


def test_many_clients_on_one_key_need_few_steps() -> None:
    """The rules of the search do their work: without them this would not end."""
    operations = Workload(Registers(), 3, clients=30, unknown=0.02).run(2_000)
    report = check(operations, Register())
    assert report.ok
    assert report.steps < 20 * len(operations)
    lying = generated.plant_stale_read(operations[:600], random.Random(3))
    assert check(lying, Register()).verdict is Verdict.INVALID


def all_at_once(count: int) -> list[Operation]:
    """Transactions without answers that no rule can tell apart, and one that cannot be right."""

    def overlapping(client: int, name: str) -> Operation:
        argument = ((), (("put", name, client),), ())
        return Operation(client, "txn", "k", argument, (True, ()), Outcome.OK, client, 100)

    puts = [overlapping(client, f"n{client}") for client in range(count)]
    wrong = Operation(99, "txn", "k", ((), (("get", "m"),), ()), (True, (1,)), Outcome.OK, 200, 201)
    return [*puts, wrong]


def test_a_spent_budget_is_no_good_verdict() -> None:
    report = check(all_at_once(16), Transactions(), Budget(steps_max=1_000))
    assert report.verdict is Verdict.UNKNOWN
    assert not report.ok
    assert report.steps == 1_001


class Ticking(MemoryClock):
    """A second passes at each reading."""

    def monotonic_us(self) -> int:
        self.advance(1_000_000)
        return super().monotonic_us()


def test_spent_time_is_no_good_verdict_either() -> None:
    budget = Budget(clock=Ticking(), time_us_max=2_500_000)
    report = check(all_at_once(16), Transactions(), budget)
    assert report.verdict is Verdict.UNKNOWN


def test_enough_time_changes_nothing() -> None:
    budget = Budget(clock=Ticking(), time_us_max=NEVER)
    assert check(all_at_once(6), Transactions(), budget).verdict is Verdict.INVALID


def test_a_key_without_a_verdict_is_not_hidden_by_a_valid_one() -> None:
    mixed = [*all_at_once(16), *notation.operations("a>txn@x/[[] [[get x]] []] a<[yes [nil]]")]
    report = check(mixed, Transactions(), Budget(steps_max=500))
    assert report.verdict is Verdict.UNKNOWN
    assert (report.keys, len(report.failures)) == (2, 1)


def test_an_invalid_key_weighs_more_than_one_without_a_verdict() -> None:
    wrong = notation.operations("a>txn@x/[[] [[get x]] []] a<[yes [1]]")
    report = check([*all_at_once(16), *wrong], Transactions(), Budget(steps_max=500))
    assert report.verdict is Verdict.INVALID
    assert len(report.failures) == 2


def test_an_empty_history_is_valid() -> None:
    assert check([], Register()).ok


def test_a_kind_that_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="Register knows no 'add'"):
        check(notation.operations("a>add/1 a<1"), Register())
