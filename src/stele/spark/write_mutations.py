"""Lines of a DataFrame as mutations: a table of cells, not sorted yet, with families as text.

The same checks as for any write, done where the lines are. Several such tables become one sorted
batch in :func:`sorted_mutations`, which refuses what is there twice.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidArgument, InvalidCells
from stele.model.arrow_input import (
    TIMESTAMP_COLUMN,
    encoded_rows,
    from_cells_table,
    from_wide_table,
)
from stele.model.cells import Op
from stele.model.schema import Schema
from stele.spark.erasures import LINES, WHOLE_ROW, each_once, erasures
from stele.spark.load_cells import ENTRIES, FAMILY_MAP, advised, map_cells, with_unsigned
from stele.spark.write_form import WriteForm, refused

PUT, DELETE = "put", "delete"
ROW_OPS = {PUT: Op.PUT, DELETE: Op.ERASE_ROW}
CELL_OPS = {DELETE: Op.ERASE_COLUMN} | {op.name.lower(): op for op in Op}
"""What an op in words means for a cell; numbers are those of the cells format."""

_ROW = "row"


def mutation_lines(schema: Schema, form: WriteForm, batch: pa.RecordBatch) -> pa.Table:
    """The mutations that a batch of lines asks for, as ``LINES``."""
    if form.kind == "cells":
        return _cell_lines(schema, form, batch)
    rows = encoded_rows(schema, batch, list(form.key))
    if form.kind == "deletes":
        return erasures(rows, None, form.erased)
    return _row_lines(schema, form, batch, rows)


def check_fit(schema: Schema, form: WriteForm, lines: pa.Schema) -> None:
    """Refuse lines whose types the table cannot take, whatever is in them."""
    try:
        mutation_lines(schema, form, _no_lines(lines))
    except (InvalidArgument, InvalidCells) as error:
        raise refused(error) from error


def _no_lines(schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _row_lines(schema: Schema, form: WriteForm, batch: pa.RecordBatch, rows: pa.Array) -> pa.Table:
    wide = {_ROW: rows}
    if form.timestamp is not None:
        wide[TIMESTAMP_COLUMN] = batch.column(form.timestamp)
    wide |= {column: batch.column(name) for column, name in form.data}
    wide |= {FAMILY_MAP + family: batch.column(name).cast(ENTRIES) for family, name in form.maps}
    lines = with_unsigned(pa.RecordBatch.from_pydict(wide), schema)
    if form.op is None:
        return _puts(schema, form, lines)
    ops = _ops(batch.column(form.op), ROW_OPS, rows)
    erased = lines.filter(pc.equal(ops, int(Op.ERASE_ROW)))
    times = erased.column(TIMESTAMP_COLUMN) if form.timestamp is not None else None
    puts = _puts(schema, form, lines.filter(pc.equal(ops, int(Op.PUT))))
    return pa.concat_tables([erasures(erased.column(_ROW), times, WHOLE_ROW), puts])


def _puts(schema: Schema, form: WriteForm, lines: pa.RecordBatch) -> pa.Table:
    maps = [FAMILY_MAP + family for family, _ in form.maps]
    parts = [from_cells_table(map_cells(lines, name)) for name in maps]
    if form.data:
        wide = lines.drop_columns(maps)
        with advised():
            parts.append(from_wide_table(schema, wide, row=_ROW, nulls=form.nulls))
    return pa.concat_tables([LINES.empty_table(), *map(_plain, parts)])


def _cell_lines(schema: Schema, form: WriteForm, batch: pa.RecordBatch) -> pa.Table:
    rows = encoded_rows(schema, batch, list(form.key))
    columns = {name: batch.column(name) for name in ("family", "qualifier", "value")}
    if form.timestamp is not None:
        columns["timestamp"] = batch.column(form.timestamp)
    if form.op is not None:
        columns["op"] = ops = _ops(batch.column(form.op), CELL_OPS, rows)
        is_put = pc.equal(ops, int(Op.PUT))
        for name in ("family", "qualifier", "value"):  # what an erasure has not
            column = columns[name]
            nothing = pa.scalar(b"").cast(column.type)
            columns[name] = pc.if_else(is_put, column, pc.fill_null(column, nothing))
    return _plain(sorted_mutations(pa.table({_ROW: rows, **columns})))


def _ops(given: pa.Array, words: dict[str, Op], rows: pa.Array) -> pa.Array:
    """Ops as numbers; what is none is refused by its row."""
    if pa.types.is_integer(given.type):
        numbers = pc.fill_null(given.cast(pa.int64()), -1)
        known = pc.is_in(numbers, pa.array([int(op) for op in Op]))
    else:
        places = pc.index_in(given, pa.array(list(words), given.type))
        known = places.is_valid()
        numbers = pa.array([int(op) for op in words.values()]).take(places)
    wrong = pc.index(known, pa.scalar(False)).as_py()
    if wrong >= 0:
        row = rows[wrong].as_py()
        raise InvalidCells(
            f"the op of row {row[:64]!r} is {given[wrong].as_py()!r}: it is {', '.join(words)}"
        )
    return numbers.cast(pa.int8())


def _plain(mutations: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([mutations]).cast(LINES)


def sorted_mutations(lines: pa.Table) -> pa.RecordBatch:
    """One sorted ``MUTATIONS`` batch; the same erasure twice is one, the same cell is refused."""
    if "op" in lines.schema.names:
        erases = pc.not_equal(lines.column("op"), int(Op.PUT))
        if pc.any(erases).as_py():
            once = each_once(lines.filter(erases))
            lines = pa.concat_tables([once, lines.filter(pc.invert(erases))])
    with advised():
        return from_cells_table(lines)
