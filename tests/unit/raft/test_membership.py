from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import AlreadyExists, Corruption, GiveUp, InvalidArgument, NotFound
from stele.raft.membership import (
    AddLearner,
    Change,
    Membership,
    MembershipHistory,
    Promote,
    Relocate,
    Remove,
    apply_change,
    decode_membership,
)

NODES = st.integers(1, 6)
CHANGES = st.one_of(
    st.builds(AddLearner, NODES, st.sampled_from(["", "here:1"])),
    st.builds(Promote, NODES),
    st.builds(Remove, NODES),
    st.builds(Relocate, NODES, st.just("there:2")),
)
GROUP = Membership((1, 2), (3,), {3: "three:1"})


@pytest.mark.parametrize(
    ("voters", "learners"), [((2, 1), ()), ((1, 1), ()), ((0,), ()), ((1,), (3, 2)), ((1, 2), (2,))]
)
def test_ids_are_positive_ascending_and_of_one_kind(
    voters: tuple[int, ...], learners: tuple[int, ...]
) -> None:
    with pytest.raises(InvalidArgument):
        Membership(voters, learners)


@given(st.lists(CHANGES, max_size=20))
def test_any_sequence_of_changes_moves_one_voter_at_a_time(changes: list[Change]) -> None:
    membership = Membership((1,))
    for change in changes:
        try:
            after = apply_change(membership, change)
        except GiveUp:
            continue
        assert len(set(after.voters) ^ set(membership.voters)) <= 1
        assert after.voters
        assert set(after.addresses) <= set(after.members)
        assert decode_membership(after.encode()) == after
        membership = after


def test_equal_memberships_have_equal_bytes() -> None:
    one = Membership((1, 2), (), {1: "a", 2: "b"})
    other = Membership((1, 2), (), {2: "b", 1: "a"})
    assert one.encode() == other.encode()


def test_who_said_nothing_or_has_left_has_no_address() -> None:
    assert GROUP.address_of(3) == "three:1"
    assert GROUP.address_of(1) is None
    assert apply_change(GROUP, Remove(3)).address_of(3) is None


def test_each_change_does_what_it_says() -> None:
    assert apply_change(GROUP, AddLearner(9, "nine:1")) == Membership(
        (1, 2), (3, 9), {3: "three:1", 9: "nine:1"}
    )
    assert apply_change(GROUP, AddLearner(9)) == Membership((1, 2), (3, 9), {3: "three:1"})
    assert apply_change(GROUP, Promote(3)) == Membership((1, 2, 3), (), {3: "three:1"})
    assert apply_change(GROUP, Remove(3)) == Membership((1, 2))
    assert apply_change(GROUP, Remove(1)) == Membership((2,), (3,), {3: "three:1"})
    assert apply_change(GROUP, Relocate(3, "x:1")) == Membership((1, 2), (3,), {3: "x:1"})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (AddLearner(0), InvalidArgument),
        (AddLearner(1), AlreadyExists),
        (AddLearner(3), AlreadyExists),
        (Promote(1), AlreadyExists),
        (Promote(9), NotFound),
        (Remove(9), NotFound),
        (Relocate(9, "x"), NotFound),
    ],
)
def test_senseless_changes_are_refused(change: Change, error: type[Exception]) -> None:
    with pytest.raises(error):
        apply_change(GROUP, change)


def test_the_last_voter_stays() -> None:
    with pytest.raises(InvalidArgument, match="last voter"):
        apply_change(Membership((4,), (5,)), Remove(4))


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x92\x91\x01\x91\x01", b"\x93\x92\x02\x01\x90\x80"]
)
def test_bytes_that_are_no_membership_are_corruption(data: bytes) -> None:
    with pytest.raises(Corruption):
        decode_membership(data)


def test_who_left_is_known_by_the_entry_that_took_it_out_last() -> None:
    history = MembershipHistory(Membership((1,)))
    left = []
    for index, learners in ((3, (2,)), (5, ()), (6, (4,)), (8, (2, 4)), (9, (4,))):
        history.record(index, Membership((1,), learners))
        left.append(history.left_at(2))
    assert left == [0, 5, 5, 0, 9]
    assert history.left_at(1) == 0
    assert history.left_at(7) == 0, "it never was one"
    history.compact(8)
    assert history.left_at(2) == 9
    history.truncate(9)
    assert history.left_at(2) == 0, "it was not decided"
    history.record(9, Membership((1,)))
    history.compact(9)
    assert history.left_at(2) == 0, "so far back nobody remembers"


STEPS = st.lists(
    st.tuples(st.sampled_from(["record", "truncate", "compact"]), st.integers(0, 12)), max_size=25
)


@given(STEPS)
def test_history_agrees_with_a_plain_list(steps: list[tuple[str, int]]) -> None:
    """The model keeps every membership by index and forgets nothing it does not have to."""
    base = Membership((1,))
    history = MembershipHistory(base)
    model: dict[int, Membership] = {0: base}
    start = 0
    for serial, (what, at) in enumerate(steps):
        if what == "record" and at > max(model):
            model[at] = Membership((1,), (serial + 2,))
            history.record(at, model[at])
        elif what == "truncate" and at > start:
            model = {index: kept for index, kept in model.items() if index < at}
            history.truncate(at)
        elif what == "compact" and at > start:
            start = at
            holding = max(index for index in model if index <= at)
            model = {0: model[holding]} | {i: kept for i, kept in model.items() if i > at}
            history.compact(at)
        assert history.current == model[max(model)]
        assert history.current_index == max(model)
        for index in range(start, 15):
            assert history.at(index) == model[max(i for i in model if i <= index)]
