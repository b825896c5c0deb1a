"""What an executor does for a write: make mutations of its lines, and hand them to the driver.

Few of them travel in the answer itself, so that a small write, such as a batch of a stream, makes
no file. Many are sorted within a bound of memory and written as files of the job, under names that
no other attempt uses; the answer names them. Which answers count is Spark's to say, and what
becomes of them the driver's: executors never speak to the owner of the table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import msgspec
import pyarrow as pa

from stele.env.failpoints import declare, failpoint
from stele.kernels.block import Block
from stele.model.arrow_ipc import decode_ipc, encode_ipc
from stele.model.cells import MUTATIONS
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json
from stele.spark.batch_pieces import pieces
from stele.spark.erasures import LINES
from stele.spark.load_cells import imported_cells
from stele.spark.row_sorter import MEMORY_BYTES_MAX, RowSorter
from stele.spark.world import files_at
from stele.spark.write_form import WriteForm
from stele.spark.write_mutations import mutation_lines, sorted_mutations
from stele.storage.compaction_merge import only_columns
from stele.storage.fragment_columns_writer import write_typed_fragment
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.storage.import_columns import ImportColumns
from stele.storage.import_files import (
    FileList,
    ImportTicket,
    decode_files,
    encode_files,
    writer_names,
)

AFTER_LINES = declare("spark.write.after_lines")
AFTER_FILES = declare("spark.write.after_files")

INLINE_BYTES_MAX = 1 << 20
"""What a task sends to the driver at most: above it a file is cheaper for everybody."""

SORTED_CELLS = 131_072
"""Cells made, sorted and written at a time, about."""


class WriteTask(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that all tasks of a write need to know."""

    ticket: ImportTicket
    table: str
    schema_json: str
    form: WriteForm
    replaces: bool = False
    """Whether what is in the table goes in the moment of the commit."""
    inline_bytes_max: int = INLINE_BYTES_MAX
    memory_bytes_max: int = MEMORY_BYTES_MAX

    @property
    def schema(self) -> Schema:
        """The schema of the table when the write began."""
        return schema_from_json(self.schema_json.encode())

    @property
    def columns(self) -> ImportColumns:
        """What the write was made for."""
        return ImportColumns.of(self.schema, self.form.written)


class WrittenPart(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a task: its mutations, or the files they are in."""

    lines: int = 0
    """Of the DataFrame."""
    cells: int = 0
    size_bytes: int = 0
    inline: bytes = b""
    """A ``MUTATIONS`` batch, unless there are files."""
    files_list: bytes = b""

    @property
    def files(self) -> FileList:
        """The files, if there are any."""
        return decode_files(self.files_list) if self.files_list else ()

    @property
    def mutations(self) -> pa.RecordBatch | None:
        """What came along, if anything did."""
        return decode_ipc(self.inline, schemas=(MUTATIONS,)) if self.inline else None


def run_write(
    task: WriteTask, batches: Iterable[pa.RecordBatch], part: int, attempt: int
) -> WrittenPart:
    """The lines of one part, ready to be committed."""
    incoming = _Incoming(task.schema, task.form)
    tables = incoming.tables(batches)
    held = LINES.empty_table()
    for table in tables:
        held = pa.concat_tables([held, table])
        if held.nbytes > task.inline_bytes_max:
            break
    else:
        failpoint(AFTER_LINES)
        return _inline(held, incoming)
    files = write_files(task, chain([held], tables), part, attempt)
    failpoint(AFTER_FILES)
    return WrittenPart(
        lines=incoming.lines,
        cells=incoming.cells,
        size_bytes=sum(info.total_bytes for info in files),
        files_list=encode_files(files),
    )


@dataclass(slots=True)
class _Incoming:
    """Mutations as they are made, counted."""

    schema: Schema
    form: WriteForm
    lines: int = 0
    cells: int = 0

    def tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        for batch in batches:
            rows_max = max(1, SORTED_CELLS // max(1, batch.num_columns))
            for piece in pieces(batch, rows_max):
                made = mutation_lines(self.schema, self.form, piece)
                self.lines += piece.num_rows
                self.cells += made.num_rows
                yield made


def _inline(held: pa.Table, incoming: _Incoming) -> WrittenPart:
    if not held.num_rows:
        return WrittenPart(lines=incoming.lines)
    batch = sorted_mutations(held)
    return WrittenPart(
        lines=incoming.lines,
        cells=incoming.cells,
        size_bytes=batch.nbytes,
        inline=encode_ipc(batch, "zstd").to_pybytes(),
    )


def write_files(
    task: WriteTask, tables: Iterable[pa.Table], part: int, attempt: int
) -> list[FragmentInfo]:
    """Write mutations as files of the job: one fragment for each group that has any."""
    schema = task.schema
    files = files_at(task.ticket.location, task.table)
    names = writer_names(task.ticket.token, part, attempt)
    written: list[FragmentInfo] = []
    with tempfile.TemporaryDirectory(prefix="stele-write-") as directory:
        sorter = RowSorter(directory, SORTED_CELLS, task.memory_bytes_max)
        for table in tables:
            for batch in table.combine_chunks().to_batches():
                sorter.add(batch)
        if not sorter.rows:
            return written
        for group in schema.groups:
            written += write_typed_fragment(
                files,
                "",
                names,
                _blocks(sorter, schema, group, task.ticket.timestamp),
                table=task.ticket.table,
                columns=schema.typed_columns(group),
                options=FragmentOptions(
                    compression=group.compression, block_cells=group.block_cells
                ),
            )
    return written


def _blocks(sorter: RowSorter, schema: Schema, group: Group, timestamp: int) -> Iterator[Block]:
    """The cells of a group in order, with its row erasures; their txn is not known yet."""
    columns = schema.column_set(group)
    for batch in sorter.batches():
        mutations = sorted_mutations(pa.Table.from_batches([batch]))
        whole = Block.from_batch(imported_cells(mutations, schema, timestamp))
        block = only_columns(whole, columns)
        if block.count:
            yield block
