"""A META table as the place where configs are kept: saving edits, reading them back.

META tables are tables like all others, served by an engine of their own, so that nothing a user
does to the rest can block them. A save reads the stamps of its rows, compares them, and commits on
the condition that no row has changed since: compared and written in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from stele.errors import StaleRow, SteleError
from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.sources import Source
from stele.model.cells import Cell, batch_to_cells
from stele.model.columns import ColumnSelection
from stele.model.groups import Group
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from stele.model.row import newest_values
from stele.model.schema import Schema
from stele.storage.references import file_references
from stele.tablet.config import ConfigEdit, Stamp, TabletConfig
from stele.tablet.config_store import ConfigStore, Saved, check_stamps
from stele.tablet.engine import Engine
from stele.tablet.meta_rows import (
    META_FAMILIES,
    TABLET_COLUMN,
    config_from_cells,
    edit_batch,
    meta_key,
    stamp_of,
    table_rows,
)
from stele.tablet.pending import KnownCommit, PendingCommit
from stele.tablet.point_reads import PointReads

META0 = "META0"
"""The root: one tablet that never splits. Its own config is in the root file."""
META1 = "META1"
"""Its tablets' configs are in META0; those of all other tables are here."""

STAMPS = CellSpec(columns=ColumnSelection.parse(["tablet:"]))

META_SCHEMA = Schema([Group("meta", families=META_FAMILIES)])


class MetaConfigs:
    """Where the META engine keeps its own configs: META0's in the root file, META1's in META0."""

    def __init__(self, root: ConfigStore):
        self._root = root
        self._meta0: MetaTable | None = None

    def attach(self, meta0: MetaTable) -> None:
        """META0 is served: configs of META1 can be saved from now on."""
        self._meta0 = meta0

    def save(self, edit: ConfigEdit, done: Saved) -> None:
        if {config.table for config in (*edit.written, *edit.removed)} == {META0}:
            self._root.save(edit, done)
        else:
            assert self._meta0 is not None
            self._meta0.save(edit, done)


class MetaTable:
    """Implements ``ConfigStore`` on a META table of an engine."""

    def __init__(self, engine: Engine, table: str):
        self._engine = engine
        self._table = table
        self._reads = PointReads(engine)

    def save(self, edit: ConfigEdit, done: Saved) -> None:
        try:
            pending = self._commit(edit)
        except SteleError as error:
            done(error)
            return
        pending.then(done)

    def save_now(self, edit: ConfigEdit) -> None:
        """Save, and return when it is durable."""
        if not edit.is_empty:
            edit.check()
            self._commit(edit).wait()

    def overwrite(self, edit: ConfigEdit) -> None:
        """Save whatever is there: for repairs, which have looked at META and are alone with it."""
        if not edit.is_empty:
            self._engine.apply(self._table, edit_batch(edit)).wait()

    def _commit(self, edit: ConfigEdit) -> PendingCommit | KnownCommit:
        rows = {
            meta_key(config.table, config.rows.end) for config in (*edit.removed, *edit.written)
        }
        batch = edit_batch(edit)
        while True:
            txn = self._engine.committed_txn
            check_stamps({row: self._stamp(row, txn) for row in sorted(rows)}, edit)
            try:
                return self._engine.apply(self._table, batch, max_txn=txn)
            except StaleRow:
                continue  # somebody else was faster: look again

    def _stamp(self, row: bytes, txn: int) -> Stamp | None:
        view = self._engine.table(self._table).view(for_a_read=False)
        value = newest_values(self._reads.read(view, row, STAMPS, txn)).get(TABLET_COLUMN)
        return None if value is None else stamp_of(value, row)

    def configs(self, table: str, at: int | None = None) -> tuple[TabletConfig, ...]:
        """The tablets of one table in row order, as they were at a txn; now, by default."""
        return tuple(self._configs(table_rows(table), at))

    def all_configs(self, at: int | None = None) -> tuple[TabletConfig, ...]:
        """The tablets of all tables, as they were at a txn."""
        return tuple(self._configs(RowRange(), at))

    def _configs(self, rows: RowRange, at: int | None) -> Iterator[TabletConfig]:
        for key, cells in groupby(self._cells(rows, at), key=lambda cell: cell.row):
            yield config_from_cells(key, list(cells))

    def _cells(self, rows: RowRange, at: int | None) -> list[Cell]:
        """The visible cells of some META rows: few, so they are read as a whole."""
        txn = self._engine.durable_txn if at is None else at
        view = self._engine.table(self._table).view()
        sources = [Source(block) for block in view.memory.blocks(txn)]
        for config in view.layout.tablets.overlapping(rows):
            for reference in file_references(config.references):
                reader = self._engine.fragments.open(reference.file).reader
                sources += [Source(block) for block in reader.blocks(reference.rows)]
        selection = merge_resolve(sources, ReadView(txn=txn, versions=1))
        cells = [cell for block in selection.gather() for cell in batch_to_cells(block.batch)]
        return [cell for cell in cells if rows.contains(cell.row)]
