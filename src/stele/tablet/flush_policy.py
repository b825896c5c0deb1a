"""Which table to flush, and when.

A flush gives back memory, and it lets log files die. Both are wanted, so the score adds them:
``memory + log_weight × log``. A table's log bytes are those of every log file that some unflushed
commit of the table keeps alive: a table with little in memory but one very old commit holds up
the whole log, and must go at some time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableMemory:
    """What is known of one table's unflushed data."""

    table: str
    memory_bytes: int
    oldest_txn: int
    """The smallest txn in memory: log files that end below it do not depend on this table."""


@dataclass(frozen=True, slots=True)
class LogFileFacts:
    """One log file that is still there."""

    size_bytes: int
    last_txn: int


@dataclass(frozen=True, slots=True)
class FlushLimits:
    """When a flush pays. Bytes."""

    memory_bytes: int = 64 << 20
    """Flush a table once it alone holds this much: good-sized fragments, and little to replay."""
    budget_bytes: int = 256 << 20
    """All tables together. Above three quarters of it the best table goes, however small."""
    log_bytes: int = 512 << 20
    """Log kept on disk, which is what a recovery has to read."""
    log_weight: float = 0.1
    """How much a byte of log counts against a byte of memory."""


def log_bytes_held(table: TableMemory, log: Iterable[LogFileFacts]) -> int:
    """The log that cannot be deleted before this table is flushed."""
    return sum(file.size_bytes for file in log if file.last_txn >= table.oldest_txn)


def choose_flush(
    tables: Sequence[TableMemory],
    log: Sequence[LogFileFacts],
    limits: FlushLimits,
    *,
    pressed: bool = False,
) -> str | None:
    """The table to flush now, or ``None`` when none is worth it.

    Who is ``pressed`` for memory flushes the best there is.
    """
    candidates = [table for table in tables if table.memory_bytes > 0]
    if not candidates:
        return None
    pressed = (
        pressed
        or sum(table.memory_bytes for table in candidates) > limits.budget_bytes * 3 // 4
        or sum(file.size_bytes for file in log) > limits.log_bytes
    )
    if not pressed and all(table.memory_bytes < limits.memory_bytes for table in candidates):
        return None

    def score(table: TableMemory) -> tuple[float, str]:
        return table.memory_bytes + limits.log_weight * log_bytes_held(table, log), table.table

    return max(candidates, key=score).table
