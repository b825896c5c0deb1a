"""The cell: what a table is made of, its Arrow form and the one order of everything.

A cell has a row, a family, a qualifier, a timestamp (µs) and a value. A *mutation* is a cell with
an op: a put, or an erasure. Every committed mutation also carries its **txn**, so that its
meaning never depends on which file it happens to be in.

The order, everywhere (requests, log, memory, fragments, scans):

    row ↑   family ↑   class ↑   qualifier ↑   timestamp ↓   txn ↓   op ↑

where class is 0 for row erasures, 1 for family erasures, 2 for the rest. A row erasure has the
empty family and a family erasure the empty qualifier, so whatever hides a cell comes before it:
one pass from the left resolves everything.

What an erasure hides: cells of a *lower txn* whose timestamp is at most the erasure's, within
its row, family or column; a cell erasure hides the one timestamp it names. A put after a delete
is therefore always visible, whatever its timestamp. Within one batch all cells share a txn, so
erasures of a batch never hide its puts.

Two puts at the same row, column and timestamp are one version: the higher txn replaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa


class Op(IntEnum):
    """What a cell does. The numbers are stored in files and take part in the order."""

    ERASE_ROW = 0
    ERASE_FAMILY = 1
    ERASE_COLUMN = 2
    ERASE_CELL = 3
    PUT = 4


TIMESTAMP_MAX = (1 << 63) - 1
"""On an erasure: no upper bound. On a put: "the commit's txn", filled in when it commits."""

TIMESTAMP_MIN = -(1 << 63)

ROW_ERASURE_FAMILY = ""
"""Sorts before every real family, and is not a legal name of one."""

FAMILY_TYPE = pa.dictionary(pa.int16(), pa.utf8())

CELLS = pa.schema(
    [
        pa.field("row", pa.binary(), nullable=False),
        pa.field("family", FAMILY_TYPE, nullable=False),
        pa.field("qualifier", pa.binary(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("txn", pa.int64(), nullable=False),
        pa.field("op", pa.int8(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""The one Arrow schema of cells. Its columns are always in this order."""

MUTATIONS = CELLS.remove(CELLS.get_field_index("txn"))
"""What a client sends: cells that have no txn yet."""

CellKey = tuple[bytes, bytes, int, bytes, int, int, int]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell or mutation as a plain value; for the API, tests and oracles, not for bulk work."""

    row: bytes
    family: str
    qualifier: bytes
    timestamp: int
    value: bytes = b""
    op: Op = Op.PUT
    txn: int = 0

    @property
    def column(self) -> str:
        """``family:qualifier`` as text, with undecodable bytes escaped."""
        return f"{self.family}:{self.qualifier.decode('utf-8', 'backslashreplace')}"

    def key(self) -> CellKey:
        """The sort key: comparing two of these is the order of the module docstring."""
        return (
            self.row,
            self.family.encode(),
            min(self.op, 2),
            self.qualifier,
            -self.timestamp,
            -self.txn,
            int(self.op),
        )


def cells_to_batch(cells: Iterable[Cell]) -> pa.RecordBatch:
    """Pack cells, in the order given, into one ``CELLS`` batch."""
    rows = list(cells)
    families = sorted({cell.family for cell in rows})
    code_of = {family: code for code, family in enumerate(families)}
    family = pa.DictionaryArray.from_arrays(
        pa.array([code_of[cell.family] for cell in rows], pa.int16()), pa.array(families, pa.utf8())
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array([cell.row for cell in rows], pa.binary()),
            family,
            pa.array([cell.qualifier for cell in rows], pa.binary()),
            pa.array([cell.timestamp for cell in rows], pa.int64()),
            pa.array([cell.txn for cell in rows], pa.int64()),
            pa.array([int(cell.op) for cell in rows], pa.int8()),
            pa.array([cell.value for cell in rows], pa.binary()),
        ],
        schema=CELLS,
    )


def no_mutations() -> pa.RecordBatch:
    """A ``MUTATIONS`` batch without cells."""
    return cells_to_batch(()).select(MUTATIONS.names)


def batch_to_cells(batch: pa.RecordBatch | pa.Table) -> list[Cell]:
    """Unpack ``CELLS``, or ``MUTATIONS`` (whose cells get txn 0), into plain cells."""
    stamped = "txn" in batch.schema.names
    columns = [
        batch.column(name).to_pylist() if stamped or name != "txn" else [0] * batch.num_rows
        for name in CELLS.names
    ]
    return [
        Cell(row, family, qualifier, timestamp, value, Op(op), txn)
        for row, family, qualifier, timestamp, txn, op, value in zip(*columns, strict=True)
    ]
