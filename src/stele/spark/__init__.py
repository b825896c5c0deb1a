"""Stele and Spark: tables as DataFrames, and bulk jobs over the store's own files.

>>> from stele import spark as ss                              # doctest: +SKIP
>>> session = ss.session("local[2]")                           # doctest: +SKIP
>>> ss.read(session, users, columns=["info:age"]).show()       # doctest: +SKIP

Nothing but PySpark and a Java is needed: no jar, no server. ``docs/guide/spark.md`` has it all.
"""

from __future__ import annotations

from stele.spark.backups import backup, restore
from stele.spark.change_frames import changes
from stele.spark.checking import check
from stele.spark.compacting import CompactProgress, CompactReport, compact
from stele.spark.deleting import delete
from stele.spark.directory_check import check_database
from stele.spark.exporting import export
from stele.spark.importing import import_
from stele.spark.load_progress import LoadProgress
from stele.spark.loading import Report, bulk_load
from stele.spark.lookups import lookup_join
from stele.spark.reading import read, view
from stele.spark.recovering import RecoverReport, recover
from stele.spark.sessions import session, setup
from stele.spark.system_tables import system
from stele.spark.writing import write

__all__ = [
    "CompactProgress",
    "CompactReport",
    "LoadProgress",
    "RecoverReport",
    "Report",
    "backup",
    "bulk_load",
    "changes",
    "check",
    "check_database",
    "compact",
    "delete",
    "export",
    "import_",
    "lookup_join",
    "read",
    "recover",
    "restore",
    "session",
    "setup",
    "system",
    "view",
    "write",
]
