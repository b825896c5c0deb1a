"""The files of a table at one moment, for other engines: DuckDB, Polars, whatever reads Parquet.

A file that needs no merge is listed: every line of it is there to be seen. The cells of all others
are merged here, as Arrow. Both together are the table.

Files are in one of two layouts. ``cells`` has one line for each cell: ``row``, ``family``,
``qualifier``, ``timestamp``, ``txn``, ``op`` (always a put here) and ``value``. ``columns`` has one
line for each row and a typed column for each column that the schema declares; the times of lines
that were bulk loaded, ``_timestamp`` and ``_txn``, are 0 in it until they are compacted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from stele.client.closing import Releasing
from stele.client.table_core import TableCore
from stele.env.posix import PosixFileSystem
from stele.errors import InvalidArgument
from stele.model.cells import CELLS
from stele.model.durations import parse_duration
from stele.model.predicates import CellSpec
from stele.storage.clean_files import Routes, holds_cells, split_clean
from stele.storage.fragment_format import CELLS_LAYOUT, COLUMNS_LAYOUT, FragmentInfo
from stele.storage.plan_reader import PlanReader
from stele.storage.read_plan import ReadPlan

LAYOUTS = (CELLS_LAYOUT, COLUMNS_LAYOUT)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One Parquet file that may be read as it is."""

    path: str
    layout: str
    rows: int
    cells: int
    size_bytes: int


class TableFiles(Releasing):
    """The files of a table, kept until they are released or their lease ends. For one thread."""

    def __init__(self, core: TableCore, plan: ReadPlan, routes: Routes) -> None:
        self._core = core
        self._plan = plan
        self._routes = routes

    @property
    def txn(self) -> int:
        """The moment that all of it is of."""
        return self._plan.txn

    @property
    def expires_us(self) -> int:
        """When the files may go; they may not before."""
        return self._plan.expires_us

    @property
    def is_complete(self) -> bool:
        """Whether the listed files are the whole table."""
        return not self._routes.merged

    def __iter__(self) -> Iterator[TableFile]:
        for file in self._routes.clean:
            path = os.path.join(self._plan.location, file.name)
            summary = file.summary
            yield TableFile(path, file.layout, summary.rows, summary.cells, file.size)

    def paths(self, layout: str = CELLS_LAYOUT) -> list[str]:
        """The paths of the files of a layout, ``"cells"`` or ``"columns"``, in row order."""
        if layout not in LAYOUTS:
            raise InvalidArgument(f"a layout is one of {', '.join(LAYOUTS)}; not {layout!r:.80}")
        return [file.path for file in self if file.layout == layout]

    def rest(self) -> pa.Table:
        """The newest cells that are in no listed file, merged, in the shape of ``cells``."""
        plan = self._plan
        served = plan.schema.served
        reader = PlanReader(PosixFileSystem(plan.location), "", plan.txn, served)
        blocks = (
            block.batch
            for tablet in self._routes.merged
            for block in reader.read(tablet.references, tablet.rows, CellSpec())
        )
        return pa.Table.from_batches(blocks, CELLS).unify_dictionaries()

    def release(self) -> None:
        """Let go of the files: from now on they may be deleted. Idempotent."""
        self._core.backend.release_pin(self._plan.lease)


def table_files(core: TableCore, at: int | None, lease: str) -> TableFiles:
    """Pin a table and sort its files."""
    plan = core.backend.pin(at, parse_duration(lease, "lease"))
    return TableFiles(core, plan, split_clean(plan.tablets, plan.txn, _is_plain, by_columns=True))


def _is_plain(file: FragmentInfo) -> bool:
    """Whether every line of a file is there to be seen, whatever its layout."""
    if file.layout == COLUMNS_LAYOUT:
        return file.companion is None and file.summary.is_clean
    return holds_cells(file)
