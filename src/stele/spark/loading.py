"""``ss.bulk_load``: a DataFrame becomes files of a table, and the files become part of it at once.

The driver begins an import, cuts the rows into parts along the borders of tablets, lets every part
be sorted and written by one task, and commits the files that the tasks name. Nothing of it is seen
before, everything after. A load has a name, its job id: a load that is run again under the same
name, after whatever happened, finds that it is done or does it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from stele.env.failpoints import declare, failpoint
from stele.errors import InvalidArgument
from stele.model.arrow_input import NullRule, encoded_rows
from stele.model.durations import parse_duration
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json, schema_to_json
from stele.spark.cells_form import check_cells
from stele.spark.frames import column_types
from stele.spark.jobs import begun_job
from stele.spark.load_columns import LoadColumns, cell_columns, load_columns, quoted
from stele.spark.load_cuts import Splits, check_splits, find_cuts
from stele.spark.load_fit import check_types
from stele.spark.load_progress import Show, Watch, chosen_show, row_counter
from stele.spark.load_routing import part_number
from stele.spark.load_task import MANIFEST, LoadTask, run_load
from stele.spark.reading import TableLike, opened, parallelism
from stele.spark.row_sorter import ROW
from stele.spark.shapes import Shape
from stele.spark.spark_types import spark_schema
from stele.spark.world import CLOCK
from stele.storage.fragment_format import FragmentInfo
from stele.storage.import_columns import ImportColumns
from stele.storage.import_files import ImportTicket, check_job, decode_files

AFTER_BEGIN = declare("spark.load.after_begin")
AFTER_TASKS = declare("spark.load.after_tasks")
AFTER_COMMIT = declare("spark.load.after_commit")

TTL_DEFAULT = "1h"
"""How long after the death of a driver its load is given up."""

_KEY = "__stele_key"


@dataclass(frozen=True, slots=True)
class Report:
    """What a load did. One that was done before has a txn and nothing else."""

    job_id: str
    txn: int
    rows: int = 0
    cells: int = 0
    size_bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    done_before: bool = False


def bulk_load(
    spark: Any,
    df: Any,
    table: TableLike,
    *,
    row: str | Sequence[str] | None = None,
    family: str | None = None,
    timestamp: str | None = None,
    op: str | None = None,
    nulls: NullRule = "skip",
    job_id: str | None = None,
    splits: Splits = "auto",
    shape: Shape = "rows",
    ttl: str = TTL_DEFAULT,
    progress: bool | Show | None = None,
) -> Report:
    """Load a DataFrame into a table: all of it at one txn, or nothing of it.

    ``row`` is the column of the key, or the columns of its parts. The others are named
    ``family:qualifier``, or as the schema declares them, or ``family`` says where they go.
    ``timestamp`` and ``op`` are columns with the time of a row's cells, and with ``'put'`` or
    ``'delete'``, which erases the row. ``nulls`` says what a null means: nothing (``skip``), or
    that the column is erased (``delete``). A map from qualifiers to values, named as a family, is
    all cells of that family. With ``shape="cells"`` each line is a cell, in the columns that
    ``ss.read`` of that shape gives, and perhaps ``op`` (``put``, ``delete`` or an erasure by its
    name); none of the arguments above concerns them. Two loads with one ``job_id`` are one.
    ``progress`` shows a bar, by default on a terminal and in a notebook; a function is called with
    a :class:`LoadProgress` instead.
    """
    types = column_types(df)
    _check(df, nulls, shape)
    job = uuid.uuid4().hex if job_id is None else check_job(job_id)
    check_splits(splits)
    ttl_us = parse_duration(ttl, "ttl")
    show = chosen_show(progress)
    started = CLOCK.monotonic_us()
    with opened(table) as (handle, _):
        schema = handle.schema  # of the whole job, whatever becomes of the table's
        meaning = {"row": row, "family": family, "timestamp": timestamp, "op": op}
        columns = _columns(types, df.schema, schema, shape, nulls, meaning)
        with begun_job(handle, job, ttl_us) as ticket:
            if ticket.txn is not None:
                return Report(ticket.job, ticket.txn, done_before=True)
            failpoint(AFTER_BEGIN)
            counter = row_counter(spark)
            with Watch(show, ticket, counter).shown() as watch:
                frame = _canonical(df, schema, columns)
                cuts = find_cuts(frame, handle, splits, parallelism(spark))
                watch.loading(cuts.count)
                task = _task(handle.name, schema, ticket, columns, nulls)
                lines = _run(frame, columns, cuts.rows, task, counter)
                failpoint(AFTER_TASKS)
                watch.publishing()
                files = [info for line in lines for info in decode_files(bytes(line["files"]))]
                txn = handle.core.backend.commit_import(
                    ticket.job,
                    ticket.token,
                    files,
                    columns=ImportColumns.of(schema, columns.written),
                )
                failpoint(AFTER_COMMIT)
                watch.done()
    seconds = (CLOCK.monotonic_us() - started) / 1e6
    return _report(ticket, txn, lines, files, seconds)


def _check(df: Any, nulls: str, shape: str) -> None:
    if nulls not in ("skip", "delete"):
        raise InvalidArgument(f"nulls is 'skip' or 'delete', not {nulls!r}")
    if not hasattr(df, "repartitionById"):
        raise InvalidArgument("bulk loads need Spark 4.1 or newer: pip install -U 'steledb[spark]'")
    if shape not in ("rows", "cells"):
        raise InvalidArgument(f"shape is 'rows' or 'cells', not {shape!r:.80}")


def _report(
    ticket: ImportTicket, txn: int, lines: list[Any], files: list[FragmentInfo], seconds: float
) -> Report:
    return Report(
        ticket.job,
        txn,
        rows=sum(line["rows"] for line in lines),
        cells=sum(line["cells"] for line in lines),
        size_bytes=sum(line["bytes"] for line in lines),
        files=len(files),
        seconds=seconds,
    )


def _columns(
    types: dict[str, str],
    fields: Any,
    schema: Schema,
    shape: Shape,
    nulls: NullRule,
    meaning: dict[str, Any],
) -> LoadColumns:
    """What the columns of a DataFrame are, by the arguments that say what they mean."""
    if shape == "cells":
        check_cells(types, **meaning, nulls=None if nulls == "skip" else nulls)
        return cell_columns(schema, types)
    columns = load_columns(schema, types, **meaning)
    check_types(schema, columns, fields)
    return columns


def _task(
    table: str, schema: Schema, ticket: ImportTicket, columns: LoadColumns, nulls: NullRule
) -> bytes:
    return msgspec.msgpack.encode(
        LoadTask(
            ticket=ticket,
            table=table,
            schema_json=schema_to_json(schema).decode(),
            nulls=nulls,
            keys_are_encoded=not columns.key_is_bytes,
            cells=columns.cells,
        )
    )


def _canonical(df: Any, schema: Schema, columns: LoadColumns) -> Any:
    """The DataFrame with the names that tasks know, and the encoded key."""
    if columns.key_is_bytes:
        return df.selectExpr(*columns.selection(f"CAST({quoted(columns.key[0])} AS BINARY)"))
    text, names = schema_to_json(schema), list(columns.key)

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own = schema_from_json(text)
        for batch in batches:
            rows = encoded_rows(own, batch, names)
            yield batch.append_column(_KEY, rows)

    from pyspark.sql.types import BinaryType, StructField, StructType

    widened = StructType([*df.schema.fields, StructField(_KEY, BinaryType())])
    return df.mapInArrow(encode, widened).selectExpr(*columns.selection(quoted(_KEY)))


def _run(
    frame: Any, columns: LoadColumns, cuts: Sequence[bytes], task: bytes, counter: Any
) -> list[Any]:
    """Move every row to its part, and let each part be written; what the tasks say."""
    from pyspark.sql.functions import expr

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a load runs in a task"
        counted = batches if counter is None else _counted(batches, counter)
        return run_load(task, counted, context.partitionId(), context.taskAttemptId())

    keyed = _refusing_null_keys(frame, columns)
    moved = keyed.repartitionById(len(cuts) + 1, expr(part_number(quoted(ROW), cuts)))
    return list(moved.mapInArrow(load, spark_schema(MANIFEST)).collect())


def _counted(batches: Iterator[pa.RecordBatch], counter: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        counter.add(batch.num_rows)
        yield batch


def _refusing_null_keys(frame: Any, columns: LoadColumns) -> Any:
    """The same rows; Spark would send one without a key to part 0 without a word."""
    names = ", ".join(columns.key).replace("'", "")
    sentence = f"stele.errors.InvalidArgument: key column {names} is null in the row "
    line = f"to_json(struct({', '.join(map(quoted, frame.columns))}))"
    refusal = f"CAST(raise_error(concat('{sentence}', {line})) AS BINARY)"
    key = f"coalesce({quoted(ROW)}, {refusal}) AS {quoted(ROW)}"
    return frame.selectExpr(key, *(quoted(name) for name in frame.columns if name != ROW))
