"""Wide rows of a load as cells: for whatever the columns layout cannot take as it is.

Everything a write may say can be said here: erasures of rows and columns, several lines of one row,
columns that nobody has declared. Cells are checked as those of any write are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidCells
from stele.kernels.order import first_disorder
from stele.model.arrow_input import NullRule, from_cells_table, from_wide_table
from stele.model.cell_order import sort_cells
from stele.model.cells import no_mutations
from stele.model.mutations import stamp
from stele.model.schema import Schema
from stele.model.validation import validate_mutations
from stele.spark.batch_pieces import pieces
from stele.spark.erasures import WHOLE_ROW, each_once, erasures
from stele.spark.row_sorter import ROW
from stele.storage.references import IMPORT_TXN

TIMESTAMP = "_timestamp"
OP = "_op"
FAMILY_MAP = "_family/"
"""Before the name of a family: a column of lists of its qualifiers and values."""
ENTRIES = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
"""The type of such a column."""
FAMILY, QUALIFIER, VALUE = "_family", "_qualifier", "_value"
"""Of a load whose lines are cells."""
PUT, DELETE = "put", "delete"

CHECKED_CELLS = 65_536
"""Cells that are checked at a time."""


_TWICE = "is there twice"


@contextmanager
def advised() -> Iterator[None]:
    """Say what can be done about a cell that is there twice."""
    try:
        yield
    except InvalidCells as error:
        if not str(error).endswith(_TWICE):
            raise
        raise InvalidCells(
            f"{error}: nobody knows which of two lines of one job is the later; drop one, as "
            f"df.dropDuplicates does, or give each a timestamp"
        ) from error


def group_cells(
    batch: pa.RecordBatch, schema: Schema, nulls: NullRule, timestamp: int
) -> pa.RecordBatch:
    """``CELLS`` with txn 0 of rows with the columns of one group, and its row erasures."""
    puts, erased = batch, None
    if OP in batch.schema.names:
        deletes = is_delete(batch)
        puts = batch.filter(pc.invert(deletes)).drop_columns([OP])
        erased = _erased(batch.filter(deletes))
    maps = [name for name in puts.schema.names if name.startswith(FAMILY_MAP)]
    with advised():
        parts = [from_cells_table(map_cells(puts, name)) for name in maps]
        wide = puts.drop_columns(maps)
        if wide.num_rows and any(":" in name for name in wide.schema.names):
            parts.append(from_wide_table(schema, wide, row=ROW, nulls=nulls))
        if erased is not None:
            parts.append(erased)
        return imported_cells(_united(parts), schema, timestamp)


def _united(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Mutations of different kinds in one order."""
    some = [part for part in parts if part.num_rows]
    if len(some) < 2:
        return some[0] if some else no_mutations()
    united = pa.Table.from_batches(some).unify_dictionaries()
    return sort_cells(united.combine_chunks().to_batches()[0])


def imported_cells(mutations: pa.RecordBatch, schema: Schema, timestamp: int) -> pa.RecordBatch:
    """Mutations, if they are legal, as cells that the commit of the import will number."""
    for piece in pieces(mutations, CHECKED_CELLS):  # a row may have more than a request
        validate_mutations(piece, schema, order_check=first_disorder)
    cells = stamp(mutations, timestamp)
    if not cells.num_rows:
        return cells
    zeros = pa.array(np.full(cells.num_rows, IMPORT_TXN, np.int64))
    return cells.set_column(cells.schema.get_field_index("txn"), cells.schema.field("txn"), zeros)


def map_cells(batch: pa.RecordBatch, name: str) -> pa.Table:
    """The entries of maps as lines of cells; one without a value is none."""
    lists = batch.column(name)
    lines = pc.list_parent_indices(lists)
    keys, values = pc.list_flatten(lists).flatten()
    cells = {
        "row": batch.column(ROW).take(lines),
        "family": pa.repeat(pa.scalar(name.removeprefix(FAMILY_MAP)), len(lines)),
        "qualifier": keys,
        "value": values,
    }
    if TIMESTAMP in batch.schema.names:
        cells["timestamp"] = batch.column(TIMESTAMP).take(lines)
    return pa.table(cells).filter(values.is_valid())


def with_unsigned(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The same rows with decimals as ``uint64`` where that is declared: Spark has no such type."""
    for number, field in enumerate(batch.schema):
        if not pa.types.is_decimal(field.type) or ":" not in field.name:
            continue
        typed = schema.typed_column(field.name)
        if typed is None or typed.type.arrow != pa.uint64():
            continue
        try:
            values = batch.column(number).cast(pa.uint64())
        except pa.ArrowInvalid as error:
            raise InvalidCells(f"column {field.name!r} is not of type uint64: {error}") from error
        batch = batch.set_column(number, field.name, values)
    return batch


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


def _erased(rows: pa.RecordBatch) -> pa.RecordBatch:
    """One erasure of each row, up to its timestamp if it has one."""
    times = rows.column(TIMESTAMP) if TIMESTAMP in rows.schema.names else None
    return from_cells_table(each_once(erasures(rows.column(ROW), times, WHOLE_ROW)))
