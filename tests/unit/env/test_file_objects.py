"""Our handles under pyarrow."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.file_objects import FileSink, FileSource
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import OutOfSpace

TABLE = pa.table({"n": list(range(5_000)), "text": [str(n) for n in range(5_000)]})


def test_parquet_written_and_read_through_our_files() -> None:
    fs = MemoryFileSystem()
    file = fs.create("f.parquet")
    sink = FileSink(file)
    with pq.ParquetWriter(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, row_group_size=1_000)
    assert not file.closed, "its owner has to sync it"
    assert sink.tell() == file.position == len(fs.read_all("f.parquet"))
    with fs.open_read("f.parquet") as reader:
        parquet = pq.ParquetFile(FileSource(reader), pre_buffer=False)
        assert parquet.num_row_groups == 5
        assert parquet.read_row_group(3, use_threads=False)["n"][0].as_py() == 3_000
        assert parquet.read(use_threads=False).equals(TABLE)


def test_an_error_of_ours_passes_through_pyarrow() -> None:
    fs = MemoryFileSystem(faults=Faults(Fault(Failure.ENOSPC, 3, {Call.WRITE})))
    with fs.create("f") as file, pytest.raises(OutOfSpace):
        pq.write_table(TABLE, FileSink(file))


def test_a_sink_is_write_only_and_counts() -> None:
    with MemoryFileSystem().create("f") as file:
        sink = FileSink(file)
        assert (sink.writable(), sink.readable(), sink.seekable()) == (True, False, False)
        assert sink.write(memoryview(b"12345678").cast("I")) == 8
        sink.flush()
        sink.close()
        assert (sink.closed, file.closed, sink.tell()) == (True, False, 8)


def test_a_source_seeks_like_a_file() -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("f", b"0123456789")
    with fs.open_read("f") as file:
        source, expected = FileSource(file), io.BytesIO(b"0123456789")
        assert (source.writable(), source.readable(), source.seekable()) == (False, True, True)
        assert source.size() == 10
        for whence, offset, length in [(0, 4, 3), (1, 1, -1), (2, -2, 5), (0, 12, 1), (0, 0, -1)]:
            assert source.seek(offset, whence) == expected.seek(offset, whence)
            assert source.read(length) == expected.read(length)
            assert source.tell() == expected.tell()
        source.flush()
        source.close()
        assert (source.closed, file.closed) == (True, False)
