from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from stele.raft.quorum import VoteOutcome, count_votes, majority_of, majority_reached

VOTERS = st.integers(1, 7).map(lambda count: tuple(range(1, count + 1)))


@given(VOTERS)
def test_two_majorities_share_a_voter(voters: tuple[int, ...]) -> None:
    majorities = list(combinations(voters, majority_of(voters)))
    assert all(set(a) & set(b) for a in majorities for b in majorities)


@given(VOTERS)
def test_a_majority_is_as_small_as_it_can_be(voters: tuple[int, ...]) -> None:
    fewer = majority_of(voters) - 1
    assert 2 * fewer <= len(voters)


@given(VOTERS)
def test_one_voter_more_or_less_keeps_majorities_overlapping(voters: tuple[int, ...]) -> None:
    more = (*voters, len(voters) + 1)
    for small in combinations(voters, majority_of(voters)):
        for large in combinations(more, majority_of(more)):
            assert set(small) & set(large)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=7))
def test_majority_reached_is_the_largest_value_most_have(values: list[int]) -> None:
    voters = range(len(values))
    reached = majority_reached(voters, values.__getitem__)
    need = majority_of(voters)
    assert sum(value >= reached for value in values) >= need
    assert sum(value >= reached + 1 for value in values) < need


@given(VOTERS, st.dictionaries(st.integers(1, 9), st.booleans()))
def test_votes_are_won_or_lost_only_when_nothing_can_change_it(
    voters: tuple[int, ...], votes: dict[int, bool]
) -> None:
    granted = sum(votes.get(voter, False) for voter in voters)
    best = sum(votes.get(voter, True) for voter in voters)
    outcome = count_votes(voters, votes)
    assert (outcome is VoteOutcome.WON) == (granted >= majority_of(voters))
    assert (outcome is VoteOutcome.LOST) == (best < majority_of(voters))


def test_strangers_do_not_vote() -> None:
    assert count_votes((1, 2, 3), {1: True, 8: True, 9: True}) is VoteOutcome.PENDING
