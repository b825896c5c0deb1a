"""Log bytes: whole files, bodies whose checksums fit, row records and seals.

Checksums would turn nearly every mutation of a file away at the door, so most inputs go in behind
them. The first byte chooses the door.
"""

from __future__ import annotations

from stele.env.memory_fs import MemoryFileSystem
from stele.kernels.block import Block
from stele.kernels.row_records import records_to_block
from stele.model.cells import CELLS, batch_to_cells
from stele.storage.log_format import file_name
from stele.storage.log_parts import (
    PartKind,
    clock_commit,
    decode_batch,
    decode_body,
    decode_release,
    encode_body,
    release_commit,
)
from stele.storage.log_replay import recover_log
from stele.storage.log_seal import Seal
from tests.unit.storage.log_support import DIRECTORY, batch, cell, record, rows, written

FILE, BODY, RECORDS, SEAL = range(4)


def _file() -> bytes:
    fs = written([[rows(1), batch(2)], [rows(3), clock_commit(4)], [release_commit(5, 1)]])
    return fs.read_all(f"{DIRECTORY}/{file_name(1)}")


def _body() -> bytes:
    body = encode_body([rows(1, count=2), batch(2), clock_commit(3), release_commit(4, 1)], 0)
    return b"".join(bytes(buffer) for buffer in body.buffers)


SEEDS = [
    bytes([FILE]) + _file(),
    bytes([BODY]) + _body(),
    bytes([RECORDS]) + b"".join(record(cell(txn, b"row%d" % txn)) for txn in range(3)),
    bytes([SEAL]) + Seal({1: 500, 2: 300}, 9, 77, 1_000).encode(),
]


def _use(block: Block) -> None:
    """Touch every cell, as a reader would."""
    block.batch.validate(full=True)
    assert block.batch.schema.equals(CELLS)
    assert len(batch_to_cells(block.batch)) == block.count


def TestOneInput(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    if kind == bytes([FILE]):
        _read_file(content)
    elif kind == bytes([BODY]):
        _read_body(content)
    elif kind == bytes([RECORDS]):
        _use(records_to_block(content))
    elif kind == bytes([SEAL]):
        Seal.decode(content, "seal")


def _read_file(content: bytes) -> None:
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    fs.write_atomic(f"{DIRECTORY}/{file_name(1)}", content)
    for replayed in recover_log(fs, DIRECTORY, "fuzz")[1]:
        _use(replayed.block)


def _read_body(content: bytes) -> None:
    for part in decode_body(memoryview(content)):
        if part.kind is PartKind.ROWS:
            _use(records_to_block(part.content))
        elif part.kind is PartKind.BATCH:
            _use(decode_batch(part))
        elif part.kind is PartKind.RELEASE:
            decode_release(part)
