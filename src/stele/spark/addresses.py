"""How a table is named where there is no handle of it: in notebooks, options and other processes.

``DIRECTORY#TABLE`` is a table of an embedded database, ``stele://HOST:PORT/TABLE`` one of a
cluster. A directory is made absolute at once: other processes may have another working directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stele.client.database import Database
from stele.client.table import Table
from stele.errors import InvalidArgument
from stele.spark.world import open_database

CLUSTER_SCHEME = "stele://"


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A database and a table of it."""

    db: str
    table: str

    @staticmethod
    def of(db: str, table: str) -> TableAddress:
        """From the two parts."""
        if not db or not table:
            raise InvalidArgument("a table is named by its database and its own name; one is empty")
        return TableAddress(db if db.startswith(CLUSTER_SCHEME) else os.path.abspath(db), table)

    @staticmethod
    def parse(text: str) -> TableAddress:
        """From one text.

        >>> TableAddress.parse("/data#users")
        TableAddress(db='/data', table='users')
        """
        if text.startswith(CLUSTER_SCHEME):
            server, _, table = text.removeprefix(CLUSTER_SCHEME).partition("/")
            if server and table:
                return TableAddress(f"{CLUSTER_SCHEME}{server}", table)
        else:
            db, _, table = text.rpartition("#")
            if db and table:
                return TableAddress.of(db, table)
        raise InvalidArgument(
            f"{text!r:.200} names no table: write 'DIRECTORY#TABLE', as in './data#users', or "
            f"'stele://HOST:PORT/TABLE'"
        )

    @contextmanager
    def open(self) -> Iterator[Table]:
        """The table, for a moment."""
        with open_at(self.db) as database:
            yield database.table(self.table)


def open_at(db: str) -> Database:
    """The database in a directory that exists."""
    if db.startswith(CLUSTER_SCHEME):
        raise InvalidArgument(
            f"{db} is a cluster, and this version of Stele reads embedded directories from Spark"
        )
    if not os.path.isdir(db):
        raise InvalidArgument(
            f"there is no database in {db}: it is a directory that stele.open has made"
        )
    return open_database(db)
