"""Sealing: the first decides, everybody agrees, and nothing acknowledged is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import AlreadyExists, Corruption, TabletNotServing, UnsupportedFormat
from stele.storage import log_seal
from stele.storage.log_format import FILE_HEADER_BYTES, LENGTHS_NAME, file_name
from stele.storage.log_seal import (
    AFTER_LENGTHS,
    AFTER_SEALED,
    AFTER_TAIL_SYNC,
    Seal,
    is_sealed,
    peek,
    read_seal,
    seal,
    seal_fence,
    sealed_entries,
)
from stele.storage.log_writer import AFTER_WRITE
from tests.unit.storage.log_support import DIRECTORY, new_writer, recover, rows, txns_of, written

FIRST = f"{DIRECTORY}/{file_name(1)}"


@given(
    st.dictionaries(st.integers(1, 1 << 40), st.integers(0, 1 << 40), max_size=20),
    st.integers(0, 1 << 60),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, 1 << 62),
)
def test_a_seal_comes_back(lengths: dict[int, int], index: int, chain: int, clock: int) -> None:
    sealed = Seal(lengths, index, chain, clock)
    assert Seal.decode(sealed.encode(), "f") == sealed


def test_every_flipped_bit_of_a_seal_is_found() -> None:
    data = Seal({1: 500, 2: 300}, 9, 77, 1_000).encode()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corruption):
            Seal.decode(bytes(flipped), "f")


@pytest.mark.parametrize("length", [0, 8, 30, 50])
def test_a_short_seal_is_corruption(length: int) -> None:
    with pytest.raises(Corruption):
        Seal.decode(Seal({1: 500}, 9, 77, 1_000).encode()[:length], "f")


def test_a_newer_seal_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_seal, "LENGTHS_VERSION", 2)
    data = Seal({}, 0, 0, 0).encode()
    monkeypatch.setattr(log_seal, "LENGTHS_VERSION", 1)
    with pytest.raises(UnsupportedFormat, match="version 2; this program knows 1"):
        Seal.decode(data, "f")


def test_a_log_is_sealed_where_its_entries_end() -> None:
    fs = written([[rows(txn, value=bytes(400))] for txn in range(1, 6)], roll_bytes=1_024)
    size = len(fs.read_all(f"{DIRECTORY}/{file_name(3)}"))
    sealed = seal(fs, DIRECTORY, "test")
    assert sorted(sealed.lengths) == [1, 2, 3]
    assert sealed.lengths[3] == size
    assert (sealed.index, sealed.clock) == (5, 5)
    assert recover(fs) == [1, 2, 3, 4, 5]


def test_a_peek_sees_what_a_seal_would_record_and_leaves_no_trace() -> None:
    fs = written([[rows(txn, value=bytes(400))] for txn in range(1, 6)], roll_bytes=1_024)
    before = fs.list(DIRECTORY)
    seen = peek(fs, DIRECTORY)
    assert fs.list(DIRECTORY) == before
    assert seal(fs, DIRECTORY, "test") == seen == peek(fs, DIRECTORY)


def test_an_empty_directory_is_sealed_as_empty() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    assert seal(fs, DIRECTORY, "test") == Seal({}, 0, 0, 0)
    assert recover(fs) == []


def test_a_directory_that_was_never_made_cannot_be_started_any_more() -> None:
    fs = MemoryFileSystem()
    assert recover(fs) == []
    with pytest.raises(AlreadyExists):
        new_writer(fs)


def test_a_torn_tail_is_left_out_for_good() -> None:
    fs = written([[rows(1)], [rows(2)]])
    data = fs.read_all(FIRST)
    fs.write_atomic(FIRST, data[:-8])
    assert recover(fs) == [1]
    fs.write_atomic(FIRST, data)  # as if it had been completed after all
    assert recover(fs) == [1]


def test_what_the_old_writer_adds_does_not_count() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1_024)
    writer.write([rows(1)])
    first = seal(fs, DIRECTORY, "test")
    for txn in range(2, 20):
        writer.write([rows(txn, value=bytes(200))])
    assert recover(fs) == [1]
    assert seal(fs, DIRECTORY, "another") == first


def test_the_old_writer_is_told() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    fence = seal_fence(fs, DIRECTORY)
    fence()
    gone = seal_fence(fs, "log/gone")
    with pytest.raises(TabletNotServing, match="is over"):
        gone()
    assert not is_sealed(fs, DIRECTORY)
    seal(fs.attached(), DIRECTORY, "test")
    assert is_sealed(fs, DIRECTORY)
    with pytest.raises(TabletNotServing, match="sealed"):
        fence()


def test_the_first_lengths_win() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs)
    writer.write([rows(1)])
    other = fs.attached()
    outcomes = []

    def seal_first(_name: str) -> None:
        writer.write([rows(2)])
        outcomes.append(seal(other, DIRECTORY, "quicker"))

    with armed(AFTER_TAIL_SYNC, seal_first, hit=1):
        outcomes.append(seal(fs, DIRECTORY, "slower"))
    assert outcomes[0] == outcomes[1]
    assert recover(fs) == [1, 2]


@pytest.mark.parametrize("name", [AFTER_SEALED, AFTER_TAIL_SYNC, AFTER_LENGTHS])
def test_a_crash_while_sealing_changes_nothing_that_was_decided(name: str) -> None:
    fs = written([[rows(1)], [rows(2)]])
    with armed(name, crash()), pytest.raises(SimulatedCrash):
        seal(fs, DIRECTORY, "test")
    fs = fs.crash_image()
    assert is_sealed(fs, DIRECTORY)
    decided = read_seal(fs, DIRECTORY)
    assert (decided is not None) == (name == AFTER_LENGTHS)
    assert recover(fs) == [1, 2]
    assert decided in (None, read_seal(fs, DIRECTORY))


def test_what_a_killed_process_left_is_made_durable_first() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs)
    writer.write([rows(1)])
    with armed(AFTER_WRITE, crash()), pytest.raises(SimulatedCrash):
        writer.write([rows(2)])
    fs = fs.restarted()
    assert recover(fs) == [1, 2]
    assert recover(fs.crash_image()) == [1, 2]


def test_every_flipped_bit_of_a_sealed_log_is_found() -> None:
    fs = written([[rows(1)], [rows(2)]])
    sealed = seal(fs, DIRECTORY, "test")
    data = fs.read_all(FIRST)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        fs.write_atomic(FIRST, flipped)
        with pytest.raises(Corruption):
            txns_of(sealed_entries(fs, DIRECTORY, sealed))


def test_damage_before_the_end_stops_the_sealing() -> None:
    fs = written([[rows(1)], [rows(2)]])
    data = bytearray(fs.read_all(FIRST))
    data[FILE_HEADER_BYTES + 60] ^= 1
    fs.write_atomic(FIRST, data)
    with pytest.raises(Corruption):
        seal(fs, DIRECTORY, "test")
    assert is_sealed(fs, DIRECTORY)
    assert not fs.exists(f"{DIRECTORY}/{LENGTHS_NAME}")


def test_a_file_before_an_interrupted_one_must_be_complete() -> None:
    fs = written([[rows(1)], [rows(2)]])
    fs.create(f"{DIRECTORY}/{file_name(2)}").close()
    with pytest.raises(Corruption, match="ends without its last entry"):
        seal(fs, DIRECTORY, "test")


def test_an_interrupted_file_is_on_record_as_empty() -> None:
    fs = written([[rows(1, value=bytes(1_000))]], roll_bytes=1_024)
    fs.create(f"{DIRECTORY}/{file_name(2)}").close()
    assert seal(fs, DIRECTORY, "test").lengths[2] == 0
    assert recover(fs) == [1]


def test_a_file_on_record_that_is_gone_is_named() -> None:
    fs = written([[rows(txn, value=bytes(1_000))] for txn in range(1, 4)], roll_bytes=1_024)
    seal(fs, DIRECTORY, "test")
    fs.delete(f"{DIRECTORY}/{file_name(3)}")
    with pytest.raises(Corruption, match="missing") as caught:
        recover(fs)
    assert caught.value.file == f"{DIRECTORY}/{file_name(3)}"


def test_a_file_shorter_than_on_record_is_named() -> None:
    fs = written([[rows(1)], [rows(2)]])
    seal(fs, DIRECTORY, "test")
    fs.write_atomic(FIRST, fs.read_all(FIRST)[:-8])
    with pytest.raises(Corruption):
        recover(fs)


def test_another_log_of_the_same_length_is_not_the_one_on_record() -> None:
    fs = written([[rows(1)], [rows(2)]])
    sealed = seal(fs, DIRECTORY, "test")
    other = written([[rows(1)], [rows(2, value=b"VALUE")]])
    fs.write_atomic(FIRST, other.read_all(FIRST))
    with pytest.raises(Corruption, match="on record is 2"):
        txns_of(sealed_entries(fs, DIRECTORY, sealed))
