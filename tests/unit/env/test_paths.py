"""Paths: what is refused, and the small arithmetic on them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.env import paths
from stele.errors import InvalidArgument, LimitExceeded


@pytest.mark.parametrize("path", ["", "a", "a/b/c", ".hidden", "a b", "…", "-", "a" * 255])
def test_plain_relative_paths_are_fine(path: str) -> None:
    assert paths.validated(path) == path


@pytest.mark.parametrize(
    "path",
    ["/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "\0", "a\tb", "a\x7f", "\udc80"],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidArgument):
        paths.validated(path)


@pytest.mark.parametrize("path", ["é" * 128, "a" * 256, "/".join(["a"] * 513)])
def test_limits_are_in_bytes(path: str) -> None:
    with pytest.raises(LimitExceeded, match=r"has \d+ bytes, limit \d+"):
        paths.validated(path)


@given(st.text(max_size=20))
def test_what_is_accepted_stays_below_the_root(path: str) -> None:
    try:
        accepted = paths.validated(path)
    except InvalidArgument:
        return
    depth = 0
    for name in accepted.split("/") if accepted else ():
        assert name not in ("", ".", "..")
        depth += 1
    assert depth == len(paths.levels(accepted))
    assert not accepted.startswith("/")


def test_the_parts_of_a_path() -> None:
    assert paths.parent("a/b/c") == "a/b"
    assert paths.parent("a") == paths.parent("") == ""
    assert paths.basename("a/b/c") == "c"
    assert paths.join("a/b", "c") == "a/b/c"
    assert paths.join("", "c") == "c"
    assert paths.levels("a/b/c") == ["a", "a/b", "a/b/c"]
    assert paths.levels("") == []
