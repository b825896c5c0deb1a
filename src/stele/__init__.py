"""Stele: a tablet store for Python and Spark teams.

``stele.open(path)`` gives a :class:`Database`; everything else follows from there. Names are
loaded when they are first used: ``import stele`` alone brings in none of the libraries below.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stele import aio, errors, metastore
    from stele.client.backend import TableInfo, TabletInfo
    from stele.client.batch import Batch
    from stele.client.database import Database
    from stele.client.rows import Rows
    from stele.client.scan import Scan
    from stele.client.table import Table
    from stele.client.transaction import Transaction
    from stele.model import filters
    from stele.model.cells import Cell
    from stele.model.columns import Column, FamilySelection
    from stele.model.groups import Group
    from stele.model.operations import Operation
    from stele.model.ranges import RowRange
    from stele.model.row import Row
    from stele.model.schema import Schema
    from stele.tablet.compaction_policy import CompactionLimits
    from stele.tablet.flush_policy import FlushLimits
    from stele.tablet.options import EngineOptions
    from stele.tablet.split_policy import SizeLimits

__version__ = "0.1.0"

_HOMES = {
    "Batch": "stele.client.batch",
    "Cell": "stele.model.cells",
    "Column": "stele.model.columns",
    "CompactionLimits": "stele.tablet.compaction_policy",
    "Database": "stele.client.database",
    "EngineOptions": "stele.tablet.options",
    "FamilySelection": "stele.model.columns",
    "FlushLimits": "stele.tablet.flush_policy",
    "Group": "stele.model.groups",
    "Operation": "stele.model.operations",
    "Row": "stele.model.row",
    "RowRange": "stele.model.ranges",
    "Rows": "stele.client.rows",
    "Scan": "stele.client.scan",
    "Schema": "stele.model.schema",
    "SizeLimits": "stele.tablet.split_policy",
    "Table": "stele.client.table",
    "TableInfo": "stele.client.backend",
    "TabletInfo": "stele.client.backend",
    "Transaction": "stele.client.transaction",
}
"""Where the public names live."""

_MODULES = {
    "aio": "stele.aio",
    "errors": "stele.errors",
    "filters": "stele.model.filters",
    "metastore": "stele.metastore",
}

__all__ = [
    "Batch",
    "Cell",
    "Column",
    "CompactionLimits",
    "Database",
    "EngineOptions",
    "FamilySelection",
    "FlushLimits",
    "Group",
    "Operation",
    "Row",
    "RowRange",
    "Rows",
    "Scan",
    "Schema",
    "SizeLimits",
    "Table",
    "TableInfo",
    "TabletInfo",
    "Transaction",
    "__version__",
    "aio",
    "errors",
    "filters",
    "metastore",
    "open",
]


def open(  # noqa: A001
    path: str | os.PathLike[str],
    options: EngineOptions | None = None,
    *,
    attach: bool = True,
) -> Database:
    """Open the database in a directory, which is made if it is missing.

    One process owns the directory until it closes the database. Others that open it meanwhile
    attach to the owner and work the same, for as long as it stays; the ``options`` are the owner's.
    With ``attach=False`` they are refused with ``DirectoryInUse``.

    >>> import stele, tempfile
    >>> with stele.open(tempfile.mkdtemp()) as db:
    ...     db.tables()
    []
    """
    from stele.cluster.attach import open_database
    from stele.errors import InvalidArgument

    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument(f"the directory of a database is a path, not {path!r:.80}")
    return open_database(os.fspath(path), options, attach=attach)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'stele' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
