"""What an engine asks of the root of trust.

Embedded stores have a small durable version in their directory; a cluster's metastore offers the
same. Each call is one transaction: it took effect and is durable when it returns, or it raised and
did not. ``DeadlineExceeded`` is the third answer of a remote version: the outcome is unknown, read
again.
"""

from __future__ import annotations

from typing import Protocol

from stele.coordination.records import JobRecord, LeaseRecord, SessionRecord, TableRecord


class Sessions(Protocol):
    """Who is alive and may own logs."""

    def open_session(self, owner: str, now_us: int) -> SessionRecord:
        """A new session with an id greater than every earlier one."""

    def close_session(self, session: int) -> None:
        """End a session and the leases it holds. Idempotent."""

    def sessions(self) -> tuple[SessionRecord, ...]:
        """All sessions that have not ended, oldest first."""


class Catalog(Protocol):
    """The tables there are."""

    def new_table_id(self) -> str:
        """An id no table ever had."""

    def tables(self) -> tuple[TableRecord, ...]:
        """All tables, dropped ones too, in the order of their ids."""

    def add_table(self, record: TableRecord) -> None:
        """``AlreadyExists`` when a running table has the name."""

    def replace_table(self, record: TableRecord, expected_version: int) -> None:
        """Change a table whose schema version is still ``expected_version``, else ``Conflict``."""

    def forget_table(self, table: str) -> None:
        """Remove a dropped table for good, with its horizon, leases and jobs. Idempotent."""


class Horizons(Protocol):
    """How far back each table can be read, and who needs it to stay so."""

    def horizon(self, table: str) -> int:
        """Reads below it are refused; 0 for a table that never had one."""

    def advance_horizon(self, table: str, target: int) -> int:
        """Move towards ``target`` as far as leases allow; never back. Returns where it stands."""

    def grant_lease(self, lease: LeaseRecord) -> None:
        """``SnapshotTooOld`` below the horizon, ``AlreadyExists`` when the name is taken."""

    def replace_lease(self, lease: LeaseRecord) -> None:
        """Give a lease that is held another end or other files; ``NotFound`` if it has ended."""

    def release_lease(self, name: str) -> None:
        """Idempotent."""

    def leases(self, table: str | None = None) -> tuple[LeaseRecord, ...]:
        """The leases of one table, or of all."""


class Jobs(Protocol):
    """Imports, under way or decided."""

    def jobs(self, table: str | None = None) -> tuple[JobRecord, ...]:
        """The jobs of one table, or of all."""

    def change_job(self, record: JobRecord, expected: JobRecord | None) -> None:
        """Begin or change a job that is still as ``expected``, else ``Conflict``."""

    def forget_job(self, table: str, name: str) -> None:
        """Nobody will ask for it again. Idempotent."""


class Coordination(Sessions, Catalog, Horizons, Jobs, Protocol):
    """All of it, as one object."""

    @property
    def cluster_id(self) -> str:
        """Names this store for ever; files carry it."""
