"""Names of fragment files: the writer's session and a sequence number.

A session never uses a number twice and no two sessions have one id, so a name is never used twice,
whatever crashes: no check on the storage is needed, and a leftover of a failed write can never be
mistaken for the file of a later one. From the name alone the collector of garbage knows whose a
file is.

The letters are ``[A-Za-z0-9.-]``, the first a letter or digit: Spark ignores files whose name
begins with ``_`` or ``.``, and nothing here needs quoting anywhere.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache

from stele.errors import InvalidArgument

SUFFIX = ".parquet"
SESSION_LETTERS_MAX = 64
SEQUENCE_MAX = 10**12 - 1
_SEQUENCE_DIGITS = 8
"""Fewer digits are filled up with zeros, so that listings of one session are in order."""

PARSED_MAX = 1_024
"""Names remembered: very many tablets may refer to one file."""

_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_NAME = re.compile(rf"({_SESSION.pattern})-([0-9]{{{_SEQUENCE_DIGITS},12}}){re.escape(SUFFIX)}")


@dataclass(frozen=True, slots=True)
class FragmentName:
    """A name taken apart."""

    session: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.session}-{self.sequence:0{_SEQUENCE_DIGITS}}{SUFFIX}"


@lru_cache(maxsize=PARSED_MAX)
def parse_fragment_name(name: str) -> FragmentName:
    """Take a name apart; ``InvalidArgument`` for one we would not have made."""
    found = _NAME.fullmatch(name)
    if found is None or len(found[1]) > SESSION_LETTERS_MAX:
        raise InvalidArgument(f"{name!r} is not the name of a fragment: SESSION-NUMBER{SUFFIX}")
    parsed = FragmentName(found[1], int(found[2]))
    if str(parsed) != name:
        raise InvalidArgument(f"{name!r} is not the name of a fragment: its number has extra zeros")
    return parsed


class NameSequence:
    """The names one session gives to its files, in order. Threads may share it."""

    def __init__(self, session: str, first: int = 0):
        if not _SESSION.fullmatch(session) or len(session) > SESSION_LETTERS_MAX:
            raise InvalidArgument(
                f"session {session!r} cannot be part of a file name: 1 to {SESSION_LETTERS_MAX} of "
                f"A-Z, a-z, 0-9, '.' and '-', not beginning with '.' or '-'"
            )
        self._session = session
        self._numbers = itertools.count(first)

    def __call__(self) -> str:
        """The next name."""
        sequence = next(self._numbers)
        assert sequence <= SEQUENCE_MAX, "a session has used up its numbers"
        return str(FragmentName(self._session, sequence))
