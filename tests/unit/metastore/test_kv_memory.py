"""What the map in memory keeps in its file."""

from __future__ import annotations

import msgspec
import pytest
from crc32c import crc32c

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, UnsupportedFormat
from stele.metastore.kv_memory import STATE_FILE, MemoryKeyValues


def test_what_was_synced_is_there_again() -> None:
    files = MemoryFileSystem()
    values = MemoryKeyValues(files)
    values.write({b"a": b"1"})
    values.sync()
    values.write({b"b": b"2"})
    again = MemoryKeyValues(files)
    assert again.get(b"a") == b"1"
    assert again.get(b"b") is None


def test_a_replaced_map_is_durable_at_once() -> None:
    files = MemoryFileSystem()
    MemoryKeyValues(files).stage([(b"a", b"1"), (b"b", b"2")])
    assert list(MemoryKeyValues(files).scan(b"", b"\xff")) == [(b"a", b"1"), (b"b", b"2")]


def test_a_crash_after_the_sync_loses_nothing() -> None:
    files = MemoryFileSystem()
    values = MemoryKeyValues(files)
    values.write({b"a": b"1"})
    with armed("metastore.kv_memory.after_sync", crash()), pytest.raises(SimulatedCrash):
        values.sync()
    assert MemoryKeyValues(files).get(b"a") == b"1"


def test_damage_is_named() -> None:
    files = MemoryFileSystem()
    MemoryKeyValues(files).stage([(b"a", b"1")])
    data = bytearray(files.read_all(STATE_FILE))
    data[-1] ^= 1
    files.write_atomic(STATE_FILE, bytes(data))
    with pytest.raises(Corruption, match=STATE_FILE):
        MemoryKeyValues(files)


def test_a_whole_file_of_another_form_is_not_damage() -> None:
    files = MemoryFileSystem()
    body = msgspec.msgpack.encode({"version": 2})
    files.write_atomic(STATE_FILE, crc32c(body).to_bytes(4, "big") + body)
    with pytest.raises(UnsupportedFormat, match=STATE_FILE):
        MemoryKeyValues(files)


def test_what_is_staged_is_not_overwritten_by_what_it_replaces() -> None:
    files = MemoryFileSystem()
    values = MemoryKeyValues(files)
    values.write({b"a": b"old"})
    staged = values.stage([(b"a", b"new")])
    values.sync()
    assert MemoryKeyValues(files).get(b"a") == b"new"
    staged.adopt()
    values.write({b"b": b"2"})
    values.sync()
    assert list(MemoryKeyValues(files).scan(b"", b"\xff")) == [(b"a", b"new"), (b"b", b"2")]
