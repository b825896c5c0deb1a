"""Fragments against raw pyarrow, on the same cells with the same Parquet settings.

    python -m bench.fragments [--cells 400000] [--rounds 7] [--directory DIR]

Both sides take turns in every round and the best round of each counts, so that a busy neighbour
disturbs both. Writes end with a sync of the file on both sides. Our reads verify every checksum;
raw pyarrow does not by default. "Raw" streaming is ``iter_batches`` with all threads, as storage
engines on pyarrow read. The page cache is warm.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Row, faster, report, slower
from stele.env.posix import PosixFileSystem
from stele.kernels.block import Block
from stele.model.cells import CELLS
from stele.storage.block_cache import BlockCache, FragmentBlocks
from stele.storage.cache_priority import Priority
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import ZSTD_LEVEL_DEFAULT, FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_writer import write_fragment

QUALIFIERS = (b"age", b"city", b"mail", b"name")
VALUE_BYTES = 100
MERGED_CELLS = 65_536
"""Cells of one block as a merge hands them to the writer."""
RAW_BATCH_CELLS = 65_536
GROUP_READS = 40
"""Row groups read one by one in a round."""
OPENS = 20
"""Times a file is opened in a round."""

_LENGTHS = dict.fromkeys(("row", "qualifier", "value"), "DELTA_LENGTH_BYTE_ARRAY")
_NUMBERS = dict.fromkeys(("timestamp", "txn", "op"), "PLAIN")
RAW_SETTINGS: dict[str, Any] = {
    "schema": CELLS,
    "compression": "zstd",
    "compression_level": ZSTD_LEVEL_DEFAULT,
    "use_dictionary": ["family"],
    "column_encoding": {**_LENGTHS, **_NUMBERS},
    "write_statistics": ["row"],
    "write_page_checksum": True,
    "data_page_size": 1 << 30,
    "max_rows_per_page": 1 << 30,
    "sorting_columns": pq.SortingColumn.from_ordering(
        CELLS, [("row", "ascending"), ("family", "ascending")]
    ),
    "bloom_filter_options": {"row": {"ndv": FragmentOptions().block_cells, "fpp": 0.01}},
}
"""What pyarrow is told to write the same pages as a fragment has."""


@dataclass(frozen=True)
class Options:
    """What to measure with."""

    cells: int = 400_000
    rounds: int = 7
    directory: Path | None = None


def make_cells(count: int) -> pa.RecordBatch:
    """Rows of 16 bytes, 4 qualifiers, values of 50 random bytes twice, stamps of one hour."""
    dice = np.random.default_rng(1)
    numbers = np.sort(dice.choice(8 * count, size=count // len(QUALIFIERS), replace=False)) * 7_919
    count = len(numbers) * len(QUALIFIERS)
    half = VALUE_BYTES // 2
    noise = dice.bytes(count * half)
    values = [noise[at : at + half] * 2 for at in range(0, len(noise), half)]
    stamps = pa.array(1_700_000_000_000_000 + np.sort(dice.integers(0, 3_600_000_000, count)))
    family = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int16)), ["info"])
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"user%012d" % number for number in numbers for _ in QUALIFIERS]),
            family,
            pa.array(QUALIFIERS * len(numbers)),
            stamps,
            stamps,
            pa.array(np.full(count, 4, np.int8)),
            pa.array(values),
        ],
        schema=CELLS,
    )


class Bench:
    """One file of ours and one of pyarrow's with the same cells, and all that is done to them."""

    def __init__(self, root: Path, cells: pa.RecordBatch):
        self._root = root
        self._fs = PosixFileSystem(str(root))
        self._fs.mkdir("ours")
        self._names = NameSequence("bench")
        self._cells = cells
        self._table = pa.Table.from_batches([cells])
        whole = Block.from_batch(cells)
        self._blocks = [
            whole.slice(at, min(at + MERGED_CELLS, whole.count))
            for at in range(0, whole.count, MERGED_CELLS)
        ]
        self.info: FragmentInfo = self.write()
        self.write_raw()
        self.reader = FragmentReader.open(self._fs, self._path(self.info), self.info)
        self.raw = pq.ParquetFile(root / "raw.parquet")
        self.groups = range(min(GROUP_READS, len(self.reader.index)))
        self._hot: FragmentBlocks
        self._churning: FragmentBlocks

    def _path(self, info: FragmentInfo) -> str:
        return f"ours/{info.name}"

    def write(self) -> FragmentInfo:
        (info,) = write_fragment(self._fs, "ours", self._names, self._blocks, table="bench")
        return info

    def write_and_forget(self) -> None:
        self._fs.delete(self._path(self.write()))

    def write_raw(self) -> None:
        path = self._root / "raw.parquet"
        with pq.ParquetWriter(path, **RAW_SETTINGS) as writer:
            writer.write_table(self._table, row_group_size=FragmentOptions().block_cells)
        descriptor = os.open(path, os.O_RDWR)
        os.fdatasync(descriptor)
        os.close(descriptor)

    def scan(self) -> None:
        count = sum(block.batch.num_rows for block in self.reader.blocks())
        assert count == self._cells.num_rows

    def scan_raw(self) -> None:
        source = pq.ParquetFile(self._root / "raw.parquet")
        batches: Iterable[pa.RecordBatch] = source.iter_batches(RAW_BATCH_CELLS, use_threads=True)
        assert sum(batch.num_rows for batch in batches) == self._cells.num_rows

    def scan_keys(self) -> None:
        for block in self.reader.blocks(values=False):
            assert block.batch.num_rows

    def scan_keys_raw(self) -> None:
        source = pq.ParquetFile(self._root / "raw.parquet")
        for batch in source.iter_batches(RAW_BATCH_CELLS, columns=CELLS.names[:-1]):
            assert batch.num_rows

    def read_groups(self) -> float:
        return median_time(self.reader.read_block, self.groups)

    def read_groups_raw(self) -> float:
        def read(group: int) -> object:
            return self.raw.read_row_group(group, use_threads=False)

        return median_time(read, self.groups)

    def read_evicting(self) -> float:
        """Through a full cache: every read misses and drops a block."""
        return median_time(self._churning.get, self.groups)

    def read_hot(self) -> float:
        return median_time(self._hot.get, self.groups)

    def fill_caches(self) -> None:
        """One cache that holds everything that is read, and one that never does."""
        sizes = self.reader.index.block_sizes
        for name, capacity in (("_hot", sum(sizes)), ("_churning", 8 * max(sizes))):
            cache = BlockCache(capacity)
            blocks = cache.attach("f", sizes, self.reader.read_block, Priority.ON_DEMAND)
            setattr(self, name, blocks)
        self.read_hot()
        self.read_evicting()

    def open(self) -> float:
        def opened(_: int) -> None:
            FragmentReader.open(self._fs, self._path(self.info), self.info).close()

        return median_time(opened, range(OPENS))

    def open_raw(self) -> float:
        def opened(_: int) -> None:
            pq.ParquetFile(self._root / "raw.parquet").close()

        return median_time(opened, range(OPENS))


