"""What one key should do, as sequential objects: the specifications of the linearizability checker.

A model is a start state and a step: given a state and an operation, the state after it, or
`ILLEGAL` when the operation cannot have had that answer there. The answer of an operation of
unknown outcome constrains nothing, the step only says what it would have done. Models are never
asked about operations that failed: those did not happen.

    model          kind      argument                       answer
    Register       get                                      the value, nil when absent
                   put       value                          (ignored)
                   delete                                   whether it was there, or nil
                   cas       [expected new]                 whether it did
    Counter        get                                      the number
                   add       delta                          the number after it, or nil
    FencedLock     acquire   [session mode]                 the token; mode is shared or exclusive
                   release   session                        whether it was held, or nil
                   expire    session                        (ignored)
    Transactions   txn       [compares then else]           [succeeded answers]

A compare is ``[name expected]``; a step of a transaction ``[get name]``, ``[put name value]`` or
``[delete name]``. The answers are those of the gets. To put nil is to delete. A transaction
belongs to one key of the history, inside which it may use any names; where the names are one, it
is a transaction on a key.

States are hashable, and equal exactly when they behave alike. Two methods make the search short
without changing what it finds: ``simplified`` makes values equal that no answer tells apart, and
``demands`` names states that somebody needs and that do not come back. ``strands`` serves the
explanation of a failure: what has nothing to do with it is left out.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from stele.errors import InvalidArgument
from stele.sim.checkers.history import Operation, Outcome, Value, show

State: TypeAlias = Hashable


class _Illegal:
    """The state that no state is."""

    def __repr__(self) -> str:
        return "ILLEGAL"


ILLEGAL: Final = _Illegal()

UNKNOWN = Outcome.UNKNOWN


class Model(Protocol):
    """A sequential object."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of operations that it knows."""

    @property
    def initial(self) -> State:
        """The state before anything happened."""

    def step(self, state: State, operation: Operation) -> State:
        """The state after the operation, or ``ILLEGAL``."""

    def observes_only(self, operation: Operation) -> bool:
        """Whether it leaves every state as it is, so that the others can do without it."""

    def simplified(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """Operations that allow exactly the same orders, with fewer different values in them."""

    def demands(self, operations: Sequence[Operation]) -> Sequence[State]:
        """For each operation the one state in which it is legal, if that is gone once it is left.

        ``ILLEGAL`` where more than one state will do, or where the state may come back.
        """

    def strands(self, operation: Operation) -> Collection[Hashable]:
        """What it is about: a valid history stays valid without all that is about one thing.

        An operation that is about two things ties them together. One that is about nothing in
        particular may notice whatever is missing, and forbids to leave out anything so.
        """


def _unknown_kind(model: object, operation: Operation) -> InvalidArgument:
    name = type(model).__name__
    return InvalidArgument(f"{name} knows no {operation.kind!r} (client {operation.client})")


UNSEEN = "\0unseen"
"""Stands for every value that was written and that no operation reads or compares with."""


class Register:
    """A value, or none; written, deleted and compared.

    Where each value is written once, as workloads should, it is there during one stretch of time,
    and all reads of it lie in that stretch. This settles almost every choice of the search.
    """

    kinds = frozenset({"get", "put", "cas", "delete"})
    initial: State = None

    def step(self, state: State, operation: Operation) -> State:
        kind = operation.kind
        if kind == "get":
            known = operation.outcome is not UNKNOWN
            return ILLEGAL if known and operation.answer != state else state
        if kind == "put":
            return operation.argument
        if kind == "cas":
            expected, new = cast("tuple[Value, Value]", operation.argument)
            matches = expected == state
            if operation.outcome is not UNKNOWN and operation.answer is not matches:
                return ILLEGAL
            return new if matches else state
        if kind == "delete":
            answer = operation.answer
            return None if answer is None or answer is (state is not None) else ILLEGAL
        raise _unknown_kind(self, operation)

    def observes_only(self, operation: Operation) -> bool:
        kind = operation.kind
        return kind == "get" or (kind in ("cas", "delete") and operation.answer is False)

    def simplified(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        seen: set[Value] = {None, UNSEEN}
        for operation in operations:
            if operation.kind == "get":
                seen.add(operation.answer)
            elif operation.kind == "cas":
                seen.add(cast("tuple[Value, Value]", operation.argument)[0])
        return [o if self._written(o) in seen else self._unseen(o) for o in operations]

    def demands(self, operations: Sequence[Operation]) -> Sequence[State]:
        made: dict[State, int] = collections.Counter(
            self._written(operation)
            for operation in operations
            if not self.observes_only(operation)
        )
        made[None] += 1  # the initial state
        needed = [self._needed(operation) for operation in operations]
        return [state if state is ILLEGAL or made[state] <= 1 else ILLEGAL for state in needed]

    def strands(self, operation: Operation) -> Collection[Hashable]:
        if operation.kind == "get" and operation.outcome is not UNKNOWN:
            return (operation.answer,)
        if operation.kind == "cas":
            both = cast("tuple[Value, Value]", operation.argument)
            return both if operation.answer is not False else ()
        if operation.kind == "delete" and operation.answer is True:
            return ()
        return (self._written(operation),)

    @staticmethod
    def _written(operation: Operation) -> Value:
        """What it leaves behind if it has an effect."""
        if operation.kind == "put":
            return operation.argument
        if operation.kind == "cas":
            return cast("tuple[Value, Value]", operation.argument)[1]
        return None

    @staticmethod
    def _unseen(operation: Operation) -> Operation:
        argument: Value = UNSEEN
        if operation.kind == "cas":
            argument = (cast("tuple[Value, Value]", operation.argument)[0], UNSEEN)
        return msgspec.structs.replace(operation, argument=argument)

    @staticmethod
    def _needed(operation: Operation) -> State:
        if operation.outcome is not UNKNOWN:
            if operation.kind == "get":
                return operation.answer
            if operation.kind == "cas" and operation.answer is True:
                return cast("tuple[Value, Value]", operation.argument)[0]
            if operation.kind == "delete" and operation.answer is False:
                return None
        return ILLEGAL


class Counter:
    """A number that is added to. One that only grows passes each number once."""

    kinds = frozenset({"get", "add"})
    initial: State = 0

    def step(self, state: State, operation: Operation) -> State:
        answer = operation.answer
        if operation.kind == "get":
            known = operation.outcome is not UNKNOWN
            return ILLEGAL if known and answer != state else state
        if operation.kind == "add":
            after = cast("int", state) + cast("int", operation.argument)
            return after if answer is None or answer == after else ILLEGAL
        raise _unknown_kind(self, operation)

    def observes_only(self, operation: Operation) -> bool:
        return operation.kind == "get"

    def simplified(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        return operations

    def demands(self, operations: Sequence[Operation]) -> Sequence[State]:
        if any(cast("int", o.argument) < 0 for o in operations if o.kind == "add"):
            return _no_demands(operations)
        return [self._needed(operation) for operation in operations]

    def strands(self, operation: Operation) -> Collection[Hashable]:  # noqa: ARG002
        return ()

    @staticmethod
    def _needed(operation: Operation) -> State:
        if operation.outcome is UNKNOWN or operation.answer is None:
            return ILLEGAL
        answer = cast("int", operation.answer)
        return answer if operation.kind == "get" else answer - cast("int", operation.argument)


def _no_demands(operations: Sequence[Operation]) -> Sequence[State]:
    return [ILLEGAL] * len(operations)


EXCLUSIVE = "exclusive"
SHARED = "shared"

LockState: TypeAlias = tuple[int, str, frozenset[str]]
"""The largest token handed out, the mode it is held in, and by which sessions."""


class FencedLock:
    """One exclusive or many shared holders, each with a token above those of earlier holders.

    Shared holders that one entry of the log let in together have one token. An acquisition that
    timed out or was cancelled is an operation that failed. A session has a lock once: if it holds
    the lock and is given it again, that is illegal.
    """

    kinds = frozenset({"acquire", "release", "expire"})
    initial: State = (0, SHARED, frozenset())

    def step(self, state: State, operation: Operation) -> State:
        token_max, mode, holders = cast("LockState", state)
        if operation.kind == "acquire":
            return self._acquire(token_max, mode, holders, operation)
        if operation.kind not in ("release", "expire"):
            raise _unknown_kind(self, operation)
        session = cast("str", operation.argument)
        held = session in holders
        if operation.kind == "release" and operation.answer not in (None, held):
            return ILLEGAL
        if not held:
            return state
        rest = holders - {session}
        # Held by nobody it has no mode: states that behave alike must be equal.
        return (token_max, mode if rest else SHARED, rest)

    @staticmethod
    def _acquire(
        token_max: int, held_mode: str, holders: frozenset[str], operation: Operation
    ) -> State:
        session, mode = cast("tuple[str, str]", operation.argument)
        together = bool(holders) and mode == SHARED and held_mode == SHARED
        if holders and (session in holders or not together):
            return ILLEGAL
        if operation.outcome is UNKNOWN:
            # Its token is above token_max and not known, so nothing more is asked of later ones.
            return (token_max, mode, holders | {session})
        token = cast("int", operation.answer)
        if token > token_max or (token == token_max and together):
            return (token, mode, holders | {session})
        return ILLEGAL

    def observes_only(self, operation: Operation) -> bool:
        return operation.kind == "release" and operation.answer is False

    def simplified(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        return operations

    def demands(self, operations: Sequence[Operation]) -> Sequence[State]:
        return _no_demands(operations)

    def strands(self, operation: Operation) -> Collection[Hashable]:
        argument = operation.argument
        return (argument[0] if isinstance(argument, tuple) else argument,)


Compare: TypeAlias = tuple[str, Value]
Step: TypeAlias = tuple[Value, ...]
Parts: TypeAlias = tuple[tuple[Compare, ...], tuple[Step, ...], tuple[Step, ...]]


class Transactions:
    """A few names with values, read and changed by compare-and-swap transactions."""

    kinds = frozenset({"txn"})
    initial: State = frozenset()

    def step(self, state: State, operation: Operation) -> State:
        if operation.kind != "txn":
            raise _unknown_kind(self, operation)
        values = dict(cast("frozenset[tuple[str, Value]]", state))
        compares, then, otherwise = cast("Parts", operation.argument)
        holds = all(values.get(name) == expected for name, expected in compares)
        answers, changed = _run(then if holds else otherwise, values)
        if operation.outcome is not UNKNOWN and operation.answer != (holds, answers):
            return ILLEGAL
        return frozenset(values.items()) if changed else state

    def observes_only(self, operation: Operation) -> bool:
        _, then, otherwise = cast("Parts", operation.argument)
        if operation.outcome is UNKNOWN:
            steps = then + otherwise
        else:
            steps = then if cast("tuple[Value, ...]", operation.answer)[0] else otherwise
        return all(step[0] == "get" for step in steps)

    def simplified(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        return operations

    def demands(self, operations: Sequence[Operation]) -> Sequence[State]:
        return _no_demands(operations)

    def strands(self, operation: Operation) -> Collection[Hashable]:
        compares, then, otherwise = cast("Parts", operation.argument)
        return {compare[0] for compare in compares} | {step[1] for step in then + otherwise}


def _run(steps: tuple[Step, ...], values: dict[str, Value]) -> tuple[tuple[Value, ...], bool]:
    """The answers of the gets, and whether anything was written; ``values`` is changed."""
    answers: list[Value] = []
    changed = False
    for step in steps:
        name = cast("str", step[1])
        if step[0] == "get":
            answers.append(values.get(name))
        elif step[0] == "put" and step[2] is not None:
            values[name] = step[2]
            changed = True
        elif step[0] in ("put", "delete"):
            changed |= values.pop(name, None) is not None
        else:
            raise InvalidArgument(f"a transaction knows no step {show(step)}")
    return tuple(answers), changed


MODELS: Mapping[str, Model] = {
    "register": Register(),
    "counter": Counter(),
    "lock": FencedLock(),
    "transactions": Transactions(),
}
