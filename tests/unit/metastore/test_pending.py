"""Requests that wait for their entry."""

from __future__ import annotations

from stele.errors import OutcomeUnknown, Unavailable
from stele.metastore.commands import Done, Effects
from stele.metastore.outbox import Outbox
from stele.metastore.pending import PendingWrites
from stele.raft import Entry, EntryKind, Proposed


def entry(index: int, term: int = 1) -> Entry:
    return Entry(term, index, EntryKind.DATA, b"")


def effects(index: int) -> Effects:
    return Effects(index, Done(index))


def test_each_request_gets_the_answer_of_its_own_entry() -> None:
    out = Outbox()
    pending = PendingWrites(out)
    pending.add(Proposed(1, 5, 6), [(50, None), (60, None)])
    pending.settle([entry(4), entry(5), entry(6)], [effects(4), effects(5), effects(6)])
    assert [(a.request, a.value) for a in out.answers] == [(50, Done(5)), (60, Done(6))]
    assert len(pending) == 0


def test_another_leaders_entry_at_the_index_means_that_it_never_will_happen() -> None:
    out = Outbox()
    pending = PendingWrites(out)
    pending.add(Proposed(1, 5, 5), [(50, None)])
    pending.settle([entry(5, term=2)], [effects(5)])
    assert not out.answers
    assert isinstance(out.refusals[0].error, Unavailable)


def test_with_leadership_goes_the_knowledge_of_the_outcome() -> None:
    out = Outbox()
    pending = PendingWrites(out)
    pending.add(Proposed(1, 5, 6), [(50, None), (60, None)])
    pending.abandon()
    assert [r.request for r in out.refusals] == [50, 60]
    assert all(isinstance(r.error, OutcomeUnknown) for r in out.refusals)
    pending.settle([entry(5)], [effects(5)])
    assert not out.answers


def test_a_forgotten_request_is_not_answered() -> None:
    out = Outbox()
    pending = PendingWrites(out)
    pending.add(Proposed(1, 5, 6), [(50, None), (60, None)])
    out.forgotten.add(50)
    pending.settle([entry(5), entry(6)], [effects(5), effects(6)])
    assert [a.request for a in out.answers] == [60]


def test_a_row_of_entries_has_one_answer_when_the_last_is_applied() -> None:
    out = Outbox()
    pending = PendingWrites(out)
    pending.add(Proposed(1, 5, 8), [(50, 3), (60, None)])
    pending.settle([entry(4), entry(5)], [effects(4), effects(5)])
    pending.settle([entry(6)], [effects(6)])
    assert not out.answers
    pending.settle([entry(7), entry(8)], [effects(7), effects(8)])
    assert [(a.request, a.value) for a in out.answers] == [
        (50, [Done(5), Done(6), Done(7)]),
        (60, Done(8)),
    ]
    assert len(pending) == 0


def test_a_row_that_was_overwritten_from_its_middle_on_is_refused_once() -> None:
    out = Outbox()
    pending = PendingWrites(out)
    pending.add(Proposed(1, 5, 7), [(50, 3)])
    pending.settle([entry(5), entry(6), entry(7, term=2)], [effects(5), effects(6), effects(7)])
    assert not out.answers
    assert [r.request for r in out.refusals] == [50]
    assert len(pending) == 0
