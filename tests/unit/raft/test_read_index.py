from __future__ import annotations

from stele.raft.read_index import ConfirmedReads, ForwardedReads, PendingRead, ReadRounds

VOTERS = (1, 2, 3)


def read(context: int) -> PendingRead:
    return PendingRead(1, 0, context)


def test_one_round_serves_all_that_wait() -> None:
    rounds = ReadRounds()
    rounds.waiting += [read(7), read(8)]
    rounds.begin(5)
    assert rounds.under_way
    assert rounds.confirm(VOTERS, 1) == []
    rounds.answer(2, rounds.latest)
    assert rounds.confirm(VOTERS, 1) == [ConfirmedReads(5, (read(7), read(8)))]
    assert not rounds.under_way


def test_an_answer_confirms_its_round_and_the_earlier_ones_only() -> None:
    rounds = ReadRounds()
    for context in (1, 2, 3):
        rounds.waiting.append(read(context))
        rounds.begin(context)
    rounds.answer(3, 2)
    rounds.answer(3, 1)
    assert [item.at_index for item in rounds.confirm(VOTERS, 1)] == [1, 2]
    assert len(rounds) == 1
    rounds.answer(2, 3)
    assert [item.at_index for item in rounds.confirm(VOTERS, 1)] == [3]


def test_only_voters_confirm() -> None:
    rounds = ReadRounds()
    rounds.begin(5)
    rounds.answer(9, 1)
    assert rounds.confirm(VOTERS, 1) == []
    assert rounds.confirm((1,), 1) == [ConfirmedReads(5, ())]


def test_lost_leadership_gives_up_all_reads() -> None:
    rounds = ReadRounds()
    rounds.waiting.append(read(1))
    rounds.begin(5)
    rounds.waiting.append(read(2))
    assert len(rounds) == 2
    assert rounds.drain() == [read(1), read(2)]
    assert len(rounds) == 0


def test_forwarded_reads_are_answered_once_and_in_this_life() -> None:
    reads = ForwardedReads(nonce=4)
    reads.unsent += [1, 2, 3]
    assert reads.take_unsent(10) == (1, 2, 3)
    assert reads.answered(5, [1]) == []
    assert reads.answered(4, [2, 2, 9]) == [2]
    reads.unsent.append(8)
    assert reads.drain() == [1, 3, 8]
    assert reads.drain() == []
