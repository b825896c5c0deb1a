from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import Corruption, InvalidArgument
from stele.raft.entries import (
    ENTRY_OVERHEAD_BYTES,
    Entry,
    EntryKind,
    HardState,
    Snapshot,
    StoredState,
    size_of,
)
from stele.raft.log import RaftLog
from stele.raft.membership import Membership

TERMS = st.lists(st.integers(1, 5), max_size=12).map(sorted)


def entries_of(terms: list[int], first: int = 1) -> tuple[Entry, ...]:
    """Entries of these terms, from index ``first`` on."""
    return tuple(
        Entry(term, first + offset, EntryKind.DATA, b"%d" % term)
        for offset, term in enumerate(terms)
    )


def make_log(terms: list[int], *, commit: int = 0, base: int = 0, base_term: int = 0) -> RaftLog:
    stored = StoredState(
        HardState(9, 0, max(commit, base)),
        Snapshot(base, base_term),
        entries_of(terms, base + 1),
        applied=base,
    )
    return RaftLog(stored)


def terms_of(log: RaftLog) -> list[int]:
    return [entry.term for entry in log.slice(log.first_index, log.last_index, 1 << 30)]


@given(TERMS, st.integers(0, 12), st.integers(0, 6))
def test_the_hint_is_the_last_entry_of_no_later_term(
    terms: list[int], index: int, term: int
) -> None:
    log = make_log(terms)
    fitting = [i for i in range(1, min(index, len(terms)) + 1) if terms[i - 1] <= term]
    assert log.last_not_above(index, term) == max(fitting, default=0)


@given(TERMS, TERMS)
def test_hints_never_skip_a_common_entry(ours: list[int], theirs: list[int]) -> None:
    """Whatever two logs share, the search from the end of one leads to it or stays behind it."""
    leader, follower = make_log(theirs), make_log(ours)
    common = 0
    while common < min(len(ours), len(theirs)) and ours[common] == theirs[common]:
        common += 1
    prev = leader.last_index
    hint = follower.last_not_above(prev, leader.term_at(prev) or 0)
    assert hint >= min(common, prev)
    assert leader.last_not_above(hint, follower.term_at(hint) or 0) >= min(common, prev)


@given(TERMS, st.integers(0, 12), TERMS)
def test_merge_takes_over_and_cuts_only_at_a_conflict(
    ours: list[int], prev: int, theirs: list[int]
) -> None:
    prev = min(prev, len(ours))
    floor = ours[prev - 1] if prev else 1
    sent = [max(term, floor) for term in theirs]
    log = make_log(ours)
    covered = log.merge(prev, entries_of(sent, prev + 1))
    kept = ours[prev:]
    agree = sent[: len(kept)] == kept[: len(sent)]
    expected = ours if agree and len(sent) <= len(kept) else ours[:prev] + sent
    assert terms_of(log) == expected
    assert covered == prev + len(sent)
    log.check_invariants()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=10), st.integers(1, 300))
def test_a_slice_holds_one_entry_or_what_fits(sizes: list[int], bytes_max: int) -> None:
    entries = [Entry(1, i, EntryKind.DATA, b"x" * size) for i, size in enumerate(sizes, 1)]
    log = RaftLog(StoredState(HardState(1), Snapshot(), tuple(entries)))
    part = log.slice(1, log.last_index, bytes_max)
    assert part == tuple(entries[: len(part)])
    assert len(part) == 1 or sum(map(size_of, part)) <= bytes_max
    if 0 < len(part) < len(entries):
        assert sum(map(size_of, part)) + size_of(entries[len(part)]) > bytes_max


def test_a_slice_behind_the_end_is_empty() -> None:
    assert make_log([1, 1]).slice(3, 2, 100) == ()


def test_terms_are_known_from_the_start_of_the_log_to_its_end() -> None:
    log = make_log([3, 4], base=5, base_term=2)
    assert [log.term_at(index) for index in range(4, 9)] == [None, 2, 3, 4, None]
    assert (log.first_index, log.last_index, log.last_term) == (6, 7, 4)
    assert make_log([], base=5, base_term=2).last_term == 2
    assert log.matches(5, 2)
    assert not log.matches(7, 3)
    assert log.last_not_above(3, 9) == 3


def test_sizes_count_the_overhead() -> None:
    log = make_log([1, 1, 1])
    assert log.bytes_between(1, 3) == 2 * (1 + ENTRY_OVERHEAD_BYTES)
    assert log.bytes_between(3, 3) == 0


def test_commit_only_grows_and_stays_within_the_log() -> None:
    log = make_log([1, 1, 1], commit=2)
    log.commit_to(1)
    assert log.commit == 2
    log.commit_to(3)
    assert log.commit == 3
    with pytest.raises(Corruption, match="log lost"):
        log.commit_to(4)


def test_only_durable_entries_are_handed_out_and_only_once() -> None:
    log = make_log([1])
    log.append(entries_of([1, 1], 2))
    log.commit_to(3)
    assert [entry.index for entry in log.take_committed(1 << 20)] == [1]
    assert log.take_committed(1 << 20) == ()
    assert [entry.index for entry in log.take_unwritten()] == [2, 3]
    log.ledger.begin(1, 3, 1)
    assert log.take_unwritten() == ()
    log.ledger.acknowledge(1)
    assert [entry.index for entry in log.take_committed(1)] == [2]
    assert [entry.index for entry in log.take_committed(1)] == [3]


def test_a_restart_takes_up_where_the_state_machine_is() -> None:
    stored = StoredState(HardState(1, 0, 1), Snapshot(), entries_of([1, 1, 1]), applied=2)
    log = RaftLog(stored)
    assert (log.commit, log.handed, log.applied) == (2, 2, 2)


def test_applied_is_never_more_than_was_handed_out() -> None:
    log = make_log([1, 1], commit=2)
    log.take_committed(1)
    with pytest.raises(AssertionError):
        log.applied_to(2)
    log.applied_to(1)
    assert log.applied == 1


def test_compaction_keeps_the_rest_and_the_membership() -> None:
    group = Membership((1, 2))
    entries = (
        *entries_of([1]),
        Entry(1, 2, EntryKind.MEMBERSHIP, group.encode()),
        *entries_of([2, 2], 3),
    )
    log = RaftLog(StoredState(HardState(2, 0, 4), Snapshot(), entries, applied=3))
    assert log.compact(3) == Snapshot(3, 2, group)
    assert (log.base_index, terms_of(log), log.membership) == (3, [2], group)
    assert log.compact(2) == Snapshot(3, 2, group)
    assert log.describe(3) == Snapshot(3, 2, group)
    for index in (2, 4):
        with pytest.raises(InvalidArgument, match="no snapshot"):
            log.describe(index)
    log.check_invariants()


def test_a_snapshot_replaces_everything() -> None:
    log = make_log([1, 1, 1], commit=1)
    log.restore(Snapshot(7, 3, Membership((4,))))
    assert (log.base_index, log.last_index, log.commit, log.applied) == (7, 7, 7, 7)
    assert log.membership == Membership((4,))
    assert log.take_committed(100) == ()
    log.check_invariants()


def test_nothing_committed_is_ever_cut() -> None:
    log = make_log([1, 1, 1], commit=2)
    with pytest.raises(AssertionError):
        log.merge(1, entries_of([2], 2))
