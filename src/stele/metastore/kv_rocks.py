"""The ordered map on RocksDB.

Batches are written without a sync, which costs some microseconds; ``sync`` flushes RocksDB's own
log with ``flush_wal(True)``, the one durable call of ``rocksdict`` that lets other Python threads
run meanwhile (``write(sync=True)`` keeps the GIL for as long as the disk takes). Gets keep it too,
so the block cache is meant to hold the whole store.

The contents are replaced by building a second database beside the first and switching a small file:

    CURRENT              the name of the database that counts, replaced atomically
    state-00000001/      a RocksDB; any other one is left over from a crash and goes at the next
                         open
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
)

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import Corruption, OutOfSpace, SteleError, StorageFailed

CURRENT: Final = "CURRENT"
BLOCK_CACHE_BYTES: Final = 256 << 20
"""A metastore is small: all of it should be here. Memory is taken only as blocks are read."""

WRITE_BUFFER_BYTES: Final = 32 << 20
BLOOM_BITS_PER_KEY: Final = 10
REPLACE_BATCH_ITEMS: Final = 1000

BEFORE_SWITCH: Final = declare("metastore.kv_rocks.before_switch")
AFTER_SWITCH: Final = declare("metastore.kv_rocks.after_switch")
AFTER_SYNC: Final = declare("metastore.kv_rocks.after_sync")


class RocksView:
    """Implements :class:`stele.metastore.kv.View`.

    An iterator of RocksDB sees the moment it was made, wherever it is moved to. (The snapshots of
    ``rocksdict`` do so for single gets only; their iterators see what is written later.)
    """

    def __init__(self, iterator: RdictIter):
        self._iterator: RdictIter | None = iterator

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        assert self._iterator is not None, "the view is closed"
        return _forwards(self._iterator, start, end)

    def close(self) -> None:
        self._iterator = None


class RocksReplacement:
    """Implements :class:`stele.metastore.kv.Replacement`: a database that ``CURRENT`` names."""

    def __init__(self, owner: RocksKeyValues, name: str, database: Rdict):
        self._owner = owner
        self._name = name
        self._database = database
        self._replaced: Rdict | None = None

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._database.get(key)
        return value

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return _scan(self._database, start, end, reverse=reverse)

    def adopt(self) -> None:
        self._replaced = self._owner.switch_to(self._name, self._database)

    def retire(self) -> None:
        assert self._replaced is not None, "what was replaced is not known before that is done"
        self._replaced.close()
        self._owner.remove_leftovers()


class RocksKeyValues:
    """Implements :class:`stele.metastore.kv.KeyValues`.

    ``files`` is the file system rooted at ``directory``, which is a directory of the machine:
    RocksDB opens its files itself.
    """

    def __init__(self, directory: str, files: FileSystem):
        self._directory = directory
        self._files = files
        self._name = self._read_current()
        self.remove_leftovers()
        self._database = _open(f"{directory}/{self._name}")

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._database.get(key)
        return value

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return _scan(self._database, start, end, reverse=reverse)

    def write(self, batch: Mapping[bytes, bytes | None]) -> None:
        _write(self._database, batch.items())

    def view(self) -> RocksView:
        return RocksView(self._database.iter())

    def sync(self) -> None:
        database = self._database
        try:
            database.flush_wal(True)
        except Exception as error:
            if database is not self._database:
                return  # replaced meanwhile by what is durable
            raise _translated(error, "sync") from error
        failpoint(AFTER_SYNC)

    def stage(self, items: Iterable[tuple[bytes, bytes]]) -> RocksReplacement:
        self.remove_leftovers()  # of an image that broke off
        following = f"state-{int(self._name.removeprefix('state-')) + 1:08d}"
        database = _open(f"{self._directory}/{following}")
        try:
            _fill(database, items)
            failpoint(BEFORE_SWITCH)
            self._files.write_atomic(CURRENT, following.encode())
        except BaseException:
            database.close()
            raise
        failpoint(AFTER_SWITCH)
        return RocksReplacement(self, following, database)

    def switch_to(self, name: str, database: Rdict) -> Rdict:
        """Go on with another database; the one before."""
        before, self._name, self._database = self._database, name, database
        return before

    def close(self) -> None:
        with suppress(DbClosedError):
            self._database.close()

    def _read_current(self) -> str:
        if not self._files.exists(CURRENT):
            self._files.write_atomic(CURRENT, b"state-00000001")
        name = self._files.read_all(CURRENT).decode("ascii", "replace")
        if not (name.startswith("state-") and name.removeprefix("state-").isdigit()):
            raise Corruption(f"{name!r} is not the name of a state", file=CURRENT)
        return name

    def remove_leftovers(self) -> None:
        """Delete every database but the one that counts."""
        for name in self._files.list(""):
            if name.startswith("state-") and name != self._name:
                for file in self._files.list(name):
                    self._files.delete(f"{name}/{file}")
                self._files.delete_dir(name)


def _open(path: str) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    # A torn tail is the end of an unsynced batch; damage before it must not pass for one.
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    table = BlockBasedOptions()
    table.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    options.set_block_based_table_factory(table)
    try:
        return Rdict(path, options)
    except Exception as error:
        raise _translated(error, "open") from error


def _fill(database: Rdict, items: Iterable[tuple[bytes, bytes]]) -> None:
    pending: list[tuple[bytes, bytes]] = []
    for item in items:
        pending.append(item)
        if len(pending) == REPLACE_BATCH_ITEMS:
            _write(database, pending)
            pending.clear()
    _write(database, pending)
    try:
        database.flush(True)
        database.flush_wal(True)
    except Exception as error:
        raise _translated(error, "sync") from error


def _write(database: Rdict, items: Iterable[tuple[bytes, bytes | None]]) -> None:
    try:
        database.write(_encoded(items))
    except Exception as error:
        raise _translated(error, "write") from error


def _encoded(items: Iterable[tuple[bytes, bytes | None]]) -> WriteBatch:
    batch = WriteBatch(raw_mode=True)
    put, delete = batch.put, batch.delete
    for key, value in items:
        if value is None:
            delete(key)
        else:
            put(key, value)
    return batch


def _scan(
    database: Rdict, start: bytes, end: bytes, *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    iterator = database.iter()
    return _backwards(iterator, start, end) if reverse else _forwards(iterator, start, end)


def _forwards(iterator: RdictIter, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    iterator.seek(start)
    while iterator.valid():
        key = iterator.key()
        if key >= end:
            return
        yield key, iterator.value()
        iterator.next()


def _backwards(iterator: RdictIter, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    iterator.seek_for_prev(end)
    while iterator.valid():
        key = iterator.key()
        if key < start:
            return
        if key < end:
            yield key, iterator.value()
        iterator.prev()


def _translated(error: Exception, what: str) -> SteleError:
    text = f"RocksDB could not {what}: {error}"
    if "No space left" in str(error):
        return OutOfSpace(text)
    if "Corruption" in str(error):
        return Corruption(text)
    return StorageFailed(text)
