"""``ss.check``: every file of a table read to its end, by all executors, beside live traffic.

The driver pins the table and looks at what the plan says by itself: whether its tablets cover all
rows, once each, and refer to rows of their own. Executors then read each file once: its checksums,
its order, its bounds, and that it is the file its references mean. ``stele check`` does the same
for a whole database that nobody has open, with META, logs and files that nobody refers to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec
import pyarrow as pa

from stele.env.ports import FileSystem
from stele.errors import NotFound
from stele.model.durations import parse_duration
from stele.spark.native import Frame
from stele.spark.pinning import KEEPER
from stele.spark.reading import LEASE_DEFAULT, TableLike, held_pin, opened, parallelism
from stele.spark.spark_types import spark_schema
from stele.spark.world import files_at
from stele.storage.deep_check import UNREADABLE, wrong_with_fragment
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_reader import FragmentReader
from stele.storage.read_plan import ReadPlan

Kind = Literal[
    "gap",
    "overlap",
    "no-last-tablet",
    "reference-outside",
    "missing-file",
    "short-file",
    "wrong-file",
    "damaged-file",
]
"""What can be wrong, by the names that ``stele check`` has for it."""

FINDING_FIELDS = pa.schema(
    [pa.field(name, pa.string()) for name in ("kind", "table", "subject", "detail")]
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: Kind
    table: str
    subject: str
    """A file, or rows."""
    detail: str
    """A sentence for people."""


FILES_PER_TASK = 8
"""Enough to make up for starting a task, few enough to share them evenly."""


class CheckTask(msgspec.Struct, frozen=True):
    """Files of one table."""

    location: str
    table: str
    files: tuple[FragmentInfo, ...]


_TASKS = msgspec.msgpack.Decoder(CheckTask)


def check(spark: Any, table: TableLike, *, lease: str = LEASE_DEFAULT) -> Frame:
    """A DataFrame with a line for each thing that is wrong with a table: none, if all is well."""
    ttl_us = parse_duration(lease, "lease")
    with opened(table) as (handle, address):
        plan = handle.core.backend.pin(None, ttl_us)
        KEEPER.hold(held_pin(handle, address, plan, ttl_us))
    schema = spark_schema(FINDING_FIELDS)
    known = spark.createDataFrame(_lines(check_plan(plan)).to_pylist(), schema)
    tasks = make_checks(plan, parallelism(spark))
    if not tasks:
        return known

    def run(batches: Any) -> Any:
        return run_checks(tasks, batches)

    return known.unionByName(spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, schema))


def check_plan(plan: ReadPlan) -> list[Finding]:
    """What is wrong with the tablets of a plan, as far as no file has to be opened for it."""
    found = []
    reached: bytes | None = b""
    for tablet in plan.tablets:
        start, rows = tablet.rows.start, str(tablet.rows)
        if reached is None or start < reached:
            detail = "this tablet overlaps the one before it"
            found.append(Finding("overlap", plan.name, rows, detail))
        elif start > reached:
            detail = f"no tablet has the rows from {reached!r} to here"
            found.append(Finding("gap", plan.name, rows, detail))
        found += [
            Finding(
                "reference-outside",
                plan.name,
                reference.file.name,
                f"the tablet of rows {rows} refers to rows {reference.rows}",
            )
            for reference in tablet.references
            if not tablet.rows.covers(reference.rows)
        ]
        reached = tablet.rows.end
    if reached is not None:
        detail = f"no tablet has the rows from {reached!r} on"
        found.append(Finding("no-last-tablet", plan.name, repr(reached), detail))
    return found


def make_checks(plan: ReadPlan, at_a_time: int) -> list[bytes]:
    """The tasks that look at each file of a plan once, large files first and apart."""
    files = {
        file
        for tablet in plan.tablets
        for reference in tablet.references
        for file in reference.file.files
    }
    ordered = sorted(files, key=lambda file: (-file.size, file.name))
    count = min(len(ordered), max(at_a_time, -(-len(ordered) // FILES_PER_TASK)))
    return [
        msgspec.msgpack.encode(CheckTask(plan.location, plan.name, tuple(ordered[number::count])))
        for number in range(count)
    ]


def run_checks(
    tasks: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` calls: the first column of its input has the numbers of tasks."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            task = _TASKS.decode(tasks[number])
            files = files_at(task.location, task.table)
            found = [
                Finding(wrong[0], task.table, info.name, wrong[1])
                for info in task.files
                if (wrong := wrong_with(files, info)) is not None
            ]
            yield _lines(found)


def wrong_with(files: FileSystem, expected: FragmentInfo) -> tuple[Kind, str] | None:
    """What is wrong with a file, read from beginning to end."""
    try:
        with files.open_read(expected.name) as file:
            size = file.size()
    except NotFound:
        return "missing-file", "there is no such file"
    if size != expected.size:
        kind: Kind = "short-file" if size < expected.size else "wrong-file"
        return kind, f"it has {size} bytes, not {expected.size}"
    try:
        FragmentReader.open(files, expected.name, expected).close()
    except UNREADABLE as error:
        return "wrong-file", str(error)
    damage = wrong_with_fragment(files, expected.name)
    return None if damage is None else ("damaged-file", damage)


def _lines(findings: Sequence[Finding]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([asdict(each) for each in findings], schema=FINDING_FIELDS)
