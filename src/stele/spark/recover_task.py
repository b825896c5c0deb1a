"""What executors do to recover a log: read files of it, move cells to their part, write it sorted.

A reader replays one file of the log, leaves out what flush marks cover, and sends on what is left
as sorted runs of cells in Arrow's own bytes, each labelled with the number of its part: Spark moves
them without looking inside. A writer merges all runs of its part and writes them as fragments, as
recovery in a process does. Both hold a bounded number of bytes, whatever the size of the log.

A reader also reports what its file began and ends with. That travels as one more part, whose writer
only hands it on to the driver: a log of which a file is missing or damaged is never taken for
complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
import pyarrow as pa

from stele.env.failpoints import declare, failpoint
from stele.kernels.block import Block
from stele.kernels.search import slice_rows
from stele.model.arrow_ipc import IpcLimits, decode_ipc, encode_ipc
from stele.model.cells import CELLS
from stele.model.column_set import ALL_COLUMNS
from stele.model.schema_json import schema_from_json
from stele.spark.recover_policy import Part
from stele.spark.world import files_at
from stele.storage.fragment_writer import write_fragment
from stele.storage.group_merge import merged_blocks, write_groups
from stele.storage.import_files import writer_names
from stele.storage.log_pieces import LogPiece, PieceReader
from stele.storage.log_replay import replay, unflushed
from stele.storage.recovery_work import LostTableWork, RecoveryWork
from stele.storage.references import References, encode_references

AFTER_READ = declare("spark.recover.after_read")
AFTER_FILES = declare("spark.recover.after_files")

HELD_BYTES = 64 << 20
"""Cells that a reader holds before it sends them on."""

RUN_BYTES = 4 << 20
"""Of one run on its way: a line of a DataFrame, which Spark copies more than once."""

SPILL_BYTES = 128 << 20
"""Cells that a writer holds before it writes a fragment. Parts are smaller, unless samples lied."""

MOVED = pa.schema([("part", pa.int32()), ("data", pa.binary())])
"""Runs of cells; in the last part facts."""

MANIFEST = pa.schema(
    [
        ("table", pa.string()),
        ("references", pa.binary()),
        ("facts", pa.binary()),
        ("cells", pa.int64()),
        ("bytes", pa.int64()),
        ("files", pa.int32()),
    ]
)
"""What writers say: which files show what was in their part, or the facts of a piece."""

_TRUSTED = IpcLimits(1 << 40, 1 << 40, 1 << 40)
"""Our own tasks have made these runs, from a log that has limits of its own."""


class RecoverTask(msgspec.Struct, frozen=True):
    """What all tasks of a recovery need to know."""

    work: RecoveryWork
    parts: tuple[Part, ...]


def encode_task(work: RecoveryWork, parts: Sequence[Part]) -> bytes:
    """The same as bytes, which travel once to each executor."""
    return msgspec.msgpack.encode(RecoverTask(work, tuple(parts)))


_TASKS = msgspec.msgpack.Decoder(RecoverTask)


# Readers.


def read_pieces(data: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` calls first: its input has the numbers of pieces."""
    task = _TASKS.decode(data)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _read_piece(task, task.work.pieces[number])


def _read_piece(task: RecoverTask, piece: LogPiece) -> Iterator[pa.RecordBatch]:
    """All runs of a piece, and then its facts."""
    reader = PieceReader(files_at(task.work.location), piece)
    sorting = _Sorting(task, piece.directory)
    tables = {lost.table for lost in task.work.tables}
    for part in replay(reader.entries(), tables):
        sorting.add(part.table, part.block)
        if sorting.held_bytes > HELD_BYTES:
            yield from sorting.take()
    yield from sorting.take()
    failpoint(AFTER_READ)
    yield _moved(len(task.parts), [msgspec.msgpack.encode(reader.facts)])


