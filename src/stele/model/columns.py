"""Column names and sets of columns.

A column is a family and a qualifier, written ``family:qualifier``. The family is one of a table's
few names, plain ASCII; the qualifier is data and may be any bytes, so whatever follows the *first*
colon belongs to it. Text is encoded as UTF-8; names given as bytes are taken as they are.

``info:`` with nothing behind the colon has two readings, and the place decides:

- where one cell is written, it is the column with the empty qualifier, which is a legal column;
- where columns are *selected* (reads, deletes), it is the whole family, as users of Bigtable and
  HBase expect. The column with the empty qualifier alone is selected with ``Column("info", b"")``.

Families that begin with ``_`` are hidden: they are ours, live beside user data and are never
shown or accepted from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.limits import FAMILY_BYTES_MAX, QUALIFIER_BYTES_MAX, READ_COLUMNS_MAX
from stele.model.ranges import EVERYTHING, RowRange, normalise

HIDDEN_PREFIX = "_"

RETRY_FAMILY = "_retry"
"""Holds, beside the first row of a request, who sent it: what makes retries exactly-once."""

HIDDEN_FAMILIES = (RETRY_FAMILY,)
"""All hidden families there are. Each table has them without declaring them."""

HIDDEN_COLUMNS = ColumnSet.of(HIDDEN_FAMILIES)

QualifierRange = RowRange
"""Qualifiers are bytes in the order of bytes, like rows, and have the same half-open ranges."""

_FAMILY = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


def check_family(name: object) -> str:
    """The family name itself, or a typed error that says what is wrong with it."""
    if isinstance(name, bytes):
        name = name.decode("ascii", "backslashreplace")
    if not isinstance(name, str):
        raise InvalidArgument(f"a family name is text, not {type(name).__name__}: {name!r}")
    if not name:
        raise InvalidArgument("a family name is at least one character long")
    if len(name) > FAMILY_BYTES_MAX:
        raise LimitExceeded(
            f"family name of {len(name)} characters, beginning {name[:32]!r}, is over the limit "
            f"of {FAMILY_BYTES_MAX}"
        )
    if _FAMILY.fullmatch(name) is None:
        raise InvalidArgument(f"family name {name!r} has characters outside [A-Za-z0-9_.-]")
    if name.startswith(HIDDEN_PREFIX):
        raise InvalidArgument(
            f"family name {name!r} begins with {HIDDEN_PREFIX!r}, which is reserved"
        )
    return name


def check_qualifier(qualifier: object) -> bytes:
    """The qualifier itself, or a typed error that says what is wrong with it."""
    if not isinstance(qualifier, bytes):
        raise InvalidArgument(
            f"a qualifier is bytes, not {type(qualifier).__name__}: {qualifier!r}"
        )
    if len(qualifier) > QUALIFIER_BYTES_MAX:
        raise LimitExceeded(
            f"qualifier of {len(qualifier)} bytes, beginning {qualifier[:32]!r}, is over the limit "
            f"of {QUALIFIER_BYTES_MAX} bytes"
        )
    return qualifier


def column_name(family: str, qualifier: bytes) -> str | bytes:
    """``family:qualifier`` as text, or as bytes where the qualifier is not UTF-8."""
    raw = family.encode() + b":" + qualifier
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """One exact column. Columns compare in the order of cells."""

    family: str
    qualifier: bytes

    def __post_init__(self) -> None:
        check_family(self.family)
        check_qualifier(self.qualifier)

    @staticmethod
    def parse(name: str | bytes | Column) -> Column:
        """The column that ``family:qualifier`` names, as text or bytes.

        >>> Column.parse("info:age")
        Column(family='info', qualifier=b'age')
        """
        if isinstance(name, Column):
            return name
        if not isinstance(name, str | bytes):
            raise InvalidArgument(
                f"a column name is text or bytes, not {type(name).__name__}: {name!r}"
            )
        return _parse_cached(name) if len(name) <= _CACHED_NAME_LENGTH_MAX else _parse(name)

    @property
    def name(self) -> str | bytes:
        """What :meth:`parse` turns back into this column: text, or bytes if it is not UTF-8."""
        return column_name(self.family, self.qualifier)

    def __str__(self) -> str:
        return f"{self.family}:{self.qualifier.decode('utf-8', 'backslashreplace')}"


_CACHED_NAME_LENGTH_MAX = 128
"""Qualifiers may hold data: caching long names would keep that data in memory."""


def _parse(name: str | bytes) -> Column:
    try:
        raw = name.encode() if isinstance(name, str) else name
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"column name {name!r} cannot be encoded as UTF-8") from error
    family, colon, qualifier = raw.partition(b":")
    if not colon:
        raise InvalidArgument(
            f"column name {name!r} has no colon: write 'family:qualifier', or 'family:' for a "
            "whole family"
        )
    return Column(check_family(family), qualifier)


_parse_cached = lru_cache(maxsize=4_096)(_parse)
"""Programs name the same few columns all the time."""


def qualifier_range(start: bytes = b"", end: bytes | None = None) -> QualifierRange:
    """All qualifiers ``q`` with ``start <= q < end``."""
    if end is not None and end <= start:
        raise InvalidArgument(
            f"qualifier range is empty: its end {end!r} is not above its start {start!r}"
        )
    return QualifierRange(check_qualifier(start), end)


@dataclass(frozen=True, slots=True)
class FamilySelection:
    """What is selected of one family: ``ranges`` of qualifiers, sorted and apart."""

    family: str
    ranges: tuple[QualifierRange, ...] = (EVERYTHING,)

    def __post_init__(self) -> None:
        check_family(self.family)
        object.__setattr__(self, "ranges", normalise(self.ranges))
        if not self.ranges:
            raise InvalidArgument(f"the selection of family {self.family!r} has no qualifiers")

    @staticmethod
    def prefix(family: str, prefix: bytes) -> FamilySelection:
        """The columns of ``family`` whose qualifier begins with ``prefix``."""
        return FamilySelection(family, (QualifierRange.prefix(check_qualifier(prefix)),))

    @staticmethod
    def between(family: str, start: bytes = b"", end: bytes | None = None) -> FamilySelection:
        """The columns of ``family`` with ``start <= qualifier < end``."""
        return FamilySelection(family, (qualifier_range(start, end),))

    @property
    def is_whole_family(self) -> bool:
        return self.ranges == (EVERYTHING,)

    def contains(self, qualifier: bytes) -> bool:
        return any(part.contains(qualifier) for part in self.ranges)


ColumnSelector = str | bytes | Column | FamilySelection
"""What a caller may name in ``columns=``."""


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """The columns a read or a delete asks for, in one canonical form.

    ``families`` is ``None`` for "all there are"; otherwise it is sorted by family, one entry for
    each, and overlapping requests have been joined. An empty tuple selects nothing.
    """

    families: tuple[FamilySelection, ...] | None = None

    def __post_init__(self) -> None:
        if self.families is None:
            return
        ranges: dict[str, list[QualifierRange]] = {}
        for part in self.families:
            ranges.setdefault(part.family, []).extend(part.ranges)
        total = sum(map(len, ranges.values()))
        if total > READ_COLUMNS_MAX:
            raise LimitExceeded(
                f"{total} column ranges in one read; the limit is {READ_COLUMNS_MAX}"
            )
        canonical = (FamilySelection(name, tuple(ranges[name])) for name in sorted(ranges))
        object.__setattr__(self, "families", tuple(canonical))

    @staticmethod
    def parse(names: ColumnSelector | Iterable[ColumnSelector] | None) -> ColumnSelection:
        """``None`` is everything; otherwise names such as ``info:age`` and ``info:``.

        >>> selection = ColumnSelection.parse(["info:", "a:x"])
        >>> selection.contains("info", b"age"), selection.contains("a", b"y")
        (True, False)
        """
        if names is None:
            return EVERY_COLUMN
        if isinstance(names, str | bytes | Column | FamilySelection):
            names = (names,)
        if not isinstance(names, Iterable):
            raise InvalidArgument(f"columns is a list of names, not {names!r:.80}")
        return ColumnSelection(tuple(map(_select, names)))

    @property
    def is_everything(self) -> bool:
        return self.families is None

    @property
    def column_set(self) -> ColumnSet:
        """The families that hold anything selected."""
        if self.families is None:
            return ALL_COLUMNS
        return ColumnSet.of(part.family for part in self.families)

    def ranges(self, family: str) -> tuple[QualifierRange, ...]:
        """The selected qualifiers of ``family``, sorted and apart; empty if there are none."""
        if self.families is None:
            return (EVERYTHING,)
        return next((part.ranges for part in self.families if part.family == family), ())

    def contains(self, family: str, qualifier: bytes) -> bool:
        return any(part.contains(qualifier) for part in self.ranges(family))


EVERY_COLUMN = ColumnSelection()


def _select(selector: ColumnSelector) -> FamilySelection:
    if isinstance(selector, FamilySelection):
        return selector
    column = Column.parse(selector)
    if not isinstance(selector, Column) and not column.qualifier:
        return FamilySelection(column.family)
    return FamilySelection(column.family, (QualifierRange.row(column.qualifier),))
