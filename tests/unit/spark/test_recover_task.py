"""Readers and writers of a recovery in bounded memory, and what travels between them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from stele.env.posix import PosixFileSystem
from stele.kernels.block import Block
from stele.model.arrow_ipc import decode_ipc
from stele.model.cells import batch_to_cells
from stele.model.column_set import ALL_COLUMNS
from stele.model.groups import Group
from stele.model.ranges import EVERYTHING, RowRange
from stele.model.schema import Schema
from stele.model.schema_json import schema_to_json
from stele.spark import recover_task
from stele.spark.recover_policy import Part
from stele.spark.recover_task import encode_task, read_pieces, unflushed_blocks, write_parts
from stele.storage.log_pieces import PieceFacts, check_pieces, pieces_of
from stele.storage.log_seal import Seal, seal
from stele.storage.recovery_work import LostTablet, LostTableWork, RecoveryWork
from stele.storage.references import FlushMark, decode_references
from tests.unit.storage.log_support import DIRECTORY, new_writer, rows
from tests.unit.tablet.engine_support import block, cell

TEXT = schema_to_json(Schema([Group("all")])).decode()
LOWER, UPPER = RowRange(b"", b"row5"), RowRange(b"row5")
PARTS = [Part("t", LOWER), Part("t", UPPER), Part("u", EVERYTHING)]


@pytest.fixture
def log(tmp_path: Path) -> tuple[RecoveryWork, Seal]:
    """A log of several files, of which everything up to txn 3 of the lower tablet was flushed."""
    files = PosixFileSystem(str(tmp_path))
    files.mkdir("fragments")
    writer = new_writer(files, roll_bytes=4_096)
    for txn in range(1, 31):
        writer.write([rows(txn, "t", count=10), rows(txn, "u", count=1), rows(txn, "other")])
    writer.abandon()
    sealed = seal(files, DIRECTORY, "test")
    flushed = (FlushMark(LOWER, ALL_COLUMNS, 3),)
    work = RecoveryWork(
        location=str(tmp_path),
        fragments="fragments",
        token="s1.x",
        tables=(
            LostTableWork(
                "t",
                "users",
                TEXT,
                (LostTablet(LOWER, flushed, DIRECTORY), LostTablet(UPPER, (), DIRECTORY)),
            ),
            LostTableWork("u", "unloaded", TEXT, (LostTablet(EVERYTHING, (), None),)),
        ),
        pieces=pieces_of(files, DIRECTORY, sealed),
    )
    return work, sealed


def read_all(work: RecoveryWork) -> dict[int, list[bytes]]:
    """The runs of each part."""
    numbers = pa.record_batch({"id": list(range(len(work.pieces)))})
    moved: dict[int, list[bytes]] = {}
    for batch in read_pieces(encode_task(work, PARTS), iter([numbers])):
        for line in batch.to_pylist():
            moved.setdefault(line["part"], []).append(line["data"])
    return moved


def write_all(work: RecoveryWork, part: int, runs: list[bytes]) -> list[dict[str, object]]:
    lines = pa.record_batch({"part": pa.array([part] * len(runs), pa.int32()), "data": runs})
    halves = iter([lines.slice(0, 1), lines.slice(1)])
    return [
        line
        for batch in write_parts(encode_task(work, PARTS), halves, 5)
        for line in batch.to_pylist()
    ]


def test_readers_leave_out_what_marks_cover(log: tuple[RecoveryWork, Seal]) -> None:
    work, sealed = log
    moved = read_all(work)
    assert sorted(moved) == [0, 1, 3], "the other table was unloaded in order"
    cells = {
        part: [c for run in moved[part] for c in batch_to_cells(decode_ipc(run))] for part in (0, 1)
    }
    assert len(cells[0]) == 5 * 27
    assert min(each.txn for each in cells[0]) == 4
    assert len(cells[1]) == 5 * 30
    facts = [msgspec.msgpack.decode(data, type=PieceFacts) for data in moved[3]]
    check_pieces(DIRECTORY, sealed, facts)
    assert len(facts) == len(work.pieces) > 3


def test_small_buffers_give_the_same(
    log: tuple[RecoveryWork, Seal], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, _ = log
    few = read_all(work)
    monkeypatch.setattr(recover_task, "HELD_BYTES", 1)
    monkeypatch.setattr(recover_task, "RUN_BYTES", 300)
    many = read_all(work)
    assert len(many[0]) > len(few[0])

    def txns(runs: list[bytes]) -> list[tuple[bytes, int]]:
        return sorted((c.row, c.txn) for run in runs for c in batch_to_cells(decode_ipc(run)))

    assert txns(many[0]) == txns(few[0])
    monkeypatch.setattr(recover_task, "SPILL_BYTES", 1)
    (line,) = write_all(work, 0, many[0])
    assert line["files"] == len(many[0]), "each run is written as it comes"
    assert line["cells"] == 5 * 27


def test_writers_make_one_fragment_of_a_part(log: tuple[RecoveryWork, Seal]) -> None:
    work, _ = log
    moved = read_all(work)
    (line,) = write_all(work, 1, moved[1])
    assert (line["table"], line["cells"], line["files"], line["facts"]) == ("t", 150, 1, b"")
    data = line["references"]
    assert isinstance(data, bytes)
    (reference,) = decode_references(data, "here")
    assert reference.file.name == "s1.x.1.5-00000000.parquet"
    assert reference.file.summary.cells == 150
    facts = write_all(work, 3, moved[3])
    assert [each["facts"] for each in facts] == moved[3]
    assert all(each["cells"] == 0 for each in facts)
    assert write_all(work, 0, []) == []


def test_each_tablet_by_its_own_log_and_marks() -> None:
    lost = LostTableWork(
        "t",
        "t",
        "",
        (
            LostTablet(RowRange(b"", b"c"), (FlushMark(EVERYTHING, ALL_COLUMNS, 5),), "log/a"),
            LostTablet(RowRange(b"c"), (), "log/b"),
        ),
    )
    mixed = block(cell(b"a", txn=5), cell(b"b", txn=6), cell(b"d", txn=1))

    def found(directory: str) -> list[bytes]:
        blocks: list[Block] = list(unflushed_blocks(lost, directory, mixed))
        return [each.row for one in blocks for each in batch_to_cells(one.batch)]

    assert found("log/a") == [b"b"]
    assert found("log/b") == [b"d"]
    assert found("log/c") == []
