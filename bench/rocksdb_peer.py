"""RocksDB through rocksdict, given its best: the peer of the storage benchmark.

Same durability (a write is synced before it is acknowledged), same cache bytes, zstd, 4 KiB blocks,
a 10-bit bloom filter, 4 background jobs with 2 subcompactions, forced bottommost compaction. A key
is row + family + qualifier + inverted timestamp + inverted txn, which is what a tablet store on
RocksDB would have to use.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from rocksdict import (
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from bench.storage_data import FAMILY, Batch

_SUFFIX = struct.Struct(">QQ")
_INVERT = (1 << 64) - 1
_FAMILY = FAMILY.encode()


def cell_key(row: bytes, qualifier: bytes, timestamp: int, txn: int) -> bytes:
    return row + _FAMILY + qualifier + _SUFFIX.pack(_INVERT - timestamp, _INVERT - txn)


class RocksPeer:
    """One database with the operations of the benchmark."""

    def __init__(
        self, path: Path, cache_bytes: int, block_bytes: int = 4096, *, background: bool = True
    ):
        """Without ``background`` nothing is compacted before ``compact`` is called."""
        self.path = path
        self._cache = Cache(cache_bytes)
        self._db: Any = Rdict(str(path), self._options(block_bytes, background))
        self._synced = WriteOptions()
        self._synced.sync = True

    def _options(self, block_bytes: int, background: bool) -> Any:
        table = BlockBasedOptions()
        table.set_block_size(block_bytes)
        table.set_bloom_filter(10, False)
        table.set_block_cache(self._cache)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(DBCompressionType.zstd())
        options.set_write_buffer_size(64 << 20)
        options.set_max_background_jobs(4)
        options.set_max_subcompactions(2)
        options.set_disable_auto_compactions(not background)
        options.set_block_based_table_factory(table)
        return options

    def write_batch(self, batch: Batch, txn: int) -> None:
        """One atomic, synced write of many cells."""
        write = WriteBatch(raw_mode=True)
        suffix = _SUFFIX.pack(_INVERT - txn, _INVERT - txn)
        for row, qualifier, value in zip(batch.rows, batch.qualifiers, batch.values, strict=True):
            write.put(row + _FAMILY + qualifier + suffix, value)
        self._db.write(write, self._synced)

    def put(self, row: bytes, qualifier: bytes, value: bytes, txn: int) -> None:
        """One synced cell."""
        self._db.put(cell_key(row, qualifier, txn, txn), value, self._synced)

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._db.get(key)
        return found

    def get_list(self, keys: list[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = self._db.get(keys)
        return found

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._db.items())

    def to_arrow(self, cells_per_batch: int = 65_536) -> Iterator[pa.RecordBatch]:
        """Iterate everything into Arrow, as a user of RocksDB in Python has to."""
        rows: list[bytes] = []
        values: list[bytes] = []
        for key, value in self._db.items():
            rows.append(key)
            values.append(value)
            if len(rows) == cells_per_batch:
                yield _as_arrow(rows, values)
                rows, values = [], []
        if rows:
            yield _as_arrow(rows, values)

    def flush(self) -> None:
        self._db.flush(True)

    def compact(self) -> None:
        """Rewrite everything, the lowest level too."""
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        self._db.compact_range(None, None, options)

    def warm(self) -> int:
        """Fill the cache by reading everything once; returns the bytes it then holds."""
        for _ in self._db.items():
            pass
        return int(self._cache.get_usage())

    def disk_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.path.glob("*.sst"))

    def close(self) -> None:
        self._db.close()


def _as_arrow(keys: Iterable[bytes], values: Iterable[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"]
    )
