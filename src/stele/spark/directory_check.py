"""``ss.check_database``: a whole directory that nobody has open, read to its end by executors.

What ``stele check --deep`` does in one process: META, the catalog, files and logs are compared with
each other, what can be mended without guessing is planned, and carried out on request, with a
record of how to take it back. Only the reading is done elsewhere, and that is what takes the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from stele.errors import DirectoryInUse, InvalidArgument
from stele.spark.addresses import CLUSTER_SCHEME
from stele.spark.reading import parallelism
from stele.spark.spark_types import spark_schema
from stele.spark.world import DirectoryReport, check_directory, files_at
from stele.storage.deep_check import Examine, wrong_with_fragment, wrong_with_log

FILES_PER_TASK = 64

WRONG = pa.schema([("path", pa.string()), ("wrong", pa.string())])


class ExamineTask(msgspec.Struct, frozen=True):
    """Files of a directory, or a log of it."""

    location: str
    fragments: tuple[str, ...] = ()
    log: str | None = None


_TASKS = msgspec.msgpack.Decoder(ExamineTask)


def check_database(
    spark: Any, path: str | os.PathLike[str], *, repair: bool = False
) -> DirectoryReport:
    """Check the database in a directory that no process has open; ``repair`` mends it.

    The report has ``findings``, the ``plan`` of what can be done about them, and after a repair
    ``repaired`` and ``undo_files``, each of which ``stele check --undo`` takes back.
    """
    place = os.fspath(path)
    if place.startswith(CLUSTER_SCHEME):
        raise InvalidArgument(f"{place} is a cluster: check its tables with ss.check")
    try:
        return check_directory(os.path.abspath(place), repair, examine_with(spark, place))
    except DirectoryInUse as error:
        raise DirectoryInUse(
            f"a process has the database in {place!r} open, and this check is for one that nobody "
            f"has: close it, or end that process, and run it again; ss.check reads the tables of "
            f"one that is open"
        ) from error


def examine_with(spark: Any, path: str) -> Examine:
    """Read the files and logs of a directory with the executors of a session."""
    location = os.path.abspath(path)

    def examine(fragments: Sequence[str], logs: Sequence[str]) -> Mapping[str, str]:
        tasks = make_tasks(location, fragments, logs, parallelism(spark))
        if not tasks:
            return {}

        def run(batches: Any) -> Any:
            return run_tasks(tasks, batches)

        frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, spark_schema(WRONG))
        return {line["path"]: line["wrong"] for line in frame.collect()}

    return examine


def make_tasks(
    location: str, fragments: Sequence[str], logs: Sequence[str], at_a_time: int
) -> list[bytes]:
    """Logs first, each a task; then files, as evenly as their number says."""
    count = min(len(fragments), max(at_a_time, -(-len(fragments) // FILES_PER_TASK)))
    tasks = [ExamineTask(location, log=log) for log in logs]
    tasks += [ExamineTask(location, tuple(fragments[number::count])) for number in range(count)]
    return [msgspec.msgpack.encode(task) for task in tasks]


def run_tasks(
    tasks: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` calls: a line for each path that something is wrong with."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            task = _TASKS.decode(tasks[number])
            files = files_at(task.location)
            found = {path: wrong_with_fragment(files, path) for path in task.fragments}
            if task.log is not None:
                found[task.log] = wrong_with_log(files, task.log)
            lines = [{"path": path, "wrong": wrong} for path, wrong in found.items() if wrong]
            yield pa.RecordBatch.from_pylist(lines, schema=WRONG)
