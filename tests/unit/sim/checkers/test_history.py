"""Events become operations; several recorders become one history."""

from __future__ import annotations

import threading

import pytest

from stele.env.memory import MemoryClock
from stele.errors import InvalidArgument
from stele.sim.checkers.history import (
    NEVER,
    Amended,
    Answered,
    Event,
    History,
    Invoked,
    Lost,
    Operation,
    Outcome,
    Recorder,
    Refused,
    Value,
    freeze,
    merged,
    show,
)
from tests.unit.sim.checkers import notation


def put(client: int, value: int, outcome: Outcome, start: int, end: int) -> Operation:
    return Operation(client, "put", "k", value, None, outcome, start, end)


def test_the_three_outcomes_and_none() -> None:
    operations = notation.operations("a>put/1 b>put/2 c>put/3 d>put/4 b! a< c?")
    assert operations == [
        put(0, 1, Outcome.OK, 0, 5),
        put(1, 2, Outcome.FAILED, 1, 4),
        put(2, 3, Outcome.UNKNOWN, 2, NEVER),
        put(3, 4, Outcome.UNKNOWN, 3, NEVER),
    ]


def test_precedence_is_the_order_of_recording() -> None:
    first, second, third = notation.operations("a>put/1 b>put/2 a< a>put/3 b< a<")
    assert first.precedes(third)
    assert not first.precedes(second)
    assert not second.precedes(third)
    assert not third.precedes(first)


def test_what_never_ended_precedes_nothing() -> None:
    lost, later = notation.operations("a>put/1 a? a>put/2 a<")
    assert not lost.precedes(later)


def test_an_amended_argument_replaces_the_first() -> None:
    events: list[Event] = [
        Invoked(0, 1, "txn", "", None),
        Amended(1, 1, (("append", "x", 1),)),
        Amended(2, 1, (("append", "x", 2),)),
        Lost(3, 1),
    ]
    [operation] = History(events).operations()
    assert operation.argument == (("append", "x", 2),)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([Invoked(0, 1, "get", "", None), Invoked(1, 1, "get", "", None)], "two operations"),
        ([Answered(0, 1, None)], "nothing under way"),
        ([Refused(0, 1)], "nothing under way"),
        ([Lost(0, 1)], "nothing under way"),
        ([Amended(0, 1, None)], "amends nothing"),
    ],
)
def test_events_that_make_no_sense_are_refused(events: list[Event], said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"client 1 .*{said}"):
        History(events).operations()


def test_merging_goes_by_time() -> None:
    one = History([Invoked(10, 7, "put", "k", 1), Answered(20, 7, None)])
    two = History([Invoked(15, 7, "put", "k", 2), Answered(19, 7, None)])
    three = History([Invoked(21, 7, "put", "k", 3), Lost(30, 7)])
    first, second, third = merged([three, two, one])
    assert [first.argument, second.argument, third.argument] == [1, 2, 3]
    assert len({first.client, second.client, third.client}) == 3
    assert first.precedes(third)
    assert second.precedes(third)
    assert not second.precedes(first)
    assert third.end == NEVER


def test_equal_times_overlap() -> None:
    one = History([Invoked(10, 1, "put", "k", 1), Answered(20, 1, None)])
    two = History([Invoked(20, 1, "put", "k", 2), Answered(20, 1, None)])
    first, second = merged([one, two])
    assert not first.precedes(second)
    assert not second.precedes(first)


def test_a_client_keeps_its_number_in_a_merged_history() -> None:
    events: list[Event] = [
        Invoked(1, 4, "get", "", None), Answered(2, 4, None),
        Invoked(3, 4, "get", "", None), Answered(4, 4, None),
    ]  # fmt: skip
    assert [operation.client for operation in merged([History(events)])] == [0, 0]


def test_a_recorder_notes_times_and_order() -> None:
    clock = MemoryClock()
    start = clock.monotonic_us()
    recorder = Recorder(clock)
    recorder.invoke(1, "txn", argument=[["r", "x"]])
    clock.advance(5)
    recorder.invoke(2, "put", "k", 1)
    recorder.amend(1, [["append", "x", 1]])
    recorder.ok(2)
    recorder.unknown(1)
    recorder.invoke(1, "get", "k")
    recorder.failed(1)
    assert recorder.history({"seed": 3}) == History(
        (
            Invoked(start, 1, "txn", "", (("r", "x"),)),
            Invoked(start + 5, 2, "put", "k", 1),
            Amended(start + 5, 1, (("append", "x", 1),)),
            Answered(start + 5, 2, None),
            Lost(start + 5, 1),
            Invoked(start + 5, 1, "get", "k", None),
            Refused(start + 5, 1),
        ),
        {"seed": 3},
    )


def test_a_recorder_refuses_two_operations_of_a_client() -> None:
    recorder = Recorder(MemoryClock())
    recorder.invoke(1, "get")
    with pytest.raises(AssertionError, match="client 1 has an operation under way"):
        recorder.invoke(1, "get")


def test_a_recorder_refuses_an_outcome_of_nothing() -> None:
    recorder = Recorder(MemoryClock())
    for outcome in (recorder.ok, recorder.failed, recorder.unknown):
        with pytest.raises(AssertionError, match="client 1 has nothing under way"):
            outcome(1)
    with pytest.raises(AssertionError, match="client 1 has nothing under way"):
        recorder.amend(1, None)


def test_threads_share_a_recorder() -> None:
    noted: list[Event] = []
    recorder = Recorder(MemoryClock(), noted.append)

    def work(client: int) -> None:
        for number in range(200):
            recorder.invoke(client, "put", "k", number)
            recorder.ok(client)

    threads = [threading.Thread(target=work, args=(client,)) for client in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = recorder.history()
    assert list(history.events) == noted
    assert len(history.operations()) == 800


@pytest.mark.parametrize("value", [1.5, b"x", {"a": 1}, [1, {2}], object()])
def test_values_that_a_history_cannot_hold_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="a history holds no"):
        freeze(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "nil"), (True, "True"), (5, "5"), ("x", "x"), ((1, ("a", None)), "[1 [a nil]]")],
)
def test_values_are_shown(value: Value, shown: str) -> None:
    assert show(value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a>get a<1", "get -> 1"),
        ("a>get a<", "get"),
        ("a>put/1 a<", "put 1"),
        ("a>cas/[1 2] a<yes", "cas [1 2] -> True"),
        ("a>put/1 a?", "put 1 (unknown)"),
        ("a>put/1 a!", "put 1 (failed)"),
    ],
)
def test_operations_are_shown(text: str, shown: str) -> None:
    [operation] = notation.operations(text)
    assert str(operation) == shown
