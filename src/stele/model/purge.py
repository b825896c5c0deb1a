"""Purge policies: which old versions a compaction may drop.

    policy  = term { "or" term }            "and" binds tighter than "or"
    term    = factor { "and" factor }
    factor  = "max-history" "=" count | "max-age" "=" age | "(" policy ")"
    count   = whole number from 1
    age     = whole number of microseconds, or with a unit: us ms s m h d

``max-history=K`` says drop for all but the K newest versions of a column, ``max-age=T`` for
versions whose timestamp is below now - T. ``or`` drops what either says, ``and`` only what both
say: ``max-history=3 and max-age=7d`` keeps at least three versions and everything of a week.

Kernels evaluate the disjunctive normal form: a list of clauses (``history_limit``, ``age_us``).
The version at index i (0 = newest) with timestamp t is dropped iff for some clause

    i >= history_limit   and   t < now - age_us

where a missing ``age_us`` counts as always true, as does a ``history_limit`` of 0. Conjunction of
two clauses takes the larger of each number, so the form stays within these pairs. Clauses that
others imply are left out: history limits rise and ages fall along the list, and there are no more
clauses than distinct history limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from stele.errors import InvalidArgument, InvalidSchema
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.durations import format_duration, parse_duration
from stele.model.limits import PURGE_DEPTH_MAX, PURGE_TEXT_BYTES_MAX

HISTORY_MAX = 1_000_000_000
"""More versions than any column will have."""


@dataclass(frozen=True, slots=True)
class MaxHistory:
    """Drop all but the ``versions`` newest."""

    versions: int

    def __str__(self) -> str:
        return f"max-history={self.versions}"


@dataclass(frozen=True, slots=True)
class MaxAge:
    """Drop what is older than ``age_us``."""

    age_us: int

    def __str__(self) -> str:
        return f"max-age={format_duration(self.age_us)}"


@dataclass(frozen=True, slots=True)
class And:
    """Drop what all of ``parts`` would drop."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " and ".join(
            f"({part})" if isinstance(part, Or) else str(part) for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class Or:
    """Drop what any of ``parts`` would drop."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


Node = MaxHistory | MaxAge | And | Or


@dataclass(frozen=True, slots=True)
class Clause:
    """One conjunction of the normal form; see the module's docstring."""

    history_limit: int = 0
    age_us: int | None = None

    def meet(self, other: Clause) -> Clause:
        """The clause that drops what both drop."""
        ages = [age for age in (self.age_us, other.age_us) if age is not None]
        return Clause(max(self.history_limit, other.history_limit), max(ages, default=None))

    def implied_by(self, other: Clause) -> bool:
        """Whether ``other`` drops everything this clause drops."""
        older = other.age_us is None or (self.age_us is not None and self.age_us >= other.age_us)
        return older and self.history_limit >= other.history_limit

    def cutoff(self, now_us: int) -> int:
        """Versions below this timestamp are old enough for this clause."""
        if self.age_us is None:
            return TIMESTAMP_MAX  # every put lies below it
        return max(now_us - self.age_us, TIMESTAMP_MIN)


