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
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.model.arrow_input import NullRule
from stele.model.columns import Column
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json
from stele.spark.load_cells import (
    FAMILY_MAP,
    OP,
    TIMESTAMP,
    group_cells,
    with_unsigned,
)
from stele.spark.load_lines import lines_as_cells
from stele.spark.load_rows import NotPlain, PlainRows
from stele.spark.row_sorter import MEMORY_BYTES_MAX, ROW, RowSorter
from stele.spark.world import files_at
from stele.storage.fragment_columns_run import write_columns_run
from stele.storage.fragment_columns_writer import Names, write_typed_fragment
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.storage.import_files import ImportTicket, encode_files, writer_names

AFTER_SORT = declare("spark.load.after_sort")
AFTER_FILES = declare("spark.load.after_files")

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
    keys_are_encoded: bool = False
    """Whether keys were encoded by us, and need no check."""
    cells: bool = False
    """Whether lines are cells, not rows."""
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
            sorter.add(with_unsigned(batch, schema))
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
        work = _GroupWork(task, schema, group, sorter, _Place(files, names, task.ticket.table))
        written += work.write()
    return written


@dataclass(frozen=True, slots=True)
class _Place:
    """Where files of a task go."""

    files: FileSystem
    names: Names
    table: str


@dataclass(frozen=True, slots=True)
class _GroupWork:
    """The rows of one group and where they go."""

    task: LoadTask
    schema: Schema
    group: Group
    sorter: RowSorter
    place: _Place

    def write(self) -> tuple[FragmentInfo, ...]:
        """Write them, as they are if they are plain, else as cells."""
        names = self._names()
        if self.task.cells:
            return self._write_cells(names)
        if OP not in names and all(name in (ROW, TIMESTAMP) for name in names):
            return ()
        try:
            return self._write_rows(names)
        except NotPlain:
            return self._write_cells(names)

    def _names(self) -> list[str]:
        """The columns of this group, with those that concern all of them."""
        return [name for name in self.sorter.names if self._is_mine(name)]

    def _is_mine(self, name: str) -> bool:
        if name.startswith(FAMILY_MAP):
            family = name.removeprefix(FAMILY_MAP)
        elif ":" in name:
            family = Column.parse(name).family
        else:
            return True
        found = self.schema.group_of(family)
        return found is not None and found.name == self.group.name

    def _write_rows(self, names: list[str]) -> tuple[FragmentInfo, ...]:
        plain = PlainRows(
            self.schema,
            self.schema.typed_columns(self.group),
            self.task.nulls,
            self.task.ticket.timestamp,
            self.task.keys_are_encoded,
        )
        return write_columns_run(
            self.place.files,
            "",
            self.place.names,
            plain.check(self.sorter.batches(names)),
            table=self.place.table,
            columns=plain.typed,
            timestamp=plain.timestamp,
            options=self._options,
        )

    def _write_cells(self, names: list[str]) -> tuple[FragmentInfo, ...]:
        cells = map(self._cells, self.sorter.batches(names))
        return write_typed_fragment(
            self.place.files,
            "",
            self.place.names,
            (Block.from_batch(batch) for batch in cells if batch.num_rows),
            table=self.place.table,
            columns=self.schema.typed_columns(self.group),
            options=self._options,
        )

    def _cells(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        task = self.task
        if task.cells:
            return lines_as_cells(batch, self.schema, self.group, task.ticket.timestamp)
        return group_cells(batch, self.schema, task.nulls, task.ticket.timestamp)

    @property
    def _options(self) -> FragmentOptions:
        group = self.group
        return FragmentOptions(compression=group.compression, block_cells=group.block_cells)
