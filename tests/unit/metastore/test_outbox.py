"""Where a node collects what is to be done."""

from __future__ import annotations

from stele.errors import Unavailable
from stele.metastore.events import Answer, ServeReads
from stele.metastore.outbox import Outbox
from stele.raft import NOBODY, HardState, Message, Ready
from stele.raft.messages import AppendAccepted, Heartbeat

BEAT = Heartbeat(1, 2, 1, 0, 0)
ACCEPTED = AppendAccepted(1, 2, 1, 5)


def ready(
    *, hard: HardState | None = None, after: tuple[Message, ...] = (), sync: bool = False
) -> Ready:
    return Ready(4, hard, None, (), sync, (), after, (), (), (), ())


def test_nothing_is_nothing() -> None:
    assert Outbox().take(None, NOBODY) is None
    assert Outbox().take(ready(), NOBODY) is None


def test_everything_goes_out_once() -> None:
    out = Outbox()
    out.send.append(BEAT)
    out.answer(1, "yes")
    out.refuse(2, Unavailable())
    out.reads.append(ServeReads((3,), 9))
    todo = out.take(None, NOBODY)
    assert todo is not None
    assert todo.send == (BEAT,)
    assert todo.answers == (Answer(1, "yes"),)
    assert todo.refusals[0].request == 2
    assert todo.reads == (ServeReads((3,), 9),)
    assert out.take(None, NOBODY) is None


def test_messages_that_rest_on_the_disk_wait_for_it() -> None:
    out = Outbox()
    out.after_sync.append((4, (ACCEPTED,)))
    out.after_sync.append((6, (ACCEPTED, ACCEPTED)))
    out.release(3)
    assert out.send == []
    out.release(5)
    assert out.send == [ACCEPTED]
    out.release(6)
    assert len(out.send) == 3


def test_a_lost_disk_silences_everything_that_could_rest_on_it() -> None:
    out = Outbox()
    out.send.append(BEAT)
    out.after_sync.append((4, (ACCEPTED,)))
    out.reads.append(ServeReads((3,), 9))
    out.fall_silent()
    out.release(9)
    assert out.take(None, NOBODY) is None


def test_answers_that_wait_make_a_group_even_without_contents() -> None:
    todo = Outbox().take(ready(after=(ACCEPTED,)), NOBODY)
    assert todo is not None
    assert [(g.number, g.needs_sync) for g in todo.persist] == [(4, True)]


def test_a_commit_index_alone_needs_no_sync() -> None:
    todo = Outbox().take(ready(hard=HardState(1, 0, 3)), NOBODY)
    assert todo is not None
    assert [(g.hard_state, g.needs_sync) for g in todo.persist] == [(HardState(1, 0, 3), False)]


def test_a_report_waits_for_a_leader_to_be_told() -> None:
    out = Outbox()
    out.report_space = True
    assert out.take(None, NOBODY) is None
    todo = out.take(None, 3)
    assert todo is not None
    assert todo.report_space == 3
    assert out.take(None, 3) is None


def test_what_nobody_waits_for_is_dropped_once() -> None:
    out = Outbox(forgotten={1, 2, 3})
    out.answer(1, "late")
    out.refuse(2, Unavailable())
    out.serve(ServeReads((3, 4), 9))
    assert out.forgotten == set()
    assert (out.answers, out.refusals) == ([], [])
    assert out.reads == [ServeReads((4,), 9)]
    out.forgotten.add(5)
    out.serve(ServeReads((5,), 9))
    out.answer(1, "another request of that number")
    assert out.reads == [ServeReads((4,), 9)]
    assert len(out.answers) == 1


def test_answers_can_be_taken_ahead_of_the_rest() -> None:
    out = Outbox()
    out.answer(1, "one")
    out.refuse(2, Unavailable("no"))
    assert [answer.request for answer in out.take_answers()] == [1]
    assert not out.take_answers()
    instructions = out.take(None, 1)
    assert instructions is not None
    assert [refusal.request for refusal in instructions.refusals] == [2]
    assert not instructions.answers
    assert out.take(None, 1) is None