@dataclass(frozen=True)
class PurgePolicy:
    """A parsed policy. Two are equal when they are written the same, up to spelling."""

    root: Node

    @staticmethod
    def parse(text: str | PurgePolicy) -> PurgePolicy:
        """From text; :class:`InvalidSchema` points at what is wrong with it."""
        if isinstance(text, PurgePolicy):
            return text
        if not isinstance(text, str):
            raise InvalidSchema(f"a purge policy is text, not {type(text).__name__}: {text!r}")
        return PurgePolicy(_Parser(text).parse())

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The normal form, sorted, without clauses that others imply."""
        return _normal_form(self.root)

    def cutoffs(self, now_us: int) -> tuple[tuple[int, int], ...]:
        """The normal form at one instant: pairs (``history_limit``, ``timestamp_cutoff``).

        The version at index ``i`` with timestamp ``t`` is dropped iff ``i >= history_limit and
        t < timestamp_cutoff`` for some pair.
        """
        return tuple((clause.history_limit, clause.cutoff(now_us)) for clause in self.clauses)

    def drops(self, version_index: int, timestamp: int, now_us: int) -> bool:
        """Whether one version may go; the plain form of what the kernels do."""
        return any(
            version_index >= history_limit and timestamp < cutoff
            for history_limit, cutoff in self.cutoffs(now_us)
        )

    def __str__(self) -> str:
        return str(self.root)


def _normal_form(node: Node) -> tuple[Clause, ...]:
    match node:
        case MaxHistory(versions):
            return (Clause(history_limit=versions),)
        case MaxAge(age_us):
            return (Clause(age_us=age_us),)
        case Or(parts):
            return _prune(clause for part in parts for clause in _normal_form(part))
        case And(parts):
            met: tuple[Clause, ...] = (Clause(),)
            for part in parts:
                others = _normal_form(part)
                met = _prune(one.meet(other) for one in met for other in others)
            return met


def _prune(clauses: Iterable[Clause]) -> tuple[Clause, ...]:
    """Drop implied clauses. Done at every step, it keeps the form small whatever the text."""
    distinct = sorted(set(clauses), key=lambda clause: (clause.history_limit, clause.age_us or -1))
    kept: list[Clause] = []
    for clause in distinct:
        # Limits rise along the list, so only what is kept already can imply this one.
        if not any(clause.implied_by(other) for other in kept):
            kept.append(clause)
    return tuple(kept)


_TOKEN = re.compile(r"\s*(?:([()=])|([A-Za-z0-9_-]+))", re.ASCII)


class _Parser:
    """Recursive descent over the grammar of the module's docstring."""

    def __init__(self, text: str) -> None:
        if len(text) > PURGE_TEXT_BYTES_MAX:
            raise InvalidSchema(
                f"purge policy of {len(text)} characters, beginning {text[:32]!r}, is over the "
                f"limit of {PURGE_TEXT_BYTES_MAX}"
            )
        self.text = text
        self.tokens = self._split()
        self.next = 0
        self.depth = 0

    def _split(self) -> list[tuple[str, int]]:
        """Words and signs with their positions, closed by an empty one at the end."""
        tokens = []
        position = 0
        end = len(self.text.rstrip())
        while position < end:
            match = _TOKEN.match(self.text, position)
            if match is None:
                start = position + len(self.text[position:]) - len(self.text[position:].lstrip())
                raise self._error(f"{self.text[start]!r} has no meaning", start)
            tokens.append((match[1] or match[2], match.start(match.lastindex or 0)))
            position = match.end()
        return [*tokens, ("", len(self.text))]

    def _error(self, reason: str, position: int) -> InvalidSchema:
        shown = "".join(c if c.isprintable() else "?" for c in self.text)
        return InvalidSchema(f"purge policy: {reason}\n  {shown}\n  {' ' * position}^")

    def _take(self) -> tuple[str, int]:
        token = self.tokens[self.next]
        self.next = min(self.next + 1, len(self.tokens) - 1)
        return token

    def _accept(self, wanted: str) -> bool:
        if self.tokens[self.next][0] == wanted:
            self.next += 1
            return True
        return False

    def parse(self) -> Node:
        node = self._policy()
        word, position = self._take()
        if word:
            raise self._error(f"'and', 'or' or the end was expected, not {word!r}", position)
        return node

    def _policy(self) -> Node:
        parts = [self._term()]
        while self._accept("or"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else Or(tuple(_spread(Or, parts)))

    def _term(self) -> Node:
        parts = [self._factor()]
        while self._accept("and"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else And(tuple(_spread(And, parts)))

    def _factor(self) -> Node:
        word, position = self._take()
        if word == "(":
            return self._parenthesis(position)
        if word not in ("max-history", "max-age"):
            found = repr(word) if word else "the end"
            raise self._error(f"max-history=K or max-age=T was expected, not {found}", position)
        if not self._accept("="):
            raise self._error(f"{word} needs '=' and a number", self.tokens[self.next][1])
        number, position = self._take()
        try:
            return MaxHistory(_history(number)) if word == "max-history" else MaxAge(_age(number))
        except InvalidArgument as error:
            raise self._error(str(error), position) from None

    def _parenthesis(self, position: int) -> Node:
        self.depth += 1
        if self.depth > PURGE_DEPTH_MAX:
            raise self._error(f"more than {PURGE_DEPTH_MAX} nested parentheses", position)
        node = self._policy()
        if not self._accept(")"):
            raise self._error("a parenthesis is not closed", position)
        self.depth -= 1
        return node


def _spread(kind: type[And | Or], parts: Iterable[Node]) -> Iterator[Node]:
    """Parts of parts of the same kind: ``a or (b or c)`` is ``a or b or c``."""
    for part in parts:
        if isinstance(part, kind):
            yield from part.parts
        else:
            yield part


def _history(number: str) -> int:
    if not number.isdecimal() or not 1 <= int(number[:20]) <= HISTORY_MAX:
        raise InvalidArgument(f"max-history is a whole number from 1 to {HISTORY_MAX}")
    return int(number)


def _age(number: str) -> int:
    age_us = parse_duration(number, "max-age")
    if age_us == 0:
        raise InvalidArgument("max-age is above zero")
    return age_us
