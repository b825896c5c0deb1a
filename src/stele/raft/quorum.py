"""Counting: what a majority of voters has, and how a vote stands.

Pure functions over ids and numbers. Only voters of the caller's own membership ever count; an
answer of a learner, or of a node that is no member any more, is not in the sum.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence


class VoteOutcome(enum.Enum):
    """How an election stands."""

    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority_of(voters: Sequence[int]) -> int:
    """The smallest number of voters such that two such sets always share a node."""
    return len(voters) // 2 + 1


def majority_reached(voters: Sequence[int], reached: Callable[[int], int]) -> int:
    """The largest value that a majority of ``voters`` has reached.

    Sorted upwards, the value at position ``(n - 1) // 2`` has a majority at or above it, and the
    next larger one has not.
    """
    values = sorted(map(reached, voters))
    return values[(len(values) - 1) // 2]


def count_votes(voters: Sequence[int], votes: Mapping[int, bool]) -> VoteOutcome:
    """Won with a majority of grants, lost when too few voters are left for one."""
    answers = [votes[voter] for voter in voters if voter in votes]
    granted = sum(answers)
    missing = len(voters) - len(answers)
    if granted >= majority_of(voters):
        return VoteOutcome.WON
    if granted + missing < majority_of(voters):
        return VoteOutcome.LOST
    return VoteOutcome.PENDING
