"""The rows of a META table, read from its files and its log without changing either.

Opening a store recovers: logs are sealed, fragments written, configs saved. A check has to look
first, so here the same sources are merged in memory: what the references show, and what of the log
no flush mark covers. The directory's owner has to be gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from stele.env.ports import FileSystem
from stele.kernels.resolve import ReadView, merge_resolve
from stele.kernels.sources import Source
from stele.model.cells import Cell, batch_to_cells
from stele.model.column_set import ALL_COLUMNS
from stele.storage.fragment_reader import FragmentReader
from stele.storage.log_replay import replay, unflushed
from stele.storage.log_seal import peek, sealed_entries
from stele.storage.references import file_references
from stele.tablet.config import TabletConfig
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY

MetaRow = tuple[bytes, list[Cell]]


class MetaContents:
    """Everything that is stored of one META table, all in memory: META is small."""

    def __init__(self, fs: FileSystem, table: str, tablets: Iterable[TabletConfig]):
        """Raises what reading its files raises: then nothing can be said of what it holds."""
        self._sources: list[Source] = []
        for tablet in tablets:
            self._sources += _fragments(fs, tablet)
            self._sources += _unflushed(fs, table, tablet)

    def rows(self, at: int | None = None) -> Iterator[MetaRow]:
        """Keys and visible cells as they were at a txn; now, by default."""
        view = ReadView(versions=1) if at is None else ReadView(txn=at, versions=1)
        cells = (
            cell
            for block in merge_resolve(self._sources, view).gather()
            for cell in batch_to_cells(block.batch)
        )
        for key, row in groupby(cells, key=lambda cell: cell.row):
            yield key, list(row)


def _fragments(fs: FileSystem, tablet: TabletConfig) -> Iterator[Source]:
    for reference in file_references(tablet.references):
        path = f"{FRAGMENT_DIRECTORY}/{reference.file.name}"
        with FragmentReader.open(fs, path, reference.file) as reader:
            for block in reader.blocks(reference.rows):
                yield Source(block, reference.columns, reference.txn)


def _unflushed(fs: FileSystem, table: str, tablet: TabletConfig) -> Iterator[Source]:
    if tablet.log is None:
        return
    entries = sealed_entries(fs, tablet.log, peek(fs, tablet.log))
    for part in replay(entries, (table,)):
        block = unflushed(part.block, tablet.rows, ALL_COLUMNS, tablet.marks)
        if block is not None:
            yield Source(block)
