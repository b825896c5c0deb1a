"""The real world of Spark jobs: processes of their own, which nobody hands any ports."""

from __future__ import annotations

import os

from stele.env.posix import PosixFileSystem
from stele.env.real import ThreadTasks
from stele.errors import NotFound

TASKS = ThreadTasks()
"""Background work of a driver."""


def files_at(location: str, table: str) -> PosixFileSystem:
    """The directory of a table's files, as this machine sees it."""
    if not os.path.isdir(location):
        raise NotFound(
            f"the files of table {table!r} are in {location}, which this machine does not see: "
            f"Spark's executors need the same directory under the same path"
        )
    return PosixFileSystem(location)
