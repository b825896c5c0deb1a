"""Wide rows of a load as cells: for whatever the columns layout cannot take as it is.

Everything a write may say can be said here: erasures of rows and columns, several lines of one row,
columns that nobody has declared. Cells are checked as those of any write are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidCells
from stele.model.arrays import flatten
from stele.model.arrow_input import NullRule, from_wide_table
from stele.model.cell_order import sort_cells
from stele.model.cells import MUTATIONS, ROW_ERASURE_FAMILY, TIMESTAMP_MAX, Op, no_mutations
from stele.model.mutations import stamp
from stele.model.schema import Schema
from stele.spark.row_sorter import ROW
from stele.storage.references import IMPORT_TXN

TIMESTAMP = "_timestamp"
OP = "_op"
PUT, DELETE = "put", "delete"


def group_cells(
    batch: pa.RecordBatch, schema: Schema, nulls: NullRule, timestamp: int
) -> pa.RecordBatch:
    """``CELLS`` with txn 0 of rows with the columns of one group, and its row erasures."""
    puts, erased = batch, None
    if OP in batch.schema.names:
        deletes = is_delete(batch)
        puts = batch.filter(pc.invert(deletes)).drop_columns([OP])
        erased = _erasures(batch.filter(deletes))
    mutations = no_mutations()
    if puts.num_rows and any(":" in name for name in puts.schema.names):
        mutations = from_wide_table(schema, puts, row=ROW, nulls=nulls)
    if erased is not None and erased.num_rows:
        united = pa.Table.from_batches([mutations, erased]).unify_dictionaries()
        mutations = sort_cells(united.combine_chunks().to_batches()[0])
    cells = stamp(mutations, timestamp)
    if not cells.num_rows:
        return cells
    zeros = pa.array(np.full(cells.num_rows, IMPORT_TXN, np.int64))
    return cells.set_column(cells.schema.get_field_index("txn"), cells.schema.field("txn"), zeros)


def is_delete(batch: pa.RecordBatch) -> pa.Array:
    """Which rows are to be erased; an op that is neither is refused."""
    ops = batch.column(OP)
    known = pc.is_in(ops, pa.array([PUT, DELETE]))
    wrong = pc.index(known, pa.scalar(False)).as_py()
    if wrong >= 0:
        row = batch.column(ROW)[wrong].as_py()
        raise InvalidCells(
            f"the op of row {row[:64]!r} is {ops[wrong].as_py()!r}: it is 'put' or 'delete'"
        )
    return pc.equal(ops, DELETE)


def _erasures(rows: pa.RecordBatch) -> pa.RecordBatch:
    """One erasure of each row, up to its timestamp if it has one."""
    times = pa.array(np.full(rows.num_rows, TIMESTAMP_MAX, np.int64))
    if TIMESTAMP in rows.schema.names:
        times = pc.fill_null(rows.column(TIMESTAMP).cast(pa.int64()), TIMESTAMP_MAX)
    asked = pa.table({ROW: rows.column(ROW), TIMESTAMP: times})
    once = asked.group_by([ROW, TIMESTAMP]).aggregate([]).combine_chunks()
    count = once.num_rows
    empty = pa.array([b""] * count, pa.binary())
    families = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(count, np.int16)), pa.array([ROW_ERASURE_FAMILY], pa.utf8())
    )
    ops = pa.array(np.full(count, Op.ERASE_ROW, np.int8))
    return pa.RecordBatch.from_arrays(
        [flatten(once.column(ROW)), families, empty, flatten(once.column(TIMESTAMP)), ops, empty],
        schema=MUTATIONS,
    )
