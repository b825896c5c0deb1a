"""Names of fragment files."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.storage.fragment_name import (
    SESSION_LETTERS_MAX,
    SUFFIX,
    FragmentName,
    NameSequence,
    parse_fragment_name,
)

SESSIONS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.-]{0,30}", fullmatch=True)


@given(SESSIONS, st.integers(0, 10**12 - 1))
def test_a_name_can_be_taken_apart(session: str, sequence: int) -> None:
    name = str(FragmentName(session, sequence))
    assert parse_fragment_name(name) == FragmentName(session, sequence)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name)


def test_a_session_gives_names_in_order() -> None:
    names = NameSequence("4f2a", first=7)
    assert [names(), names(), names()] == [f"4f2a-0000000{n}{SUFFIX}" for n in (7, 8, 9)]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".parquet",
        "s.parquet",
        "s-1.parquet",
        "s-00000001",
        "s-00000001.parquet.tmp",
        "-00000001.parquet",
        ".s-00000001.parquet",
        "_s-00000001.parquet",
        "s/../t-00000001.parquet",
        "s-0000000x.parquet",
        "s-000000001.parquet",  # nine digits where eight do
        "s-00000001.parquet\n",
        "s\x00-00000001.parquet",
        "é-00000001.parquet",
        "s" * (SESSION_LETTERS_MAX + 1) + "-00000001.parquet",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="is not the name of a fragment"):
        parse_fragment_name(name)


@pytest.mark.parametrize("session", ["", "-a", ".a", "_a", "a/b", "a b", "a" * 65])
def test_a_session_that_cannot_be_in_a_name_is_refused(session: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be part of a file name"):
        NameSequence(session)
