"""``ss.backup`` and ``ss.restore``: a table at one txn as a directory of its own, and back.

A backup is a copy of the files of a pinned table, byte for byte and read again after the copy, and
the plan that says what to make of them. The plan is written last: a directory without one is no
backup. A restore merges the files, tablet by tablet, and imports the result into a new table: all
of it at one txn, or nothing. Every version that could be read when the backup was made is there
again, with its timestamp; erased cells are not, and txns are new.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import crc32c
import msgspec
import numpy as np
import pyarrow as pa

from stele.client.database import Database
from stele.client.table import Table
from stele.client.times import At
from stele.errors import AlreadyExists, Corruption, InvalidArgument, NotFound
from stele.kernels.block import Block
from stele.model.durations import parse_duration
from stele.model.groups import Group
from stele.model.predicates import CellSpec
from stele.spark.checking import wrong_with
from stele.spark.jobs import begun_job, told
from stele.spark.pinning import KEEPER
from stele.spark.reading import LEASE_DEFAULT, TableLike, held_pin, opened
from stele.spark.spark_types import spark_schema
from stele.spark.world import files_at, open_database
from stele.storage.fragment_columns_writer import write_typed_fragment
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.storage.import_columns import ImportColumns
from stele.storage.import_files import (
    RESTORE_JOB,
    ImportTicket,
    decode_files,
    encode_files,
    writer_names,
)
from stele.storage.plan_reader import PlanReader
from stele.storage.read_plan import ReadPlan, decode_plan, encode_plan
from stele.storage.references import IMPORT_TXN

MAGIC = b"stele-table-backup-1\n"
CHECKSUM_BYTES = 4
PLAN_FILE = "plan"
FILES_DIRECTORY = "files"

_ANSWER = pa.schema([("files", pa.binary())])


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What a backup holds."""

    path: str
    txn: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a restore."""

    table: str
    txn: int
    cells: int


def backup(
    spark: Any, table: TableLike, path: str, *, at: At = None, lease: str = LEASE_DEFAULT
) -> BackedUp:
    """Copy a table, as it is now or was at ``at``, into a new directory that all executors see."""
    path = os.path.abspath(path)
    if os.path.isdir(path) and os.listdir(path):
        raise AlreadyExists(f"there is something in {path} already: back up to a new directory")
    ttl_us = parse_duration(lease, "lease")
    with opened(table) as (handle, address):
        core = handle.core
        plan = core.backend.pin(core.cell_spec(None, 1, None, (), None, at).at, ttl_us)
        KEEPER.hold(held_pin(handle, address, plan, ttl_us))
        try:
            _make_directory(path)
            files = sorted(files_of(plan), key=lambda file: -file.size)
            with told(f"table {handle.name!r} is not backed up to {path}"):
                _run(spark, [_encoded(plan.location, path, file) for file in files], run_copies)
        finally:
            KEEPER.release(plan.lease)
    write_plan(path, plan)
    copied = [part for file in files for part in file.files]
    return BackedUp(path, plan.txn, len(copied), sum(part.size for part in copied))


def _make_directory(path: str) -> None:
    try:
        os.makedirs(os.path.join(path, FILES_DIRECTORY), exist_ok=True)
    except OSError as error:
        raise InvalidArgument(f"no backup can be made in {path}: {error}") from error


def restore(spark: Any, path: str, database: Database | str, name: str) -> Restored:
    """Make a new table of a backup, in an open database or in a directory, also a new one."""
    if not isinstance(database, Database):
        with open_database(os.path.abspath(database)) as there:
            return restore(spark, path, there, name)
    plan = read_plan(os.path.abspath(path))
    borders = [tablet.rows.start for tablet in plan.tablets if tablet.rows.start]
    table = database.create_table(name, plan.schema, splits=borders)
    try:
        return _restore(spark, plan, table)
    except BaseException:
        with suppress(NotFound):
            database.drop_table(name, keep="0s")
        raise


def _restore(spark: Any, plan: ReadPlan, table: Table) -> Restored:
    """Fill an empty table."""
    job, backend = f"{RESTORE_JOB}{uuid.uuid4().hex}", table.core.backend
    columns = ImportColumns.of(table.schema)
    with begun_job(table, job, parse_duration(LEASE_DEFAULT, "lease")) as ticket:
        answers = _run(spark, make_restores(plan, ticket), run_restores)
        files = [file for answer in answers for file in decode_files(answer)]
        if files:
            txn = backend.commit_import(job, ticket.token, files, columns=columns)
        else:
            txn = backend.durable_txn()
            backend.abort_import(job, ticket.token)
    return Restored(table.name, txn, sum(file.summary.cells for file in files))


def _run(spark: Any, tasks: list[bytes], work: Any) -> list[bytes]:
    """What each task answers."""
    if not tasks:
        return []

    def run(batches: Any) -> Any:
        from pyspark import TaskContext

        return work(tasks, TaskContext.get().taskAttemptId(), batches)

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, spark_schema(_ANSWER))
    return [bytes(line.files) for line in frame.collect()]


def files_of(plan: ReadPlan) -> set[FragmentInfo]:
    """Every file that a plan needs, with its companion."""
    return {reference.file for tablet in plan.tablets for reference in tablet.references}


# The directory of a backup.


def write_plan(path: str, plan: ReadPlan) -> None:
    """Make a directory of copied files a backup."""
    data = encode_plan(msgspec.structs.replace(plan, location="", lease=""))
    checksum = crc32c.crc32c(data).to_bytes(CHECKSUM_BYTES, "big")
    files = files_at(path, plan.name)
    files.sync_dir(FILES_DIRECTORY)
    files.write_atomic(PLAN_FILE, MAGIC, checksum, data)


def read_plan(path: str) -> ReadPlan:
    """The plan of a backup, for the files where they are now."""
    try:
        data = files_at(path, "backup").read_all(PLAN_FILE)
    except NotFound as error:
        raise InvalidArgument(f"{path} is no backup, or one that was not finished") from error
    start = len(MAGIC) + CHECKSUM_BYTES
    checksum = int.from_bytes(data[len(MAGIC) : start], "big")
    if not data.startswith(MAGIC) or crc32c.crc32c(data[start:]) != checksum:
        raise Corruption("not the plan of a backup", file=os.path.join(path, PLAN_FILE))
    location = os.path.join(path, FILES_DIRECTORY)
    return msgspec.structs.replace(decode_plan(data[start:]), location=location)


# What executors do.


class CopyTask(msgspec.Struct, frozen=True):
    """One file, and its companion."""

    source: str
    path: str
    file: FragmentInfo


def _encoded(source: str, path: str, file: FragmentInfo) -> bytes:
    return msgspec.msgpack.encode(CopyTask(source, os.path.join(path, FILES_DIRECTORY), file))


def run_copies(
    tasks: Sequence[bytes], attempt: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Copy files, each with its companion, and read the copies to their ends."""
    for data in _numbered(tasks, batches):
        task = msgspec.msgpack.decode(data, type=CopyTask)
        for part in task.file.files:
            _copy(task.source, task.path, part.name, attempt)
        wrong = wrong_with(files_at(task.path, "backup"), task.file)
        if wrong is not None:
            raise Corruption(wrong[1], file=os.path.join(task.path, task.file.name))
        yield pa.record_batch([pa.array([task.file.name.encode()])], schema=_ANSWER)


