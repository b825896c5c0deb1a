"""What an executor does for a load: sort its part, write it as files, and say which.

A task gets all rows of one range, in any order, as wide rows with canonical names: ``row`` with the
encoded key, ``_timestamp``, ``_op``, and ``family:qualifier`` for the rest. It sorts them, within a
bound of memory, makes cells of them, checked like any write, and writes one fragment for each
locality group, in the layout that suits it. Every cell has txn 0: the import will number them.

Names of files are made of the job's token, the part and the attempt, so that an attempt that is
repeated, or runs twice at a time, never meets the files of another. Only what the task *returns*
counts: Spark hands the driver the answer of exactly one attempt.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.env.failpoints import declare, failpoint
from stele.errors import InvalidCells
from stele.kernels.block import Block
from stele.model.arrays import flatten
from stele.model.arrow_input import NullRule, from_wide_table
from stele.model.cell_order import sort_cells
from stele.model.cells import MUTATIONS, ROW_ERASURE_FAMILY, TIMESTAMP_MAX, Op, no_mutations
from stele.model.columns import Column
from stele.model.groups import Group
from stele.model.mutations import stamp
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json
from stele.spark.row_sorter import MEMORY_BYTES_MAX, ROW, RowSorter
from stele.spark.world import files_at
from stele.storage.fragment_columns_writer import write_typed_fragment
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.storage.import_files import ImportTicket, encode_files, writer_names
from stele.storage.references import IMPORT_TXN

AFTER_SORT = declare("spark.load.after_sort")
AFTER_FILES = declare("spark.load.after_files")

TIMESTAMP = "_timestamp"
OP = "_op"
PUT, DELETE = "put", "delete"

CELLS_PER_BATCH = 131_072
"""Cells made at a time, about."""

MANIFEST = pa.schema(
    [("files", pa.binary()), ("rows", pa.int64()), ("cells", pa.int64()), ("bytes", pa.int64())]
)
"""What a task says: its files, and what is in them."""


class LoadTask(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that all tasks of a load need to know."""

    ticket: ImportTicket
    table: str
    schema_json: str
    nulls: NullRule
    memory_bytes_max: int = MEMORY_BYTES_MAX


def run_load(
    data: bytes, batches: Iterator[pa.RecordBatch], part: int, attempt: int
) -> Iterator[pa.RecordBatch]:
    """Load the rows of one part; one line that says what was written, or none for no rows."""
    task = msgspec.msgpack.decode(data, type=LoadTask)
    schema = schema_from_json(task.schema_json.encode())
    with tempfile.TemporaryDirectory(prefix="stele-load-") as directory:
        sorter: RowSorter | None = None
        for batch in batches:
            if sorter is None:
                width = max(1, batch.num_columns - 1)
                rows = max(1, CELLS_PER_BATCH // width)
                sorter = RowSorter(directory, rows, task.memory_bytes_max)
            sorter.add(batch)
        if sorter is None or not sorter.rows:
            return
        failpoint(AFTER_SORT)
        files = _write(task, schema, sorter, part, attempt)
    failpoint(AFTER_FILES)
    cells = sum(info.summary.cells for info in files)
    size = sum(info.total_bytes for info in files)
    line = [[encode_files(files)], [sorter.rows], [cells], [size]]
    yield pa.RecordBatch.from_arrays(
        [pa.array(value, field.type) for value, field in zip(line, MANIFEST, strict=True)],
        schema=MANIFEST,
    )


def _write(
    task: LoadTask, schema: Schema, sorter: RowSorter, part: int, attempt: int
) -> list[FragmentInfo]:
    files = files_at(task.ticket.location, task.table)
    names = writer_names(task.ticket.token, part, attempt)
    written: list[FragmentInfo] = []
    for group in schema.groups:
        written += write_typed_fragment(
            files,
            "",
            names,
            _blocks(task, schema, group, sorter),
            table=task.ticket.table,
            columns=schema.typed_columns(group),
            options=FragmentOptions(compression=group.compression, block_cells=group.block_cells),
        )
    return written


def _blocks(task: LoadTask, schema: Schema, group: Group, sorter: RowSorter) -> Iterator[Block]:
    """The cells of one group, in order."""
    for batch in sorter.batches():
        cells = group_cells(batch, schema, group, task.nulls, task.ticket.timestamp)
        if cells.num_rows:
            yield Block.from_batch(cells)


def group_cells(
    batch: pa.RecordBatch, schema: Schema, group: Group, nulls: NullRule, timestamp: int
) -> pa.RecordBatch:
    """``CELLS`` with txn 0 of the columns of a group, and its row erasures."""
    names = batch.schema.names
    mine = [name for name in names if ":" in name and _in_group(schema, group, name)]
    times = [TIMESTAMP] if TIMESTAMP in names else []
    if OP in names:
        deletes = _is_delete(batch)
        puts = batch.filter(pc.invert(deletes))
        erased = _erasures(batch.filter(deletes))
    else:
        puts, erased = batch, None
    mutations = no_mutations()
    if mine and puts.num_rows:
        wide = puts.select([ROW, *times, *mine])
        mutations = from_wide_table(schema, wide, row=ROW, nulls=nulls)
    if erased is not None and erased.num_rows:
        united = pa.Table.from_batches([mutations, erased]).unify_dictionaries()
        mutations = sort_cells(united.combine_chunks().to_batches()[0])
    if not mutations.num_rows:
        return stamp(mutations, timestamp)
    cells = stamp(mutations, timestamp)
    zeros = pa.array(np.full(cells.num_rows, IMPORT_TXN, np.int64))
    return cells.set_column(cells.schema.get_field_index("txn"), cells.schema.field("txn"), zeros)


def _in_group(schema: Schema, group: Group, name: str) -> bool:
    found = schema.group_of(Column.parse(name).family)
    return found is not None and found.name == group.name


def _is_delete(batch: pa.RecordBatch) -> pa.Array:
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
