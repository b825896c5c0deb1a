"""Scripts that ask, wait and try again."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import OutcomeUnknown, SessionExpired, Unavailable
from stele.metastore.commands import Done, Execute
from stele.protocol.metastore_values import Put
from stele.sim.metastore_client import (
    READ_TRIES,
    TRIES,
    Ask,
    Client,
    Failed,
    Script,
    Sleep,
    Unknown,
)
from stele.sim.metastore_service import JoinCall, ReadResult
from stele.sim.metastore_world import MetastoreWorld


def client() -> Client:
    return Client(MetastoreWorld(1, 1), 4)


def fed(script: Script[Any], answers: list[Any]) -> Any:
    """Run a script with these answers to its calls."""
    want = next(script)
    left = list(answers)
    while True:
        try:
            want = script.send(None if isinstance(want, Sleep) else left.pop(0))
        except StopIteration as stop:
            assert not left
            return stop.value


def write(one: Client, answers: list[Any]) -> Any:
    return fed(one.write(Execute(one.identity(), (Put("/a", b""),))), answers)


def test_a_write_is_tried_until_there_is_an_answer() -> None:
    done = Done(5)
    assert write(client(), [Unavailable(), None, OutcomeUnknown(), done]) is done


def test_a_write_that_may_have_got_through_is_unknown() -> None:
    with pytest.raises(Unknown):
        write(client(), [None] + [Unavailable()] * (TRIES - 1))
    with pytest.raises(Failed):
        write(client(), [Unavailable()] * TRIES)


def test_a_refusal_for_good_is_a_failure() -> None:
    with pytest.raises(Failed, match="over"):
        write(client(), [None, SessionExpired("over")])


def test_reads_are_tried_at_others() -> None:
    found = ReadResult(3, ())
    assert fed(client().read(), [None, Unavailable(), found]) is found
    with pytest.raises(Failed):
        fed(client().read(), [None] * READ_TRIES)


def test_other_questions_end_without_an_answer_or_with_a_refusal() -> None:
    over = SessionExpired("over")
    assert fed(client().ask(JoinCall(2), 2), [None, Unavailable()]) is None
    assert fed(client().ask(JoinCall(2), 2), [over]) is over
    assert fed(client().ask(JoinCall(2), 2), [7]) == 7


def test_sequences_grow_and_say_that_all_before_is_settled() -> None:
    one = client()
    first, second = one.identity(), one.identity()
    assert (first.sequence, first.answered) == (1, 0)
    assert (second.sequence, second.answered) == (2, 1)


def test_a_script_gets_answers_and_ends_its_patience() -> None:
    one = client()
    heard: list[Any] = []

    def script() -> Script[None]:
        heard.append((yield Ask(99, JoinCall(2), 20)))
        yield Sleep(5)
        heard.append("slept")

    one.run(script())
    one.receive(1, ("answer", 77, "of another call", 1))
    while one.world.now_ms < 60:
        one.world.step()
    assert heard == [None, "slept"]


def test_answers_carry_a_hint() -> None:
    one = client()
    heard: list[Any] = []

    def script() -> Script[None]:
        heard.append((yield Ask(99, JoinCall(2), 20)))

    one.run(script())
    one.receive(1, ("answer", 1, "yes", 1))
    assert heard == ["yes"]
    assert {one.pick() for _ in range(20)} == {1}