def _copy(source: str, path: str, name: str, attempt: int) -> None:
    """Under a name of the attempt's own until it is durable: two may run at a time."""
    unfinished = f"{name}.{attempt}"
    shutil.copyfile(os.path.join(source, name), os.path.join(path, unfinished))
    files = files_at(path, "backup")
    files.sync_file(unfinished)
    files.rename(unfinished, name)


class RestoreTask(msgspec.Struct, frozen=True):
    """One tablet of a backup."""

    plan: ReadPlan
    ticket: ImportTicket
    number: int


def make_restores(plan: ReadPlan, ticket: ImportTicket) -> list[bytes]:
    """A task for each tablet that has any cells."""
    return [
        msgspec.msgpack.encode(
            RestoreTask(msgspec.structs.replace(plan, tablets=(tablet,)), ticket, number)
        )
        for number, tablet in enumerate(plan.tablets)
        if tablet.references
    ]


def run_restores(
    tasks: Sequence[bytes], attempt: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Merge tablets and write them as files to import; each says which files those are."""
    for data in _numbered(tasks, batches):
        task = msgspec.msgpack.decode(data, type=RestoreTask)
        schema, ticket = task.plan.schema, task.ticket
        names = writer_names(ticket.token, task.number, attempt)
        written: list[FragmentInfo] = []
        for group in schema.groups:
            written += write_typed_fragment(
                files_at(ticket.location, task.plan.name),
                "",
                names,
                _unnumbered(task.plan, group),
                table=ticket.table,
                columns=schema.typed_columns(group),
                options=FragmentOptions(
                    compression=group.compression, block_cells=group.block_cells
                ),
            )
        yield pa.record_batch([pa.array([encode_files(written)])], schema=_ANSWER)


def _unnumbered(plan: ReadPlan, group: Group) -> Iterator[Block]:
    """The visible cells of a group of one tablet, without their txns."""
    columns = plan.schema.column_set(group)
    reader = PlanReader(files_at(plan.location, plan.name), "", plan.txn, columns)
    for tablet in plan.tablets:
        for block in reader.read(tablet.references, tablet.rows, CellSpec(versions=None)):
            batch = block.batch
            zeros = pa.array(np.full(batch.num_rows, IMPORT_TXN, np.int64))
            place = batch.schema.get_field_index("txn")
            yield Block.from_batch(batch.set_column(place, batch.schema.field(place), zeros))


def _numbered(tasks: Sequence[bytes], batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """The tasks whose numbers the first column of the input has."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield tasks[number]
