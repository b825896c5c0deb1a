"""Files for imports, as a bulk writer would make them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.model.cells import ROW_ERASURE_FAMILY, TIMESTAMP_MAX, Cell, Op
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_writer import write_fragment
from stele.storage.import_files import ImportTicket, writer_names
from tests.unit.tablet.engine_support import block

HOUR_US = 3_600_000_000

_ATTEMPTS = count()


def import_file(
    backend: EmbeddedBackend, ticket: ImportTicket, cells: Iterable[Cell]
) -> FragmentInfo:
    """One durable file of an attempt."""
    (info,) = write_fragment(
        backend.store.world.files,
        ticket.location,
        writer_names(ticket.token, 0, next(_ATTEMPTS)),
        [block(*cells)],
        table=ticket.table,
        options=FragmentOptions(block_cells=256),
    )
    return info


def new_cell(row: bytes, value: bytes = b"imported", family: str = "f") -> Cell:
    return Cell(row, family, b"q", 1, value)


def row_erasure(row: bytes) -> Cell:
    return Cell(row, ROW_ERASURE_FAMILY, b"", TIMESTAMP_MAX, op=Op.ERASE_ROW)


def import_cells(
    backend: EmbeddedBackend, table: EmbeddedTable, job: str, cells: Iterable[Cell]
) -> int:
    """A whole job, one file for each family."""
    ticket = table.begin_import(job, HOUR_US)
    if ticket.txn is not None:
        return ticket.txn
    by_family: dict[str, list[Cell]] = {}
    for cell in cells:
        by_family.setdefault(cell.family, []).append(cell)
    files = [import_file(backend, ticket, part) for part in by_family.values()]
    return table.commit_import(job, ticket.token, files)
