"""A task: what one executor reads, as bytes; and reading it.

A task is complete in itself. It runs in a Python worker, perhaps on another machine, that sees the
files and nothing else of the store: it opens them after the fork, merges, and hands over Arrow
batches of a size that Spark likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa

from stele.env.failpoints import declare, failpoint
from stele.errors import Corruption, InvalidArgument
from stele.model.schema_json import schema_from_json
from stele.spark.partition_policy import Piece
from stele.spark.requests import ReadRequest
from stele.spark.world import files_at
from stele.storage.plan_reader import PlanReader
from stele.storage.read_plan import ReadPlan

AFTER_LINES = declare("spark.read.after_lines")

BATCH_CELLS = 65_536
"""Cells gathered before they are converted: fewer make Spark spend its time between batches."""

BATCH_BYTES = 32 * 1024 * 1024
"""Bytes after which fewer will do."""


class ReadTask(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces of one table at one txn, and the shape they are wanted in."""

    location: str
    table: str
    txn: int
    schema_json: str
    request: ReadRequest
    pieces: tuple[Piece, ...]
    fields: tuple[str, ...] | None = None
    """Columns of the answer, in order; ``None`` for all."""


_TASKS = msgspec.msgpack.Decoder(ReadTask)


def make_tasks(
    plan: ReadPlan,
    request: ReadRequest,
    pieces: Iterable[tuple[Piece, ...]],
    fields: tuple[str, ...] | None = None,
) -> list[bytes]:
    """The tasks of a plan, ready to travel."""
    asked = request.of_a_task
    return [
        msgspec.msgpack.encode(
            ReadTask(
                location=plan.location,
                table=plan.name,
                txn=plan.txn,
                schema_json=plan.schema_json,
                request=asked,
                pieces=mine,
                fields=fields,
            )
        )
        for mine in pieces
    ]


def run_numbered(
    tasks: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` calls: the first column of its input has the numbers of tasks."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from run_task(tasks[number])


def run_task(data: bytes) -> Iterator[pa.RecordBatch]:
    """The lines of one task."""
    try:
        task = _TASKS.decode(data)
    except (msgspec.DecodeError, InvalidArgument) as error:
        raise Corruption(f"not a task of this version of Stele: {error}") from error
    schema = schema_from_json(task.schema_json.encode())
    converter = task.request.converter(schema)
    reader = PlanReader(files_at(task.location, task.table), "", task.txn, schema.served)
    spec = task.request.cell_spec(schema)
    blocks = (
        block.batch
        for piece in task.pieces
        for block in reader.read(piece.references, piece.rows, spec)
    )
    for cells in gathered(blocks):
        lines = converter.convert(cells)
        yield lines if task.fields is None else lines.select(list(task.fields))
        failpoint(AFTER_LINES)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same cells in fewer, larger batches; whole rows stay together."""
    waiting: list[pa.RecordBatch] = []
    cells = size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        cells += batch.num_rows
        size_bytes += batch.nbytes
        if cells >= BATCH_CELLS or size_bytes >= BATCH_BYTES:
            yield _joined(waiting)
            waiting, cells, size_bytes = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]
