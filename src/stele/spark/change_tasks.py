"""Tasks of a change feed: which files hold a range of txns, cut into even parts; reading them.

What a task costs grows with the changes and the files that hold them, not with the table: tablets
without a change have no task, files without a txn of the range are opened only for rows that
changed, and then only in the blocks that may have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa

from stele.errors import Corruption, InvalidArgument
from stele.model.ranges import RowRange
from stele.model.schema_json import schema_from_json
from stele.spark.change_options import ChangeRequest
from stele.spark.partition_policy import Piece, cut_evenly, wanted_partitions
from stele.spark.routes import relevant
from stele.spark.world import files_at
from stele.storage.change_reader import ChangeReader, may_hold
from stele.storage.read_plan import ReadPlan, TabletPlan
from stele.storage.reference_streams import first_row, last_row
from stele.storage.references import References

ONE_TASK_BYTES = 1024 * 1024
"""Files of a range that are too small to be worth a second task."""


class ChangeTask(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces of one table, a range of txns, and how its changes are told."""

    location: str
    table: str
    since: int
    until: int
    schema_json: str
    request: ChangeRequest
    pieces: tuple[Piece, ...]
    fields: tuple[str, ...] | None = None
    """Columns of the answer, in order; ``None`` for all."""


_TASKS = msgspec.msgpack.Decoder(ChangeTask)


def make_change_tasks(
    plan: ReadPlan,
    since: int,
    until: int,
    request: ChangeRequest,
    parallelism: int,
    fields: tuple[str, ...] | None = None,
) -> list[bytes]:
    """The tasks of a range of txns, ready to travel; none where nothing can have changed."""
    tablets = changed_tablets(relevant(plan, request.read), since, until, request.mode == "all")
    asked = msgspec.structs.replace(request, read=request.read.of_a_task)
    wanted = request.read.partitions or _partitions(tablets, since, until, parallelism)
    return [
        msgspec.msgpack.encode(
            ChangeTask(
                location=plan.location,
                table=plan.name,
                since=since,
                until=until,
                schema_json=plan.schema_json,
                request=asked,
                pieces=pieces,
                fields=fields,
            )
        )
        for pieces in cut_evenly(tablets, request.read.spec.ranges, wanted)
    ]


def changed_tablets(
    tablets: Iterable[TabletPlan], since: int, until: int, only_changed: bool
) -> list[TabletPlan]:
    """Tablets that may have changed, narrowed to the rows that may have.

    ``only_changed`` leaves out the files that hold no change: who tells every mutation needs none
    of them, who compares two moments does.
    """
    found = []
    for tablet in tablets:
        changed = _holding(tablet.references, since, until)
        if changed:
            first, last = min(map(first_row, changed)), max(map(last_row, changed))
            rows = tablet.rows.intersect(RowRange(first, last + b"\0"))
            assert rows is not None, "references of a tablet are fenced to its rows"
            shown = changed if only_changed else tablet.references
            found.append(msgspec.structs.replace(tablet, rows=rows, references=shown))
    return found


def _holding(references: References, since: int, until: int) -> References:
    return tuple(reference for reference in references if may_hold(reference, since, until))


def _partitions(tablets: Sequence[TabletPlan], since: int, until: int, parallelism: int) -> int:
    sizes = {
        reference.file.name: reference.file.total_bytes
        for tablet in tablets
        for reference in _holding(tablet.references, since, until)
    }
    size_bytes = sum(sizes.values())
    return 1 if size_bytes < ONE_TASK_BYTES else wanted_partitions(size_bytes, parallelism)


def run_change_task(data: bytes) -> Iterator[pa.RecordBatch]:
    """The lines of one task."""
    try:
        task = _TASKS.decode(data)
    except (msgspec.DecodeError, InvalidArgument) as error:
        raise Corruption(f"not a task of this version of Stele: {error}") from error
    schema = schema_from_json(task.schema_json.encode())
    telling = task.request.telling(schema)
    files = files_at(task.location, task.table)
    reader = ChangeReader(files, "", task.since, task.until, schema.served)
    for piece in task.pieces:
        for lines in telling.lines(reader, piece.references, piece.rows):
            yield lines if task.fields is None else lines.select(list(task.fields))
