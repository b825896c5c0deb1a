"""Hypothesis strategies of histories so small that every order of them can be tried."""

from __future__ import annotations

from hypothesis import strategies as st

from stele.sim.checkers.history import NEVER, Operation, Outcome, Value

OPERATIONS_MAX = 6
INSTANTS = 10

Call = tuple[str, Value, Value]
"""Kind, argument and answer."""

small = st.sampled_from([None, 1, 2, 3])
flags = st.booleans()
maybe_flags = st.sampled_from([None, True, False])
sessions = st.sampled_from("abc")
names = st.sampled_from("xy")


def call(kind: str, argument: st.SearchStrategy[Value], answer: st.SearchStrategy[Value]) -> (
    st.SearchStrategy[Call]
):  # fmt: skip
    return st.tuples(st.just(kind), argument, answer)


nothing: st.SearchStrategy[Value] = st.none()

REGISTER = (
    call("get", nothing, small)
    | call("put", small, nothing)
    | call("cas", st.tuples(small, small), flags)
    | call("delete", nothing, maybe_flags)
)

COUNTER = (
    call("get", nothing, st.integers(0, 3))
    | call("add", st.sampled_from([1, 1, 2]), st.sampled_from([None, 1, 2, 3]))
    | call("add", st.sampled_from([0, -1]), st.sampled_from([None, 0, 1]))
)

LOCK = (
    call(
        "acquire", st.tuples(sessions, st.sampled_from(["shared", "exclusive"])), st.integers(1, 5)
    )
    | call("release", sessions, maybe_flags)
    | call("expire", sessions, nothing)
)

steps = st.lists(
    st.tuples(st.just("get"), names)
    | st.tuples(st.just("put"), names, small)
    | st.tuples(st.just("delete"), names),
    max_size=2,
).map(tuple)


@st.composite
def transactions(draw: st.DrawFn) -> Call:
    compares = tuple(draw(st.lists(st.tuples(names, small), max_size=1)))
    then, otherwise = draw(steps), draw(steps)
    holds = draw(flags) if compares else True
    gets = sum(step[0] == "get" for step in (then if holds else otherwise))
    answers = tuple(draw(small) for _ in range(gets))
    return ("txn", (compares, then, otherwise), (holds, answers))


CALLS = {"register": REGISTER, "counter": COUNTER, "lock": LOCK, "transactions": transactions()}

outcomes = st.sampled_from([*[Outcome.OK] * 5, Outcome.UNKNOWN, Outcome.UNKNOWN, Outcome.FAILED])


@st.composite
def histories(draw: st.DrawFn, model: str) -> list[Operation]:
    """Operations on one key. Answers are drawn without regard to sense."""
    operations = []
    for client in range(draw(st.integers(1, OPERATIONS_MAX))):
        kind, argument, answer = draw(CALLS[model])
        outcome = draw(outcomes)
        start = draw(st.integers(0, INSTANTS))
        end = NEVER
        if outcome is Outcome.OK:
            end = 2 * draw(st.integers(start, INSTANTS)) + 1
        else:
            answer = None
        operations.append(Operation(client, kind, "k", argument, answer, outcome, 2 * start, end))
    return sorted(operations, key=lambda operation: operation.start)
