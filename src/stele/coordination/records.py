"""The records kept at the root of trust, as frozen values with a stable JSON form."""

from __future__ import annotations

from enum import Enum

import msgspec


class TableState(Enum):
    """What the catalog says of a table."""

    RUNNING = "running"
    DROPPED = "dropped"


class TableRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the catalog. Its id never changes and is never used again."""

    id: str
    name: str
    schema: str
    """The schema's canonical JSON."""
    schema_version: int
    created_us: int
    state: TableState = TableState.RUNNING
    dropped_us: int = 0
    forget_us: int = 0
    """When a dropped table may be deleted for good."""


class SessionRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process that owns log directories. While it is here, nobody else may touch them."""

    id: int
    owner: str
    opened_us: int


class LeaseRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keeps a table readable at ``txn``, and the files that META named at ``meta_txn``."""

    name: str
    table: str
    txn: int
    meta_txn: int
    session: int | None
    """The session whose end releases the lease; ``None`` for one that a person named."""
    created_us: int
    expires_us: int | None = None
    """When it ends unless it is renewed; ``None`` for one that somebody has to release."""
    files: tuple[str, ...] = ()
    """Fragment files that no META names and that live as long as the lease."""

    def has_expired(self, now_us: int) -> bool:
        """Whether nobody renewed it in time."""
        return self.expires_us is not None and self.expires_us <= now_us


class JobState(Enum):
    """What became of an import. Only a running one may change."""

    RUNNING = "running"
    COMMITTED = "committed"
    ABORTED = "aborted"


class JobRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An import: whether its files are part of the table is decided here, and nowhere else."""

    name: str
    table: str
    token: str
    """Of the attempt that may decide; a later attempt has another."""
    state: JobState
    created_us: int
    expires_us: int
    """When a running job is given up unless somebody renews it."""
    txn: int = 0
    """Of all cells of a committed job."""
    replaces: bool = False
    """Whether all that was in the table before went in the moment of a committed job."""

    def has_expired(self, now_us: int) -> bool:
        """Whether nobody renewed it in time."""
        return self.expires_us <= now_us


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything at once."""

    last_id: int = 0
    """Ids of sessions and tables come from one counter and are never given out twice."""
    sessions: tuple[SessionRecord, ...] = ()
    tables: tuple[TableRecord, ...] = ()
    horizons: dict[str, int] = {}
    leases: tuple[LeaseRecord, ...] = ()
    jobs: tuple[JobRecord, ...] = ()
