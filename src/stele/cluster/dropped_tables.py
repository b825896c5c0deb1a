"""Tables that were dropped: kept for a while, so that they can come back, and then forgotten.

What is forgotten leaves the catalog first and META next; its files are garbage from then on. A
crash in between leaves rows of META that no catalog entry speaks of, as one while a table is made
does, and the next look removes them.

Whoever looks holds the lock of the catalog: a table that is being made has rows before it has an
entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stele.coordination.records import TableRecord, TableState
from stele.env.failpoints import declare, failpoint
from stele.errors import TableNotFound
from stele.tablet.config import ConfigEdit

if TYPE_CHECKING:
    from stele.cluster.store import Store

AFTER_CATALOG = declare("cluster.dropped_tables.after_catalog")


class DroppedTables:
    """Those of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def records(self) -> tuple[TableRecord, ...]:
        """Those that can come back."""
        now_us = self._store.world.clock.now_us()
        found = self._store.coordination.tables()
        return tuple(
            record
            for record in found
            if record.state is TableState.DROPPED and not _is_due(record, now_us)
        )

    def find(self, name: str) -> TableRecord:
        """The one of a name that was dropped last."""
        named = [record for record in self.records() if record.name == name]
        if not named:
            raise TableNotFound(f"no dropped table has the name {name!r}")
        return max(named, key=lambda record: record.dropped_us)

    def forget_due(self) -> None:
        """Forget those whose time is over, but for what somebody reads just now."""
        coordination = self._store.coordination
        now_us = self._store.world.clock.now_us()
        due = [record.id for record in coordination.tables() if _is_due(record, now_us)]
        if due:
            held = {
                lease.table
                for lease in coordination.leases()
                if lease.expires_us is not None and not lease.has_expired(now_us)
            }
            for table in due:
                if table not in held:
                    coordination.forget_table(table)
                    failpoint(AFTER_CATALOG)
        self._forget_unknown()

    def _forget_unknown(self) -> None:
        """Remove the rows of META that belong to no table of the catalog."""
        known = {record.id for record in self._store.coordination.tables()}
        meta1 = self._store.meta1
        unknown = tuple(config for config in meta1.all_configs() if config.table not in known)
        if unknown:
            meta1.save_now(ConfigEdit(removed=unknown))


def _is_due(record: TableRecord, now_us: int) -> bool:
    return record.state is TableState.DROPPED and 0 < record.forget_us <= now_us
