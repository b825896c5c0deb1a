"""The reader: torn tails are forgiven, damage is not, and the two are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, SteleError, UnsupportedFormat
from stele.storage import log_reader
from stele.storage.log_format import (
    ENTRY_HEADER_BYTES,
    FILE_HEADER_BYTES,
    encode_entry_header,
    file_name,
)
from stele.storage.log_parts import release_commit
from stele.storage.log_reader import LogReader
from tests.unit.storage.log_support import (
    DIRECTORY,
    batch,
    new_writer,
    read,
    rows,
    txns_of,
    written,
)

FIRST = f"{DIRECTORY}/{file_name(1)}"


def rewritten(fs: MemoryFileSystem, path: str, data: bytes) -> MemoryFileSystem:
    fs.write_atomic(path, data)
    return fs


def offsets(fs: MemoryFileSystem) -> list[int]:
    """Where the entries of the log begin."""
    return [entry.offset for entry in LogReader(fs, DIRECTORY).entries()]


def test_an_empty_directory_is_a_log() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    assert read(fs) == []


def test_entries_come_back_in_order_across_files() -> None:
    fs = written([[rows(txn), batch(txn + 1)] for txn in range(1, 40, 2)], roll_bytes=2_048)
    assert len(fs.list(DIRECTORY)) > 3
    assert read(fs) == list(range(1, 41))


@pytest.mark.parametrize("read_ahead", [64, 512])
def test_entries_across_the_borders_of_what_is_read_ahead(
    monkeypatch: pytest.MonkeyPatch, read_ahead: int
) -> None:
    monkeypatch.setattr(log_reader, "READ_AHEAD_BYTES", read_ahead)
    fs = written([[rows(txn, value=bytes(txn * 7))] for txn in range(1, 40)])
    assert read(fs) == list(range(1, 40))


@pytest.mark.parametrize("cut", range(1, 200, 7))
def test_a_torn_last_entry_is_dropped_and_nothing_else(cut: int) -> None:
    fs = written([[rows(1)], [rows(2)], [rows(3, value=bytes(100))]])
    data = fs.read_all(FIRST)
    last = offsets(fs)[-1]
    assert len(data) - cut > last
    assert read(rewritten(fs, FIRST, data[:-cut])) == [1, 2]


def test_a_complete_last_entry_before_a_torn_header_is_kept() -> None:
    fs = written([[rows(1)], [rows(2)], [rows(3)]])
    data = fs.read_all(FIRST)
    assert read(rewritten(fs, FIRST, data[: offsets(fs)[-1] + 5])) == [1, 2]


def test_zeros_behind_the_last_entry_are_a_torn_write() -> None:
    fs = written([[rows(1)]])
    assert read(rewritten(fs, FIRST, fs.read_all(FIRST) + bytes(4_096))) == [1]


def test_a_damaged_entry_with_a_later_one_behind_it_is_named() -> None:
    fs = written([[rows(1)], [rows(2)], [rows(3)]])
    data = bytearray(fs.read_all(FIRST))
    second = offsets(fs)[1]
    data[second + ENTRY_HEADER_BYTES] ^= 1
    with pytest.raises(Corruption) as caught:
        read(rewritten(fs, FIRST, bytes(data)))
    assert (caught.value.file, caught.value.offset) == (FIRST, second)


def test_a_later_header_alone_proves_damage() -> None:
    """The entry behind it is torn itself, but it was begun: so the one before was durable."""
    fs = written([[rows(1)], [rows(2)], [rows(3)]])
    data = bytearray(fs.read_all(FIRST))
    _first, second, third = offsets(fs)
    data[second] ^= 1
    with pytest.raises(Corruption):
        read(rewritten(fs, FIRST, bytes(data[: third + ENTRY_HEADER_BYTES])))
    assert read(rewritten(fs, FIRST, bytes(data[: third + ENTRY_HEADER_BYTES - 1]))) == [1]


@pytest.mark.parametrize("read_ahead", [64, 4_096])
def test_a_later_entry_is_found_however_far_behind(
    monkeypatch: pytest.MonkeyPatch, read_ahead: int
) -> None:
    fs = written([[rows(1)], [rows(2, value=bytes(10_000))], [rows(3)]])
    data = bytearray(fs.read_all(FIRST))
    second = offsets(fs)[1]
    data[second + 40] ^= 0xFF  # its length
    monkeypatch.setattr(log_reader, "READ_AHEAD_BYTES", read_ahead)
    with pytest.raises(Corruption) as caught:
        read(rewritten(fs, FIRST, bytes(data)))
    assert caught.value.offset == second


def test_what_a_user_stores_does_not_pass_for_an_entry() -> None:
    other = written([[rows(1)], [rows(2)], [rows(3)]])
    image = other.read_all(FIRST)[FILE_HEADER_BYTES:]
    image = image.replace(image[:8], b"guessing")
    fs = written([[rows(1)], [rows(2, value=image)]])
    assert read(rewritten(fs, FIRST, fs.read_all(FIRST)[:-8])) == [1]


def test_a_torn_entry_anywhere_but_in_the_last_file_is_damage() -> None:
    fs = written([[rows(txn, value=bytes(300))] for txn in range(1, 5)], roll_bytes=1_024)
    data = fs.read_all(FIRST)
    third = offsets(fs)[2]
    for cut in (third, third + 10, len(data) - 1):
        with pytest.raises(Corruption) as caught:
            read(rewritten(fs, FIRST, data[:cut]))
        assert (caught.value.file, caught.value.offset) == (FIRST, third)


@pytest.mark.parametrize("between", [0, 8, 2_000])
def test_an_entry_behind_the_last_one_of_a_file_is_damage(
    monkeypatch: pytest.MonkeyPatch, between: int
) -> None:
    monkeypatch.setattr(log_reader, "READ_AHEAD_BYTES", 512)
    whole = written([[rows(1, value=bytes(200))], [rows(2)], [rows(3, value=bytes(1_000))]])
    _, second, third = offsets(whole)
    later = whole.read_all(FIRST)[third:]
    fs = written([[rows(1, value=bytes(200))], [rows(2, value=bytes(900))]], roll_bytes=1_024)
    data = fs.read_all(FIRST)
    assert data[:second] == whole.read_all(FIRST)[:second], "the same file up to there"
    with pytest.raises(Corruption, match="bytes follow the last entry") as caught:
        read(rewritten(fs, FIRST, data + bytes(between) + later))
    assert caught.value.offset == len(data)


@pytest.mark.parametrize("roll_bytes", [1_024, 1 << 20], ids=["last entry", "more to come"])
def test_what_a_file_held_before_is_passed_over(roll_bytes: int) -> None:
    old = written([[rows(txn, value=bytes(300))] for txn in range(1, 20)]).read_all(FIRST)
    fs = written([[rows(1, value=bytes(1_000))]], roll_bytes=roll_bytes)
    other_mark = old.replace(old[16:24], b"anything")
    data = fs.read_all(FIRST)
    assert read(rewritten(fs, FIRST, data + other_mark[len(data) :])) == [1]


def test_a_file_that_is_given_up_and_written_again_while_it_is_read() -> None:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1_024)
    for txn in range(1, 7):
        writer.write([rows(txn, value=bytes(400))])
    writer.write([release_commit(7, 3)])
    entries = LogReader(fs, DIRECTORY).entries()
    found = [next(entries)]
    writer.spares.keep_or_delete([1, 2])
    for txn in range(8, 14):
        writer.write([rows(txn, value=bytes(400))])
    assert not fs.exists(FIRST)
    found += entries
    assert set(txns_of(found)) >= {5, 6}


def test_a_file_that_vanishes_while_it_is_read_is_damage_if_it_was_not_given_up() -> None:
    fs = written([[rows(txn, value=bytes(300))] for txn in range(1, 10)], roll_bytes=1_024)
    entries = LogReader(fs, DIRECTORY).entries()
    next(entries)
    fs.delete(f"{DIRECTORY}/{file_name(2)}")
    with pytest.raises(Corruption, match="log file is missing"):
        list(entries)


@pytest.mark.parametrize("roll_bytes", [1_024, 1 << 20], ids=["last entry", "more to come"])
def test_what_was_reserved_behind_the_last_file_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, roll_bytes: int
) -> None:
    monkeypatch.setattr(log_reader, "READ_AHEAD_BYTES", 512)
    fs = written([[rows(1, value=bytes(1_000))]], roll_bytes=roll_bytes)
    assert read(rewritten(fs, FIRST, fs.read_all(FIRST) + bytes(5_000))) == [1]


def test_only_the_last_file_may_have_something_reserved() -> None:
    fs = written([[rows(txn, value=bytes(1_000))] for txn in (1, 2)], roll_bytes=1_024)
    with pytest.raises(Corruption, match="bytes follow the last entry"):
        read(rewritten(fs, FIRST, fs.read_all(FIRST) + bytes(8)))


def test_a_swapped_entry_does_not_fit() -> None:
    fs = written([[rows(1)], [rows(2)], [rows(3)]])
    data = fs.read_all(FIRST)
    one, two, three = offsets(fs)
    swapped = data[:one] + data[two:three] + data[one:two] + data[three:]
    with pytest.raises(Corruption, match="entry 2 does not follow entry 0"):
        read(rewritten(fs, FIRST, swapped))


def test_a_stale_entry_of_another_file_does_not_fit() -> None:
    fs = written([[rows(txn, value=bytes(400))] for txn in range(1, 5)], roll_bytes=1_024)
    second = f"{DIRECTORY}/{file_name(2)}"
    stale = fs.read_all(FIRST)[FILE_HEADER_BYTES:]
    header = fs.read_all(second)[:FILE_HEADER_BYTES]
    assert read(rewritten(fs, second, header + stale)) == [1, 2]


def test_a_file_of_another_log_does_not_follow() -> None:
    fs = written([[rows(txn, value=bytes(400))] for txn in range(1, 5)], roll_bytes=1_024)
    other = written([[rows(txn, value=bytes(401))] for txn in range(1, 5)], roll_bytes=1_024)
    second = f"{DIRECTORY}/{file_name(2)}"
    with pytest.raises(Corruption, match="does not follow the one before"):
        read(rewritten(fs, second, other.read_all(second)))


def test_a_file_under_a_wrong_name_is_named() -> None:
    fs = written([[rows(txn, value=bytes(1_000))] for txn in range(1, 4)], roll_bytes=1_024)
    fs.rename(f"{DIRECTORY}/{file_name(3)}", f"{DIRECTORY}/{file_name(2)}")
    with pytest.raises(Corruption, match="header is of file 3, not 2"):
        read(fs)


@pytest.mark.parametrize("missing", [1, 2])
def test_a_missing_file_is_named(missing: int) -> None:
    fs = written([[rows(txn, value=bytes(1_000))] for txn in range(1, 4)], roll_bytes=1_024)
    path = f"{DIRECTORY}/{file_name(missing)}"
    fs.delete(path)
    with pytest.raises(Corruption, match="missing") as caught:
        read(fs)
    assert caught.value.file == path


def released_log() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1_024)
    for txn in range(1, 4):
        writer.write([rows(txn, value=bytes(1_000))])
    writer.write([release_commit(4, 3), rows(5)])
    return fs


@pytest.mark.parametrize("deleted", [(), (1,), (2,), (1, 2)])
def test_released_files_may_be_missing(deleted: tuple[int, ...]) -> None:
    fs = released_log()
    for sequence in deleted:
        fs.delete(f"{DIRECTORY}/{file_name(sequence)}")
    assert read(fs)[-2:] == [3, 5]


def test_a_file_that_was_not_released_may_not_be_missing() -> None:
    fs = released_log()
    fs.delete(f"{DIRECTORY}/{file_name(1)}")
    fs.delete(f"{DIRECTORY}/{file_name(2)}")
    fs.delete(f"{DIRECTORY}/{file_name(3)}")
    with pytest.raises(Corruption, match="missing") as caught:
        read(fs)
    assert caught.value.file == f"{DIRECTORY}/{file_name(3)}"


@pytest.mark.parametrize("length", [0, 1, FILE_HEADER_BYTES - 1])
def test_a_last_file_whose_making_was_interrupted(length: int) -> None:
    fs = written([[rows(txn, value=bytes(1_000))] for txn in range(1, 3)], roll_bytes=1_024)
    with fs.create(f"{DIRECTORY}/{file_name(3)}") as file:
        file.write(bytes(length))
    assert read(fs) == [1, 2]


def test_a_torn_header_of_full_length() -> None:
    fs = written([[rows(1)]])
    assert read(rewritten(fs, FIRST, bytes(FILE_HEADER_BYTES))) == []


def test_a_bad_header_with_something_behind_it_is_damage() -> None:
    fs = written([[rows(1)]])
    data = bytearray(fs.read_all(FIRST))
    data[60] ^= 1
    with pytest.raises(Corruption, match="header does not match its checksum"):
        read(rewritten(fs, FIRST, bytes(data)))


def test_a_file_before_an_interrupted_one_must_be_complete() -> None:
    fs = written([[rows(1)], [rows(2)]])
    fs.create(f"{DIRECTORY}/{file_name(2)}").close()
    with pytest.raises(Corruption, match="ends without its last entry"):
        read(fs)


def test_unknown_flags_are_refused_and_not_dropped() -> None:
    fs = written([[rows(1)], [rows(2)]])
    data = fs.read_all(FIRST)
    _, second = list(LogReader(fs, DIRECTORY).entries())
    old = second.header
    header, _checksum = encode_entry_header(
        data[16:24],
        index=old.index,
        txns=(old.txn_min, old.txn_max),
        body_bytes=old.body_bytes,
        body_checksum=old.body_checksum,
        chain=old.chain,
        commits=old.commits,
        flags=0x80,
    )
    data = data[: second.offset] + header + data[second.body_offset :]
    with pytest.raises(UnsupportedFormat, match="flags 0x80"):
        read(rewritten(fs, FIRST, data))


def test_a_length_beyond_the_file_allocates_nothing() -> None:
    fs = written([[rows(1)], [rows(2)]])
    data = fs.read_all(FIRST)
    entry = list(LogReader(fs, DIRECTORY).entries())[1]
    header, _checksum = encode_entry_header(
        data[16:24],
        index=2,
        txns=(2, 2),
        body_bytes=(1 << 32) - 1,
        body_checksum=0,
        chain=entry.header.chain,
        commits=1,
        flags=0,
    )
    assert read(rewritten(fs, FIRST, data[: entry.offset] + header)) == [1]


@settings(max_examples=60)
@given(st.data())
def test_damage_to_several_files_is_never_read_as_something_else(data: st.DataObject) -> None:
    fs = written([[rows(txn), batch(txn + 1)] for txn in range(1, 12, 2)], roll_bytes=1_500)
    complete = read(fs)
    for _ in range(data.draw(st.integers(1, 3))):
        path = f"{DIRECTORY}/{data.draw(st.sampled_from(fs.list(DIRECTORY)))}"
        content = bytearray(fs.read_all(path))
        start = data.draw(st.integers(0, len(content) - 1))
        content[start : start + data.draw(st.integers(0, 600))] = data.draw(st.binary(max_size=64))
        fs.write_atomic(path, content)
    try:
        found = read(fs)
    except SteleError:
        return
    assert found == complete[: len(found)]
