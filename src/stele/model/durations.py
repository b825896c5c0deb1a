"""Durations: integers in microseconds, or text with a unit (``"24h"``, ``"15m"``, ``"7d"``).

Microseconds because timestamps and txns are microseconds: a duration is what is subtracted from
one. The text form is a whole number and one unit, so that every duration has exactly one shortest
canonical spelling and nothing is ever rounded.
"""

from __future__ import annotations

import datetime
import re

from stele.errors import InvalidArgument

US_PER_UNIT = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
"""The units, smallest first."""

DURATION_US_MAX = 1_000_000 * US_PER_UNIT["d"]
"""About 2,700 years: far beyond use, and far enough from 2**63 that sums cannot overflow."""

_TEXT = re.compile(r"([0-9]{1,20})(us|ms|s|m|h|d)?", re.ASCII)


def parse_duration(value: object, what: str = "duration") -> int:
    """``value`` in microseconds: an int, a ``timedelta``, or text such as ``"90s"`` or ``"250"``.

    ``what`` names the setting in the error. Zero is a duration; negative ones are refused.
    """
    if isinstance(value, str):
        match = _TEXT.fullmatch(value.strip())
        if match is None:
            raise InvalidArgument(
                f"{what} {value!r} is not a whole number followed by one of "
                f"{', '.join(US_PER_UNIT)} (no unit means microseconds)"
            )
        micros = int(match[1]) * US_PER_UNIT[match[2] or "us"]
    elif isinstance(value, datetime.timedelta):
        micros = value // datetime.timedelta(microseconds=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        micros = value
    else:
        raise InvalidArgument(
            f"{what} is a number of microseconds or text such as '24h', not "
            f"{type(value).__name__}: {value!r}"
        )
    if not 0 <= micros <= DURATION_US_MAX:
        raise InvalidArgument(f"{what} {value!r} is not within 0 and {DURATION_US_MAX} µs")
    return micros


def format_duration(micros: int) -> str:
    """The canonical text: the largest unit that divides ``micros``; plain digits below ``ms``.

    >>> format_duration(86_400_000_000), format_duration(90_000_000), format_duration(7)
    ('1d', '90s', '7')
    """
    for unit, size in reversed(US_PER_UNIT.items()):
        if micros and micros % size == 0 and size > 1:
            return f"{micros // size}{unit}"
    return str(micros)
