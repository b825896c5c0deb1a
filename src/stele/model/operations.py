"""What the owner of tables does beside answering: the record of one piece of work, as a value."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class OperationKind(StrEnum):
    """What is done."""

    FLUSH = "flush"
    COMPACTION = "compaction"
    SPLIT = "split"
    JOIN = "join"
    CREATE = "create"
    DROP = "drop"
    UNDROP = "undrop"
    ALTER = "alter"
    """A schema whose locality groups stay as they are."""
    REGROUP = "regroup"
    """A schema with other groups: every reference is cut along them."""
    TRUNCATE = "truncate"
    CLONE = "clone"
    SNAPSHOT = "snapshot"
    IMPORT = "import"
    RESTORE = "restore"
    """An import of what a backup holds."""
    RECOVERY = "recovery"
    COLLECTION = "collection"
    """Of garbage: files that nobody refers to."""


class OperationState(StrEnum):
    """How far it has come."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """Given up on purpose: nobody wanted it any more, or what it was made for has changed."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work, under way or ended."""

    id: int
    """Counted from 1 by each owner, in the order in which they began."""
    kind: OperationKind
    table: str | None = None
    """The name that the table had then; ``None`` if it concerns all of them."""
    tablet: str | None = None
    detail: str = ""
    """What else tells it apart: a group, a border, the name of a job or of a snapshot."""
    state: OperationState = OperationState.RUNNING
    started_us: int
    ended_us: int | None = None
    bytes_in: int = 0
    """Read, from memory or from files, as far as it is known."""
    bytes_out: int = 0
    """Written to files."""
    cells: int = 0
    """Written, or brought by files that were made elsewhere."""
    error: str | None = None
    """Why it failed or was given up."""
