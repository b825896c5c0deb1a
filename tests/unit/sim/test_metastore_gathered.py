"""Writes that go out together: one answer, or each by itself."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import InvalidArgument, NotLeader, OutcomeUnknown
from stele.metastore.commands import Executed
from stele.sim.metastore_client import Ask, Client, Sleep
from stele.sim.metastore_gathered import GatheredWrite, write_together
from stele.sim.metastore_service import WriteCall, WriteManyCall
from stele.sim.metastore_world import MetastoreWorld

WRITES = (GatheredWrite(7, "/r/a", 1), GatheredWrite(8, "/r/a", None), GatheredWrite(9, "/r/b", 2))
DONE = Executed(5, succeeded=True, results=(1,))


def play(*answers: Any) -> tuple[list[Any], dict[int, str]]:
    """What the script asks when it is answered like this, and how each operation ended."""
    world = MetastoreWorld(1, 1)
    script = write_together(Client(world, 5), WRITES)
    left, calls = list(answers), []
    want: Any = next(script)
    while True:
        answer = None
        if isinstance(want, Ask):
            calls.append(want.call)
            answer = left.pop(0)
        else:
            assert isinstance(want, Sleep)
        try:
            want = script.send(answer)
        except StopIteration:
            break
    ended = {op.client: str(op.outcome) for op in world.checker.registers.history().operations()}
    return calls, ended


def test_one_answer_tells_of_all() -> None:
    calls, ended = play((DONE, DONE, DONE))
    (call,) = calls
    assert isinstance(call, WriteManyCall)
    identities = [command.identity for command in call.commands]
    assert [(i.sequence, i.answered) for i in identities] == [(1, 0), (2, 0), (3, 0)]
    assert len(set(ended.values())) == 1


@pytest.mark.parametrize("mishap", [None, OutcomeUnknown("lost"), NotLeader("elsewhere")])
def test_without_one_each_is_tried_by_itself_under_the_same_identity(mishap: Any) -> None:
    calls, ended = play(mishap, DONE, DONE, DONE)
    assert [type(call) for call in calls] == [WriteManyCall, WriteCall, WriteCall, WriteCall]
    assert tuple(call.command for call in calls[1:]) == calls[0].commands
    assert ended == play((DONE, DONE, DONE))[1]


def test_a_refusal_is_that_of_one() -> None:
    calls, ended = play((DONE, InvalidArgument("no"), OutcomeUnknown("perhaps")), DONE)
    assert [type(call) for call in calls] == [WriteManyCall, WriteCall]
    assert ended[7] == ended[9] != ended[8]
