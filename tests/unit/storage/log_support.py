"""Small logs for the tests of the log: commits, a writer in memory, and what a reader finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stele.env.memory import SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.kernels.row_records import encode_record, records_to_block
from stele.model.cells import Cell, batch_to_cells, cells_to_batch
from stele.storage.log_parts import (
    Commit,
    PartKind,
    batch_commit,
    decode_batch,
    decode_body,
    encode_block,
    rows_commit,
)
from stele.storage.log_reader import Entry, LogReader
from stele.storage.log_seal import seal, sealed_entries
from stele.storage.log_writer import LogWriter

DIRECTORY = "log"
TABLE = "t00000001"


def cell(txn: int, row: bytes = b"row", value: bytes = b"value") -> Cell:
    return Cell(row, "f", b"q", txn, value, txn=txn)


def record(given: Cell) -> bytes:
    return encode_record(
        given.row,
        given.family.encode(),
        given.qualifier,
        given.timestamp,
        given.txn,
        given.op,
        given.value,
    )


def rows(txn: int, table: str = TABLE, count: int = 1, value: bytes = b"value") -> Commit:
    """A small commit of ``count`` cells."""
    cells = [cell(txn, b"row%d" % number, value) for number in range(count)]
    return rows_commit(table, txn, [record(each) for each in cells])


def batch(txn: int, table: str = TABLE, count: int = 3, value: bytes = b"value") -> Commit:
    """A commit of ``count`` cells as Arrow."""
    cells = sorted((cell(txn, b"row%d" % number, value) for number in range(count)), key=Cell.key)
    return batch_commit(table, txn, encode_block(Block.from_batch(cells_to_batch(cells))))


def new_writer(
    fs: FileSystem, *, roll_bytes: int = 1 << 20, clock: int = 0, reserve_bytes: int = 0
) -> LogWriter:
    """A writer that reserves nothing, unless told to: its files end with what is in them."""
    return LogWriter(
        fs,
        DIRECTORY,
        "s1",
        SeededRandom(7),
        roll_bytes=roll_bytes,
        clock=clock,
        reserve_bytes=reserve_bytes,
    )


def written(groups: Iterable[Sequence[Commit]], *, roll_bytes: int = 1 << 20) -> MemoryFileSystem:
    """A file system with a log of these groups in it, not closed."""
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=roll_bytes)
    for group in groups:
        writer.write(group)
    writer.abandon()
    return fs


def cells_of(entry: Entry) -> list[tuple[str, Cell]]:
    """The cells of an entry with their tables."""
    found: list[tuple[str, Cell]] = []
    for part in decode_body(entry.body):
        if part.kind is PartKind.ROWS:
            block = records_to_block(part.content)
        elif part.kind is PartKind.BATCH:
            block = decode_batch(part)
        else:
            continue
        found += [(part.table, each) for each in batch_to_cells(block.batch)]
    return found


def txns_of(entries: Iterable[Entry]) -> list[int]:
    """The distinct txns of all cells of a log, in order."""
    return sorted({each.txn for entry in entries for _table, each in cells_of(entry)})


def read(fs: FileSystem) -> list[int]:
    """The txns of a log as it is found."""
    return txns_of(LogReader(fs, DIRECTORY).entries())


def recover(fs: FileSystem) -> list[int]:
    """The txns of a log that is sealed first."""
    return txns_of(sealed_entries(fs, DIRECTORY, seal(fs, DIRECTORY, "test")))