def median_time(call: Callable[[int], object], numbers: Iterable[int]) -> float:
    """Seconds of one call in the middle of many."""
    times = []
    for number in numbers:
        start = time.perf_counter()
        call(number)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def best_times(rounds: int, **work: Callable[[], float | None]) -> dict[str, float]:
    """The best time of each, all taking turns: what a call says of itself, or the whole of it."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, call in work.items():
            start = time.perf_counter()
            said = call()
            best[name] = min(best[name], said or time.perf_counter() - start)
    return best


def measure(root: Path, options: Options) -> list[Row]:
    """All rows. Rates: higher is better; times: lower is."""
    bench = Bench(root, make_cells(options.cells))
    bench.fill_caches()
    times = best_times(
        options.rounds,
        write=bench.write_and_forget,
        write_raw=bench.write_raw,
        scan=bench.scan,
        scan_raw=bench.scan_raw,
        keys=bench.scan_keys,
        keys_raw=bench.scan_keys_raw,
        group=bench.read_groups,
        group_raw=bench.read_groups_raw,
        evicting=bench.read_evicting,
        hot=bench.read_hot,
        open=bench.open,
        open_raw=bench.open_raw,
    )
    cells = bench.info.summary.cells

    def rate(name: str, ours: str, raw: str, wanted: float | None = None) -> Row:
        name = f"{name}, against raw pyarrow"
        return faster(name, cells / times[ours], cells / times[raw], "cells/s", wanted)

    def duration(name: str, ours: str, raw: str, wanted: float | None = None) -> Row:
        name = f"{name}, against raw pyarrow"
        return slower(name, 1e6 * times[ours], 1e6 * times[raw], "µs", wanted)

    return [
        rate("fragment write, synced", "write", "write_raw", 0.8),
        rate("fragment read, verified, to Arrow", "scan", "scan_raw", 1.2),
        rate("fragment read, keys only", "keys", "keys_raw"),
        duration("one row group, cold", "group", "group_raw", 0.5),
        duration("one row group, through a full cache", "evicting", "group_raw"),
        duration("one row group, hot", "hot", "group_raw"),
        duration("open a file", "open", "open_raw"),
    ]


def rows(options: Options) -> list[Row]:
    """Measure in a directory of its own, removed afterwards."""
    root = Path(tempfile.mkdtemp(prefix="bench-fragments-", dir=options.directory))
    try:
        return measure(root, options)
    finally:
        shutil.rmtree(root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=Options.cells)
    parser.add_argument("--rounds", type=int, default=Options.rounds)
    parser.add_argument("--directory", type=Path, default=None, help="on the disk to measure")
    report(rows(Options(**vars(parser.parse_args()))), None)


if __name__ == "__main__":
    main()
