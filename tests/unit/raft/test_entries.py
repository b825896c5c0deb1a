from __future__ import annotations

import pytest

from stele.errors import Corruption
from stele.raft.entries import (
    ENTRY_OVERHEAD_BYTES,
    Entry,
    EntryKind,
    HardState,
    Snapshot,
    StoredState,
    bootstrap,
    check_stored,
    size_of,
)
from stele.raft.membership import Membership, decode_membership


def entry(index: int, term: int) -> Entry:
    return Entry(term, index, EntryKind.DATA, b"")


def test_founders_start_with_their_membership_committed() -> None:
    group = Membership((1, 2, 3), (), {1: "a:1"})
    stored = bootstrap(group)
    check_stored(stored)
    assert stored.hard_state == HardState(term=1, vote=0, commit=1)
    assert [decode_membership(first.data) for first in stored.entries] == [group]


def test_an_entry_counts_more_than_its_payload() -> None:
    assert size_of(Entry(1, 1, EntryKind.DATA, b"abc")) == 3 + ENTRY_OVERHEAD_BYTES


@pytest.mark.parametrize(
    ("stored", "complaint"),
    [
        (StoredState(HardState(2), entries=(entry(2, 1),)), "where 1 belongs"),
        (StoredState(HardState(2), entries=(entry(1, 1), entry(3, 1))), "where 2 belongs"),
        (StoredState(HardState(2), Snapshot(3, 1), (entry(5, 1),), 3), "where 4 belongs"),
        (StoredState(HardState(2), Snapshot(3, 1), (entry(4, 1),), 2), "state is at 2"),
        (StoredState(HardState(2), entries=(entry(1, 2), entry(2, 1))), "goes back"),
        (StoredState(HardState(2), Snapshot(3, 2), (entry(4, 1),)), "goes back"),
        (StoredState(HardState(1), entries=(entry(1, 2),)), "reaches term 2"),
        (StoredState(HardState(1, 0, 2), entries=(entry(1, 1),)), "commit index 2"),
        (StoredState(HardState(1), entries=(entry(1, 1),), applied=2), "applied index 2"),
    ],
)
def test_impossible_states_are_refused(stored: StoredState, complaint: str) -> None:
    with pytest.raises(Corruption, match=complaint):
        check_stored(stored)
