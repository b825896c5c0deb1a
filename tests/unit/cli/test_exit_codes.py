"""Every error of the tree leads to the code of its branch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stele import errors
from stele.cli import exit_codes
from stele.cli.exit_codes import EXIT_CODES, exit_code_of


def descendants(kind: type[errors.SteleError]) -> Iterator[type[errors.SteleError]]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


BRANCHES = {
    errors.GiveUp: exit_codes.FAILED,
    errors.InvalidArgument: exit_codes.USAGE,
    errors.RetryElsewhere: exit_codes.RETRY_ELSEWHERE,
    errors.RetryLater: exit_codes.RETRY_LATER,
    errors.Stop: exit_codes.STOPPED,
}


@pytest.mark.parametrize(("branch", "code"), BRANCHES.items())
def test_a_branch_has_one_code(branch: type[errors.SteleError], code: int) -> None:
    for kind in [branch, *descendants(branch)]:
        expected = exit_codes.USAGE if issubclass(kind, errors.InvalidArgument) else code
        assert exit_code_of(kind("why")) == expected


def test_every_error_of_the_tree_is_in_a_branch() -> None:
    stray = [kind for kind in descendants(errors.SteleError) if not issubclass(kind, (*BRANCHES,))]
    assert stray == []


def test_codes_are_distinct_and_fit_a_process() -> None:
    codes = [line.code for line in EXIT_CODES]
    assert len(codes) == len(set(codes))
    assert all(0 <= code <= 255 for code in codes)


def test_an_error_of_no_branch_is_a_plain_failure() -> None:
    assert exit_code_of(errors.SteleError("?")) == exit_codes.FAILED
