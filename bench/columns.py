"""The columns layout against the cells layout and against a plain Parquet table of the same rows.

    python -m bench.columns [--rows 250000] [--rounds 5] [--directory DIR] [--json FILE]

Rows of 16 bytes with eight typed columns. All sides take turns and the best turn of each counts.
Reads are of one thread and measured in processor time; writes end with a sync, and in wall time.
"Plain" is what ``pyarrow.parquet.write_table`` makes of the rows by default, with zstd. Our reads
verify every checksum. The page cache is warm.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Row, best_of, faster, report, slower
from stele.env.posix import PosixFileSystem
from stele.kernels.block import Block
from stele.model.columns import Column, ColumnSelection
from stele.model.typed_columns import TypedColumn
from stele.model.types import value_type
from stele.storage.fragment_columns_explode import NativeRows
from stele.storage.fragment_columns_format import NativeColumn, parquet_schema
from stele.storage.fragment_columns_run import write_columns_run
from stele.storage.fragment_columns_writer import write_typed_fragment
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_writer import write_fragment

TYPES = ("int64", "int64", "timestamp[us]", "float64", "float64", "string", "string", "bool")
ONE = "f:c1"
BLOCK_CELLS = 65_536
"""Cells of one block as a merge hands them to the writer."""
GROUPS_READ = 10
STAMP = 1_700_000_000_000_000


def make_rows(count: int) -> list[pa.Array]:
    """Three numbers, two fractions, a text of few values and one of many, a truth value."""
    dice = np.random.default_rng(1)
    return [
        pa.array(dice.integers(0, 1_000, count)),
        pa.array(dice.integers(0, 1 << 40, count)),
        pa.array(STAMP + 1_000 * np.arange(count)).cast(pa.timestamp("us")),
        pa.array(dice.random(count)),
        pa.array(dice.normal(size=count).round(3)),
        pa.array([f"city {number}" for number in dice.integers(0, 200, count)]),
        pa.array([f"name {number}" for number in dice.integers(0, 10**9, count)]),
        pa.array(dice.integers(0, 2, count) == 1),
    ]


class Bench:
    """The same rows in three files, and all that is done to them."""

    def __init__(self, root: Path, count: int):
        self._root = root
        self._fs = PosixFileSystem(str(root))
        self._fs.mkdir("ours")
        self._names = NameSequence("bench")
        self._typed = [
            TypedColumn(16 + number, Column("f", b"c%d" % number), value_type(kind))
            for number, kind in enumerate(TYPES)
        ]
        native = [NativeColumn.of(one, one.type, own_stamps=False) for one in self._typed]
        stamps = pa.array(np.full(count, STAMP))
        keys = [pa.array([b"user%012d" % number for number in range(count)]), stamps, stamps]
        self._native, self._columns = native, [*keys, *make_rows(count)]
        batch = pa.RecordBatch.from_arrays(self._columns, schema=parquet_schema(native))
        self.wide = batch.drop_columns(["_timestamp", "_txn"])
        whole = NativeRows.of_batch(batch, native).block(("f",))
        self.cells = whole.count
        self._blocks = [
            whole.slice(at, min(at + BLOCK_CELLS, whole.count))
            for at in range(0, whole.count, BLOCK_CELLS)
        ]
        self._batch = batch
        self.columns_file, self.cells_file = self.write_columns(), self.write_cells()
        self.write_plain()
        self.columns, self.in_cells = map(self._open, (self.columns_file, self.cells_file))

    def _open(self, info: FragmentInfo) -> FragmentReader:
        return FragmentReader.open(self._fs, f"ours/{info.name}", info)

    @property
    def plain_path(self) -> Path:
        return self._root / "plain.parquet"

    @property
    def columns_path(self) -> Path:
        return self._root / "ours" / self.columns_file.name

    def write_columns(self) -> FragmentInfo:
        (info,) = write_typed_fragment(
            self._fs, "ours", self._names, self._blocks, table="bench", columns=self._typed
        )
        assert info.companion is None
        return info

    def write_cells(self) -> FragmentInfo:
        (info,) = write_fragment(self._fs, "ours", self._names, self._blocks, table="bench")
        return info

    def write_wide(self) -> FragmentInfo:
        (info,) = write_columns_run(
            self._fs,
            "ours",
            self._names,
            [self.wide],
            table="bench",
            columns=self._typed,
            timestamp=STAMP,
        )
        return info

    def write_plain(self) -> None:
        pq.write_table(pa.Table.from_batches([self.wide]), self.plain_path, compression="zstd")
        descriptor = os.open(self.plain_path, os.O_RDWR)
        os.fdatasync(descriptor)
        os.close(descriptor)

    def forget(self, write: Callable[[], FragmentInfo]) -> None:
        self._fs.delete(f"ours/{write().name}")

    def explode(self) -> Block:
        return NativeRows.of_batch(self._batch, self._native).block(("f",))

    def scan(self, reader: FragmentReader) -> None:
        assert sum(block.batch.num_rows for block in reader.blocks()) == self.cells

    def scan_one(self, reader: FragmentReader) -> None:
        wanted = ColumnSelection.parse([ONE])
        for group in range(len(reader.index)):
            assert reader.read_columns(group, wanted).count

    def groups(self, reader: FragmentReader) -> None:
        for group in range(GROUPS_READ):
            reader.read_block(group % len(reader.index))


def processor_best_of(turns: int, *works: Callable[[], object]) -> list[float]:
    """Like ``best_of``, in processor time: all these works use one thread, and wait for nobody."""
    best = [float("inf")] * len(works)
    for _ in range(turns):
        for number, work in enumerate(works):
            start = time.process_time()
            work()
            best[number] = min(best[number], time.process_time() - start)
    return best


def measure(bench: Bench, rounds: int) -> list[Row]:
    """All rows of the table."""
    million, columns, cells = bench.cells / 1e6, bench.columns, bench.in_cells
    explode, scan, scan_cells, one, one_cells, group, group_cells = processor_best_of(
        rounds,
        bench.explode,
        lambda: bench.scan(columns),
        lambda: bench.scan(cells),
        lambda: bench.scan_one(columns),
        lambda: bench.scan_one(cells),
        lambda: bench.groups(columns),
        lambda: bench.groups(cells),
    )
    write, write_cells, wide, plain = best_of(
        rounds,
        lambda: bench.forget(bench.write_columns),
        lambda: bench.forget(bench.write_cells),
        lambda: bench.forget(bench.write_wide),
        bench.write_plain,
    )
    names = bench.wide.schema.names
    native, native_plain, native_one, plain_one = processor_best_of(
        rounds,
        lambda: pq.read_table(bench.columns_path, columns=names, use_threads=False),
        lambda: pq.read_table(bench.plain_path, use_threads=False),
        lambda: pq.read_table(bench.columns_path, columns=["row", ONE], use_threads=False),
        lambda: pq.read_table(bench.plain_path, columns=["row", ONE], use_threads=False),
    )
    size, plain_size = bench.columns_file.size, bench.plain_path.stat().st_size
    return [
        faster("columns into cells, without reading", million / explode, 10.0, "M/s", 1),
        faster("scan to cells, against 10 M a second", million / scan, 10.0, "M/s", 1),
        slower("scan to cells, against the cells layout", 1e3 * scan, 1e3 * scan_cells, "ms"),
        slower("one column to cells, the same", 1e3 * one, 1e3 * one_cells, "ms"),
        slower(
            "one row group, the same",
            1e3 * group / GROUPS_READ,
            1e3 * group_cells / GROUPS_READ,
            "ms",
        ),
        slower("write from cells, the same", 1e3 * write, 1e3 * write_cells, "ms"),
        slower("bytes, the same", size / 1e6, bench.cells_file.size / 1e6, "MB", 1),
        slower("bytes, against plain Parquet", size / 1e6, plain_size / 1e6, "MB"),
        slower("write from wide rows, the same", 1e3 * wide, 1e3 * plain, "ms"),
        slower("all columns by pyarrow, the same", 1e3 * native, 1e3 * native_plain, "ms", 1.6),
        slower("one column by pyarrow, the same", 1e3 * native_one, 1e3 * plain_one, "ms", 2),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as root:
        report(measure(Bench(Path(root), options.rows), options.rounds), options.json)


if __name__ == "__main__":
    main()
