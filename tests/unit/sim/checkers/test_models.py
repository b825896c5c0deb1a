"""Each model by hand, and what each promises to the search and to the explanation."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.sim.checkers.history import Operation, Outcome
from stele.sim.checkers.models import (
    ILLEGAL,
    MODELS,
    UNSEEN,
    Counter,
    FencedLock,
    Model,
    Register,
    State,
    Transactions,
)
from tests.unit.sim.checkers import brute_force, notation, tiny

NOBODY = (0, "shared", frozenset[str]())


def held(token: int, mode: str, *sessions: str) -> State:
    return (token, mode, frozenset(sessions))


def names(**values: int) -> State:
    return frozenset(values.items())


STEPS: list[tuple[Model, State, str, State]] = [
    (Register(), 1, "a>get a<1", 1),
    (Register(), 1, "a>get a<2", ILLEGAL),
    (Register(), 1, "a>get a?", 1),
    (Register(), 1, "a>put/2 a<", 2),
    (Register(), 1, "a>put/2 a<77", 2),
    (Register(), 1, "a>put/2 a?", 2),
    (Register(), 1, "a>cas/[1 2] a<yes", 2),
    (Register(), 1, "a>cas/[1 2] a<no", ILLEGAL),
    (Register(), 1, "a>cas/[3 2] a<no", 1),
    (Register(), 1, "a>cas/[3 2] a<yes", ILLEGAL),
    (Register(), 1, "a>cas/[1 2] a?", 2),
    (Register(), 1, "a>cas/[3 2] a?", 1),
    (Register(), 1, "a>delete a<yes", None),
    (Register(), 1, "a>delete a<no", ILLEGAL),
    (Register(), 1, "a>delete a<", None),
    (Register(), None, "a>delete a<yes", ILLEGAL),
    (Register(), None, "a>delete a<no", None),
    (Counter(), 1, "a>get a<1", 1),
    (Counter(), 1, "a>get a<2", ILLEGAL),
    (Counter(), 1, "a>add/2 a<3", 3),
    (Counter(), 1, "a>add/2 a<", 3),
    (Counter(), 1, "a>add/2 a<2", ILLEGAL),
    (Counter(), 1, "a>add/-2 a?", -1),
    (FencedLock(), NOBODY, "a>acquire/[s exclusive] a<4", held(4, "exclusive", "s")),
    (FencedLock(), NOBODY, "a>acquire/[s shared] a<4", held(4, "shared", "s")),
    (FencedLock(), NOBODY, "a>acquire/[s exclusive] a<0", ILLEGAL),
    (FencedLock(), NOBODY, "a>acquire/[s exclusive] a?", held(0, "exclusive", "s")),
    (FencedLock(), held(4, "shared", "s"), "a>acquire/[t shared] a<4", held(4, "shared", "s", "t")),
    (FencedLock(), held(4, "shared", "s"), "a>acquire/[t shared] a<3", ILLEGAL),
    (FencedLock(), held(4, "shared", "s"), "a>acquire/[s shared] a<5", ILLEGAL),
    (FencedLock(), held(4, "shared", "s"), "a>acquire/[t exclusive] a<5", ILLEGAL),
    (FencedLock(), held(4, "exclusive", "s"), "a>acquire/[t shared] a<5", ILLEGAL),
    (FencedLock(), held(4, "exclusive", "s"), "a>acquire/[t shared] a?", ILLEGAL),
    (FencedLock(), held(4, "exclusive", "s"), "a>release/s a<yes", held(4, "shared")),
    (FencedLock(), held(4, "exclusive", "s"), "a>release/s a<no", ILLEGAL),
    (FencedLock(), held(4, "exclusive", "s"), "a>release/t a<no", held(4, "exclusive", "s")),
    (FencedLock(), held(4, "exclusive", "s"), "a>release/t a<yes", ILLEGAL),
    (FencedLock(), held(4, "exclusive", "s"), "a>expire/s a<", held(4, "shared")),
    (FencedLock(), held(4, "exclusive", "s"), "a>expire/t a<", held(4, "exclusive", "s")),
    (Transactions(), names(x=1), "a>txn/[[[x 1]] [[put y 2]] []] a<[yes []]", names(x=1, y=2)),
    (Transactions(), names(x=1), "a>txn/[[[x 2]] [[put y 2]] [[get x]]] a<[no [1]]", names(x=1)),
    (Transactions(), names(x=1), "a>txn/[[] [[delete x]] []] a<[yes []]", names()),
    (Transactions(), names(x=1), "a>txn/[[] [[put x nil]] []] a<[yes []]", names()),
    (Transactions(), names(x=1), "a>txn/[[] [[get x]] []] a<[yes [2]]", ILLEGAL),
    (Transactions(), names(x=1), "a>txn/[[[x 1]] [[put x 2]] []] a?", names(x=2)),
]


@pytest.mark.parametrize(("model", "state", "text", "after"), STEPS)
def test_steps(model: Model, state: State, text: str, after: State) -> None:
    [operation] = notation.operations(text)
    assert model.step(state, operation) == after


@pytest.mark.parametrize("model", MODELS.values())
def test_an_unknown_kind_is_refused(model: Model) -> None:
    [operation] = notation.operations("a>dance/[s t] a<")
    with pytest.raises(InvalidArgument, match="knows no 'dance'"):
        model.step(model.initial, operation)


def test_an_unknown_step_of_a_transaction_is_refused() -> None:
    [operation] = notation.operations("a>txn/[[] [[dance x]] []] a<[yes []]")
    with pytest.raises(InvalidArgument, match=r"knows no step \[dance x\]"):
        Transactions().step(frozenset(), operation)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=150)
@given(data=st.data())
def test_what_only_observes_changes_no_state(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    happened = [o for o in data.draw(tiny.histories(name)) if o.outcome is not Outcome.FAILED]
    state = model.initial
    for operation in happened:
        for other in filter(model.observes_only, happened):
            assert model.step(state, other) in (state, ILLEGAL)
        after = model.step(state, operation)
        state = state if after is ILLEGAL else after


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=100)
@given(data=st.data())
def test_simplifying_allows_the_same_orders(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    operations = [o for o in data.draw(tiny.histories(name)) if o.outcome is Outcome.OK][:4]
    simple = model.simplified(operations)
    order = data.draw(st.permutations(range(len(operations))))
    assert brute_force.runs([operations[number] for number in order], model) is brute_force.runs(
        [simple[number] for number in order], model
    )


def tied(operations: list[Operation], model: Model) -> set[int]:
    """The places of what is tied to the first operation."""
    strands, places = set(model.strands(operations[0])), {0}
    for _ in operations:
        for place, operation in enumerate(operations):
            if strands & set(model.strands(operation)):
                places.add(place)
                strands |= set(model.strands(operation))
    return places


@pytest.mark.parametrize("name", ["register", "lock", "transactions"])
@settings(max_examples=200)
@given(data=st.data())
def test_a_valid_history_is_valid_without_a_strand(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    drawn = data.draw(tiny.histories(name))
    operations = [operation for operation in drawn if model.strands(operation)][:5]
    assume(operations)
    assume(brute_force.linearizable(operations, model))
    left_out = tied(operations, model)
    rest = [o for place, o in enumerate(operations) if place not in left_out]
    assert brute_force.linearizable(rest, model)


def test_no_state_is_shown_as_what_it_is() -> None:
    assert repr(ILLEGAL) == "ILLEGAL"


def test_values_that_nobody_reads_are_alike() -> None:
    operations = notation.operations("a>put/1 a< a>put/2 a< a>cas/[2 3] a<no a>put/4 a< b>get b<1")
    simple = Register().simplified(operations)
    assert [operation.argument for operation in simple] == [1, 2, (2, UNSEEN), UNSEEN, None]


@pytest.mark.parametrize(
    ("model", "text", "demands"),
    [
        (Register(), "a>put/1 a< b>get b<1", [ILLEGAL, 1]),
        (Register(), "a>put/1 a< a>put/1 a< b>get b<1", [ILLEGAL, ILLEGAL, ILLEGAL]),
        (Register(), "a>put/1 a? a>cas/[1 2] a<yes b>get b?", [ILLEGAL, 1, ILLEGAL]),
        (Register(), "a>get a<nil a>put/1 a< a>delete a<no", [None, ILLEGAL, None]),
        (Register(), "a>get a<nil a>delete a?", [ILLEGAL, ILLEGAL]),
        (Counter(), "a>add/2 a<5 b>get b<5 b>add/1 b<", [3, 5, ILLEGAL]),
        (Counter(), "a>add/2 a<5 b>get b<5 b>add/-1 b<", [ILLEGAL, ILLEGAL, ILLEGAL]),
    ],
)
def test_states_that_do_not_come_back(model: Model, text: str, demands: list[State]) -> None:
    assert list(model.demands(notation.operations(text))) == demands
