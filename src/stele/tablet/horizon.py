"""The horizon: how far back a table can be read.

It moves forward with time, ``now − history``, but never past what somebody still holds: a lease,
which may outlive processes, or a read that is running here. It never moves back. What lies below
it may be dropped by any compaction, so a horizon is made durable before a compaction uses it.
"""

from __future__ import annotations

from collections.abc import Iterable

from stele.errors import SnapshotTooOld


def next_horizon(
    current: int, now_us: int, history_us: int, held: Iterable[int], durable: int
) -> int:
    """Where the horizon may stand now: at most what is durable, old enough and held by nobody."""
    return max(current, min(now_us - history_us, durable, *held))


def check_readable(table: str, txn: int, horizon: int) -> None:
    """Refuse a read below the horizon with a sentence that says what is possible."""
    if txn < horizon:
        raise SnapshotTooOld(
            f"table {table!r} cannot be read at {txn}: its history begins at {horizon}; "
            f"read later, or keep more with a longer `history` in its schema or a snapshot"
        )


def check_floor(table: str, txn: int, floor: int) -> None:
    """Refuse a read of rows as they were before their tablet was truncated, in part or whole."""
    if txn < floor:
        raise SnapshotTooOld(
            f"table {table!r} cannot be read at {txn}: rows of a tablet that is asked for were "
            f"truncated, and with them went the history of that tablet before {floor}, whatever "
            f"snapshots there are; other tablets keep theirs"
        )