class _Sorting:
    """Cells of the log on their way to parts."""

    def __init__(self, task: RecoverTask, directory: str):
        self.held_bytes = 0
        self._directory = directory
        self._tables = {lost.table: lost for lost in task.work.tables}
        self._parts: dict[str, list[tuple[int, Part]]] = {}
        for number, part in enumerate(task.parts):
            self._parts.setdefault(part.table, []).append((number, part))
        self._held: dict[int, list[Block]] = {}

    def add(self, table: str, block: Block) -> None:
        """Take what no mark covers, of the tablets whose log this is."""
        for kept in unflushed_blocks(self._tables[table], self._directory, block):
            for number, mine in self._divided(table, kept):
                self._held.setdefault(number, []).append(mine)
                self.held_bytes += mine.nbytes

    def _divided(self, table: str, block: Block) -> Iterator[tuple[int, Block]]:
        """What each part gets of a block; parts cover all rows of a table."""
        parts = self._parts[table]
        first = bisect_right(parts, block.row(0), key=lambda each: each[1].rows.start) - 1
        last_row = block.row(block.count - 1)
        for number, part in parts[first:]:
            if part.rows.start > last_row:
                return
            mine = slice_rows(block, part.rows)
            if mine.count:
                yield number, mine

    def take(self) -> Iterator[pa.RecordBatch]:
        """Everything that is held, as runs."""
        for number, blocks in sorted(self._held.items()):
            for block in merged_blocks(blocks, ALL_COLUMNS):
                yield _moved(number, [encode_ipc(run.batch).to_pybytes() for run in _runs(block)])
        self._held = {}
        self.held_bytes = 0


def unflushed_blocks(lost: LostTableWork, directory: str, block: Block) -> Iterator[Block]:
    """What of a block of the log each tablet of a table does not have in files yet."""
    for tablet in lost.tablets:
        if tablet.log == directory:
            kept = unflushed(block, tablet.rows, ALL_COLUMNS, tablet.marks)
            if kept is not None:
                yield kept


def _runs(block: Block) -> Iterator[Block]:
    """A block in pieces that are not too large to move."""
    count = max(1, -(-block.nbytes // RUN_BYTES))
    step = -(-block.count // count)
    for start in range(0, block.count, step):
        yield block.slice(start, min(start + step, block.count))


def _moved(part: int, data: Sequence[bytes]) -> pa.RecordBatch:
    parts = pa.array([part] * len(data), pa.int32())
    return pa.RecordBatch.from_arrays([parts, pa.array(data, pa.binary())], schema=MOVED)


# Writers.


def write_parts(
    data: bytes, batches: Iterator[pa.RecordBatch], attempt: int
) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` calls then: its input are all runs of one part, or facts."""
    task = _TASKS.decode(data)
    writer: _PartWriter | None = None
    for batch in batches:
        for number, item in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if number == len(task.parts):
                yield _line("", facts=item)
                continue
            if writer is None:
                writer = _PartWriter(task, number, attempt)
            assert writer.number == number, "a writer gets one part"
            writer.add(Block.from_batch(decode_ipc(item, _TRUSTED, (CELLS,))))
    if writer is not None:
        yield writer.finish()


class _PartWriter:
    """Merges the runs of a part, and writes a fragment for each group whenever it holds enough."""

    def __init__(self, task: RecoverTask, number: int, attempt: int):
        self.number = number
        work = task.work
        table = task.parts[number].table
        self._lost = next(lost for lost in work.tables if lost.table == table)
        self._schema = schema_from_json(self._lost.schema_json.encode())
        files = files_at(work.location, self._lost.name)
        names = writer_names(work.token, number, attempt)
        self._write = partial(write_fragment, files, work.fragments, names)
        self._blocks: list[Block] = []
        self._held_bytes = 0
        self._cells = 0
        self._references: References = ()

    def add(self, block: Block) -> None:
        self._blocks.append(block)
        self._held_bytes += block.nbytes
        self._cells += block.count
        if self._held_bytes > SPILL_BYTES:
            self._spill()

    def _spill(self) -> None:
        if self._blocks:
            written = write_groups(self._write, self._lost.table, self._schema, self._blocks)
            self._references = (*self._references, *written)
        self._blocks = []
        self._held_bytes = 0

    def finish(self) -> pa.RecordBatch:
        """Everything is durable: what there is now."""
        self._spill()
        failpoint(AFTER_FILES)
        return _line(
            self._lost.table,
            references=encode_references(self._references),
            cells=self._cells,
            size_bytes=sum(reference.file.total_bytes for reference in self._references),
            files=len(self._references),
        )


def _line(
    table: str,
    *,
    references: bytes = b"",
    facts: bytes = b"",
    cells: int = 0,
    size_bytes: int = 0,
    files: int = 0,
) -> pa.RecordBatch:
    values = (table, references, facts, cells, size_bytes, files)
    arrays = [pa.array([value], field.type) for value, field in zip(values, MANIFEST, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=MANIFEST)
