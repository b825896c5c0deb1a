"""What an executor does for a compaction: merge some rows of some units, and write what is left.

The merge is the one that a tablet server runs. Files are named by the job's token, the task and the
attempt, so that an attempt that is repeated never meets the files of another; only what a task
*returns* counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json
from stele.spark.compact_policy import UnitPiece
from stele.spark.world import files_at
from stele.storage.compaction_merge import compacted, stream_of_files
from stele.storage.compaction_work import CompactionUnit, CompactionWork
from stele.storage.fragment_columns_writer import Names, write_typed_fragment
from stele.storage.fragment_options import FragmentOptions
from stele.storage.import_files import FileList, encode_files, writer_names
from stele.storage.references import restrict

AFTER_FILES = declare("spark.compact.after_files")

MANIFEST = pa.schema(
    [("unit", pa.int32()), ("files", pa.binary()), ("cells", pa.int64()), ("bytes", pa.int64())]
)
"""What a task says of each piece: whose it is, its files, and what is in them."""


class CompactTask(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces of units, each with its number and cut to its rows."""

    location: str
    table: str
    name: str
    schema_json: str
    token: str
    pieces: tuple[tuple[int, CompactionUnit], ...]


_TASKS = msgspec.msgpack.Decoder(CompactTask)


def make_task(work: CompactionWork, token: str, pieces: Sequence[UnitPiece]) -> bytes:
    """A task, ready to travel: of each unit only what it reads."""
    return msgspec.msgpack.encode(
        CompactTask(
            location=work.location,
            table=work.table,
            name=work.name,
            schema_json=work.schema_json,
            token=token,
            pieces=tuple((piece.unit, _cut(work.units[piece.unit], piece)) for piece in pieces),
        )
    )


def _cut(unit: CompactionUnit, piece: UnitPiece) -> CompactionUnit:
    inputs = restrict(unit.inputs, piece.rows)
    return msgspec.structs.replace(unit, rows=piece.rows, inputs=inputs, samples=())


def run_compactions(
    tasks: Sequence[bytes], batches: Iterator[pa.RecordBatch], attempt: int
) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` calls: the first column of its input has the numbers of tasks.

    ``attempt`` is of Spark's task: no two have the same, in all rounds of a driver.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield run_task(tasks[number], number, attempt)


def run_task(data: bytes, part: int, attempt: int) -> pa.RecordBatch:
    """Compact the pieces of a task; a line for each that says what was written."""
    task = _TASKS.decode(data)
    files = files_at(task.location, task.name)
    schema = schema_from_json(task.schema_json.encode())
    names = writer_names(task.token, part, attempt)
    lines = []
    for number, unit in task.pieces:
        written = write_unit(files, "", names, task.table, schema, unit)
        lines.append(
            {
                "unit": number,
                "files": encode_files(written),
                "cells": sum(info.summary.cells for info in written),
                "bytes": sum(info.total_bytes for info in written),
            }
        )
    failpoint(AFTER_FILES)
    return pa.RecordBatch.from_pylist(lines, schema=MANIFEST)


def write_unit(
    files: FileSystem,
    directory: str,
    names: Names,
    table: str,
    schema: Schema,
    unit: CompactionUnit,
) -> FileList:
    """Merge a unit and write it in the layout that suits it; durable on return."""
    group = schema.group(unit.group)
    stream_of = stream_of_files(files, directory)
    return write_typed_fragment(
        files,
        directory,
        names,
        compacted(unit.inputs, unit.rows, unit.columns, unit.plan, stream_of),
        table=table,
        columns=schema.typed_columns(group),
        options=FragmentOptions(compression=group.compression, block_cells=group.block_cells),
    )
