"""Moments as users write them: whole microseconds, or a ``datetime`` that knows its zone."""

from __future__ import annotations

import datetime
from typing import TypeAlias

from stele.client.backend import TableBackend
from stele.errors import InvalidArgument, NotFound
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN

Moment: TypeAlias = int | datetime.datetime
"""Microseconds since the Unix epoch, which is also what a txn is, or a ``datetime``."""

At: TypeAlias = Moment | str | None
"""When to read: a txn or a time, the name of a snapshot, or ``None`` for now."""

TimeRange: TypeAlias = tuple[Moment | None, Moment | None]
"""``start <= timestamp < end``; ``None`` is open."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def micros(moment: object, what: str) -> int:
    """A moment in microseconds; ``what`` names the argument in the error."""
    if isinstance(moment, datetime.datetime):
        if moment.tzinfo is None:
            raise InvalidArgument(
                f"{what} {moment!r} has no time zone: write datetime(..., tzinfo=UTC)"
            )
        return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    raise InvalidArgument(f"{what} is a number of µs or a datetime, not {moment!r:.80}")


def optional_micros(moment: Moment | None, what: str) -> int | None:
    """The same for a moment that may be left out."""
    return None if moment is None else micros(moment, what)


def time_bounds(time: TimeRange | None) -> tuple[int, int]:
    """Both ends of a time range in microseconds."""
    if time is None:
        return TIMESTAMP_MIN, TIMESTAMP_MAX
    try:
        start, end = time
    except (TypeError, ValueError):
        raise InvalidArgument(f"time is a pair (start, end), not {time!r:.80}") from None
    return (
        TIMESTAMP_MIN if start is None else micros(start, "the start of time"),
        TIMESTAMP_MAX if end is None else micros(end, "the end of time"),
    )


def read_txn(table: TableBackend, at: At) -> int | None:
    """The txn that ``at`` names."""
    if not isinstance(at, str):
        return optional_micros(at, "at")
    snapshots = table.snapshots()
    if at not in snapshots:
        known = ", ".join(map(repr, sorted(snapshots))) or "none"
        raise NotFound(f"table {table.name!r} has no snapshot {at!r}; it has {known}")
    return snapshots[at]
