"""Tasks of a load without Spark: wide rows in, files with txn 0 out."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from stele.env.posix import PosixFileSystem
from stele.model.cells import Cell, batch_to_cells
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.model.schema_json import schema_to_json
from stele.spark.load_task import LoadTask, run_load
from stele.storage.fragment_reader import FragmentReader
from stele.storage.import_files import ImportTicket, decode_files, token_of

SCHEMA = Schema(
    [Group("hot", ["info"], block_cells=256), Group("rest", block_cells=256)],
    columns={"info:age": "int64"},
)


def task(path: Path, **changes: object) -> bytes:
    ticket = ImportTicket(job="j", token="i1", location=str(path), table="t1", timestamp=77)
    made = LoadTask(
        ticket=ticket, table="t", schema_json=schema_to_json(SCHEMA).decode(), nulls="skip"
    )
    return msgspec.msgpack.encode(msgspec.structs.replace(made, **changes))


def wide(count: int, start: int = 0) -> pa.RecordBatch:
    numbers = [n * 37 % 101 for n in range(start, start + count)]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"%03d" % n for n in numbers]),
            pa.array([n if n % 2 else None for n in numbers], pa.int64()),
            pa.array([str(n) for n in numbers]),
        ],
        names=["row", "info:age", "x:y"],
    )


@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_a_part_becomes_files(tmp_path: Path, memory: int) -> None:
    data = task(tmp_path, memory_bytes_max=memory)
    (line,) = run_load(data, iter([wide(50), wide(51, 50)]), 3, 9)
    files = decode_files(line.column("files")[0].as_py())
    assert line.column("rows")[0].as_py() == 101
    found: list[Cell] = []
    for info in files:
        assert token_of(info.name) == "i1"
        assert info.name.startswith("i1.3.9-")
        assert (info.summary.txn_min, info.summary.txn_max) == (0, 0)
        with FragmentReader.open(PosixFileSystem(str(tmp_path)), info.name, info) as reader:
            found += [c for block in reader.blocks() for c in batch_to_cells(block.batch)]
    assert len(found) == line.column("cells")[0].as_py() == 101 + 50
    assert {cell.timestamp for cell in found} == {77}
    assert {cell.value for cell in found if cell.family == "x"} == {b"%d" % n for n in range(101)}


def test_no_rows_no_files(tmp_path: Path) -> None:
    assert list(run_load(task(tmp_path), iter([]), 0, 0)) == []
    assert list(run_load(task(tmp_path), iter([wide(0)]), 0, 0)) == []
    assert list(tmp_path.iterdir()) == []


def test_lines_that_are_cells(tmp_path: Path) -> None:
    batch = pa.record_batch(
        {
            "row": pa.array([b"b", b"a"]),
            "_family": pa.array(["info", "x"]),
            "_qualifier": pa.array([b"age", b"y"]),
            "_value": pa.array([b"1", b"2"]),
        }
    )
    (line,) = run_load(task(tmp_path, cells=True), iter([batch]), 0, 0)
    files = decode_files(line.column("files")[0].as_py())
    assert [info.summary.families for info in files] == [("info",), ("x",)]
    assert line.column("cells")[0].as_py() == 2


def test_a_family_as_a_map_goes_to_its_group(tmp_path: Path) -> None:
    entries = pa.array([[{"key": b"y", "value": b"2"}]])
    batch = pa.record_batch({"row": pa.array([b"a"]), "_family/x": entries})
    (line,) = run_load(task(tmp_path), iter([batch]), 0, 0)
    (info,) = decode_files(line.column("files")[0].as_py())
    assert info.summary.families == ("x",)
