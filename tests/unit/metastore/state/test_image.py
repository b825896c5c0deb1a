"""Images: equal bytes for equal states, and nothing that is damaged is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.posix import PosixFileSystem
from stele.errors import Corruption
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.kv_rocks import RocksKeyValues
from stele.metastore.state.image import CHUNK_BYTES, read_image, write_image
from tests.unit.metastore.state.replica import Replica


def image_of(items: dict[bytes, bytes]) -> list[bytes]:
    values = MemoryKeyValues()
    values.write(items)
    return list(write_image(values.view()))


LARGE = {b"\x01%03d" % x: b"v" * (CHUNK_BYTES // 4) for x in range(10)}


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.binary(min_size=1, max_size=4).map(lambda k: b"\x01" + k), st.binary()))
def test_what_was_written_is_read(items: dict[bytes, bytes]) -> None:
    assert dict(read_image(image_of(items))) == items


def test_it_comes_in_chunks() -> None:
    chunks = image_of(LARGE)
    assert len(chunks) > 2
    assert max(map(len, chunks)) < 2 * CHUNK_BYTES
    assert dict(read_image(chunks)) == LARGE


def test_any_damage_is_noticed() -> None:
    chunks = image_of(LARGE)
    broken = {
        "a flipped bit": [chunks[0][:-1] + bytes([chunks[0][-1] ^ 1]), *chunks[1:]],
        "no end": chunks[:-1],
        "nothing": [],
        "a chunk left out": [chunks[0], *chunks[2:]],
        "twice": [chunks[0], *chunks],
        "another order": [chunks[1], chunks[0], *chunks[2:]],
        "the end of another": [*image_of({b"\x01a": b"1"})[:-1], *image_of({b"\x01b": b"1"})[-1:]],
        "an empty chunk": [b"", *chunks],
        "a body of something else": [crc32c(b"\xc1").to_bytes(4, "big") + b"\xc1", *chunks],
    }
    for what, bad in broken.items():
        with pytest.raises(Corruption, match="image"):
            list(read_image(bad))
        assert what


def test_memory_and_rocks_give_the_same_bytes(tmp_path: Path) -> None:
    rocks = Replica(RocksKeyValues(str(tmp_path), PosixFileSystem(str(tmp_path))))
    memory = Replica()
    for replica in (rocks, memory):
        session = replica.open_session()
        replica.put("/a", b"1", session)
        replica.put("/a", b"2")
        replica.acquire(session, "/l")
        replica.delete("/a")
    assert rocks.image() == memory.image()
    rocks.machine.replace(memory.machine.export())
    assert rocks.image() == memory.image()
    rocks.values.close()


def test_an_export_is_of_the_moment_it_was_asked_for() -> None:
    replica = Replica()
    replica.put("/a", b"1")
    expected = replica.image()
    export = replica.machine.export()
    replica.put("/a", b"2")
    assert b"".join(export) == expected


def test_a_damaged_image_leaves_the_state_as_it_was() -> None:
    replica = Replica()
    replica.put("/a", b"1")
    before = replica.image()
    with pytest.raises(Corruption):
        replica.machine.replace(image_of(LARGE)[:-1])
    assert replica.image() == before
    assert replica.contents() == {"/a": b"1"}
