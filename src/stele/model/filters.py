"""Filters: tests on the bytes of a row, a qualifier or a value.

A filter tests one field, either against a union of half-open byte ranges, which equality, prefixes
and typed ranges all are, or against a regular expression. Filters of one read all have to hold.

Regular expressions are RE2's (linear time, no look-around, no back-references) over *bytes*: ``.``
is any one byte but a newline, ``\\xff`` one byte, text in the pattern stands for its UTF-8 bytes.
They are searched for anywhere; ``^`` and ``$`` anchor them.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.limits import READ_RANGES_MAX, REGEX_BYTES_MAX
from stele.model.ranges import RowRange, normalise
from stele.model.types import ValueType, value_type
from stele.model.value_ranges import value_ranges

FilterField = Literal["row", "qualifier", "value"]
FILTER_FIELDS: tuple[FilterField, ...] = get_args(FilterField)


class Filter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Holds for a cell iff ``field`` lies in one of ``ranges``, or matches ``regex``.

    Exactly one of the two is given. No ranges at all hold for nothing.
    """

    field: FilterField
    ranges: tuple[RowRange, ...] | None = None
    regex: str | None = None

    def __post_init__(self) -> None:
        if self.field not in FILTER_FIELDS:
            raise InvalidArgument(
                f"a filter tests one of {', '.join(FILTER_FIELDS)}, not {self.field!r:.80}"
            )
        if (self.ranges is None) == (self.regex is None):
            raise InvalidArgument(f"a filter on the {self.field} has either ranges or a regex")
        if self.regex is not None:
            _check_regex(self.field, self.regex)
        if self.ranges is not None:
            msgspec.structs.force_setattr(self, "ranges", _tidy(self.field, self.ranges))

    def mask(self, column: pa.Array) -> pa.BooleanArray:
        """Which elements of a binary array it holds for; the judge of every quicker way."""
        if self.regex is not None:
            return pc.match_substring_regex(column, pattern=self.regex)
        hits = np.zeros(len(column), np.bool_)
        for part in self.ranges or ():
            inside = pc.greater_equal(column, part.start)
            if part.end is not None:
                inside = pc.and_(inside, pc.less(column, part.end))
            hits |= inside.to_numpy(zero_copy_only=False)
        return pa.array(hits)


def _tidy(field: str, ranges: object) -> tuple[RowRange, ...]:
    if not isinstance(ranges, tuple) or not all(isinstance(part, RowRange) for part in ranges):
        raise InvalidArgument(
            f"ranges of a filter on the {field} are a tuple of RowRange, not {ranges!r:.80}"
        )
    if len(ranges) > READ_RANGES_MAX:
        raise LimitExceeded(
            f"{len(ranges)} ranges in a filter on the {field} are over the limit of "
            f"{READ_RANGES_MAX}"
        )
    return normalise(ranges)


def _check_regex(field: str, regex: str) -> None:
    if not isinstance(regex, str):
        raise InvalidArgument(
            f"a regex on the {field} is text, not {type(regex).__name__}: {regex!r:.80}"
        )
    if len(regex) > REGEX_BYTES_MAX:
        raise LimitExceeded(
            f"regex of {len(regex)} characters on the {field} is over the limit of "
            f"{REGEX_BYTES_MAX}"
        )
    try:
        pc.match_substring_regex(pa.array([b""]), pattern=regex)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise InvalidArgument(
            f"regex {regex!r} on the {field} does not compile: {error}"
        ) from error


def _check_bytes(field: str, values: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Filters see encoded keys and values; what text is in bytes, only a schema could say."""
    for value in values:
        if not isinstance(value, bytes):
            raise InvalidArgument(
                f"a filter on the {field} compares bytes, not {type(value).__name__}: {value!r:.80}"
            )
    return values


def equal(field: FilterField, *values: bytes) -> Filter:
    """The field is one of ``values``."""
    return Filter(field, tuple(map(RowRange.row, _check_bytes(field, values))))


def prefix(field: FilterField, *prefixes: bytes) -> Filter:
    """The field begins with one of ``prefixes``."""
    return Filter(field, tuple(map(RowRange.prefix, _check_bytes(field, prefixes))))


def between(field: FilterField, start: bytes = b"", end: bytes | None = None) -> Filter:
    """The field is a byte string ``start <= b < end``."""
    _check_bytes(field, (start,) if end is None else (start, end))
    return Filter(field, () if end is not None and end <= start else (RowRange(start, end),))


def regex(field: FilterField, pattern: str) -> Filter:
    """The field has a part that matches ``pattern``."""
    return Filter(field, regex=pattern)


def value_between(kind: ValueType | str, low: object = None, high: object = None) -> Filter:
    """The value is the encoding of a typed value ``low <= v < high``; ``None`` is open."""
    return Filter("value", value_ranges(value_type(kind), low, high))
