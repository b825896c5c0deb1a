"""The real world of Spark jobs: processes of their own, which nobody hands any ports."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from stele.client.database import Database
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, ThreadTasks
from stele.errors import NotFound
from stele.storage.deep_check import Examine
from stele.storage.log_pieces import PieceFacts
from stele.storage.recovery_work import RecoveryWork
from stele.storage.references import References

TASKS = ThreadTasks()
"""Background work of a driver."""

CLOCK = SystemClock()
"""How long jobs take."""


def open_database(path: str) -> Database:
    """What ``stele.open`` gives: this process owns the directory, or attaches to who does.

    By name, because the embedded store stands above this layer and serves it as it serves users.
    """
    database: Database = importlib.import_module("stele").open(path)
    return database


class Recovery(Protocol):
    """A directory whose logs are sealed; see ``stele.cluster.offline_recovery``."""

    @property
    def work(self) -> RecoveryWork: ...

    def publish(self, facts: Sequence[PieceFacts], references: Mapping[str, References]) -> int: ...


def offline_recovery(path: str) -> AbstractContextManager[Recovery]:
    """A directory that nobody has open, while its logs are recovered; by name, as above."""
    module = importlib.import_module("stele.cluster.offline_recovery")
    recovering: AbstractContextManager[Recovery] = module.recovering(path)
    return recovering


class DirectoryReport(Protocol):
    """What a check found and did; see ``stele.cluster.check``."""

    findings: tuple[Any, ...]
    plan: Any
    repaired: tuple[Any, ...]
    undo_files: tuple[str, ...]

    @property
    def is_damaged(self) -> bool: ...


def check_directory(path: str, repair: bool, examine: Examine) -> DirectoryReport:
    """A directory that nobody has open, checked and mended; by name, as above."""
    module = importlib.import_module("stele.cluster.check")
    report: DirectoryReport = module.check_directory(path, repair=repair, examine=examine)
    return report


def files_at(location: str, table: str | None = None) -> PosixFileSystem:
    """The directory of a table's files, or of a database, as this machine sees it."""
    if not os.path.isdir(location):
        whose = "the database" if table is None else f"table {table!r}"
        raise NotFound(
            f"the files of {whose} are in {location}, which this machine does not see: "
            f"Spark's executors need the same directory under the same path"
        )
    return PosixFileSystem(location)
