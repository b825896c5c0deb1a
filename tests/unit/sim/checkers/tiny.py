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


TRANSACTIONS_MAX = 4


@st.composite
def transactions_on(draw: st.DrawFn, write: str, *, with_last_read: bool) -> list[Operation]:
    """Transactions on two keys. They run in some order, and then a few answers are changed."""
    count = draw(st.integers(1, TRANSACTIONS_MAX))
    store = _Store(draw, write)
    order = draw(st.permutations(range(count)))
    operations = []
    for turn, client in enumerate(order):
        outcome = draw(outcomes)
        happens = outcome is Outcome.OK or draw(st.integers(0, 3)) == 0
        asked, answered = store.transaction(happens)
        start = max(0, 3 * turn - draw(st.sampled_from([0, 0, 2, 5])))
        end = 3 * turn + draw(st.sampled_from([0, 0, 2, 5]))
        shown = answered if outcome is Outcome.UNKNOWN and draw(flags) else asked
        operations.append(
            Operation(client, "txn", "", shown, answered, outcome, 2 * start, 2 * end + 1)
            if outcome is Outcome.OK
            else Operation(client, "txn", "", shown, None, outcome, 2 * start, NEVER)
        )
    if with_last_read:
        last = tuple(("read", key, store.look(key)) for key in "xy")
        operations.append(Operation(9, "txn", "", (), last, Outcome.OK, 200, 201))
    return sorted(operations, key=lambda operation: operation.start)


class _Store:
    """Two lists or registers that lie now and then."""

    def __init__(self, draw: st.DrawFn, write: str) -> None:
        self._draw = draw
        self._write = write
        self._values: dict[str, Value] = {}
        self._fresh = 0

    def look(self, key: str) -> Value:
        return self._values.get(key, () if self._write == "append" else None)

    def transaction(self, happens: bool) -> tuple[Value, Value]:
        """What was asked and what was answered."""
        before = dict(self._values)
        asked: list[Value] = []
        answered: list[Value] = []
        for _ in range(self._draw(st.integers(1, 3))):
            key = self._draw(names)
            if self._draw(flags):
                asked.append(("read", key))
                answered.append(("read", key, self._seen(self.look(key))))
                continue
            self._fresh += 1
            now = self.look(key)
            self._values[key] = (*now, self._fresh) if isinstance(now, tuple) else self._fresh
            asked.append((self._write, key, self._fresh))
            answered.append((self._write, key, self._fresh))
        if not happens:
            self._values = before
        return tuple(asked), tuple(answered)

    def _seen(self, value: Value) -> Value:
        if self._draw(st.integers(0, 5)):
            return value
        if isinstance(value, tuple):
            chosen = st.integers(1, max(1, self._fresh))
            return value[:-1] if self._draw(flags) else tuple({self._draw(chosen): None})
        values: list[int | None] = [None, *range(1, self._fresh + 1)]
        return self._draw(st.sampled_from(values))
