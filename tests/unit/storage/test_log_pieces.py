"""Pieces of a log: together what one reader sees; damage is found by both, or by neither."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, SteleError
from stele.storage.log_format import file_name
from stele.storage.log_parts import release_commit
from stele.storage.log_pieces import PieceFacts, PieceReader, check_pieces, pieces_of
from stele.storage.log_seal import Seal, seal, sealed_entries
from tests.unit.storage.log_support import DIRECTORY, new_writer, rows, txns_of, written


def long_log() -> MemoryFileSystem:
    return written([[rows(txn, value=bytes(400))] for txn in range(1, 8)], roll_bytes=1_024)


def released_log() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1_024)
    for txn in range(1, 7):
        writer.write([rows(txn, value=bytes(600))])
    writer.write([release_commit(8, 3), rows(9)])
    writer.abandon()
    return fs


def read_pieces(fs: MemoryFileSystem, sealed: Seal) -> tuple[list[int], list[PieceFacts]]:
    """The txns of all pieces, each read by a reader of its own."""
    txns: list[int] = []
    facts: list[PieceFacts] = []
    for piece in reversed(pieces_of(fs, DIRECTORY, sealed)):
        reader = PieceReader(fs, piece)
        txns += txns_of(reader.entries())
        assert reader.facts is not None
        facts.append(reader.facts)
    check_pieces(DIRECTORY, sealed, facts)
    return sorted(txns), facts


def outcome(read: object) -> object:
    """What a reader found, or that it refused."""
    try:
        return read() if callable(read) else read
    except SteleError as error:
        return type(error)


def by_one_reader(fs: MemoryFileSystem, sealed: Seal) -> list[int]:
    return txns_of(sealed_entries(fs, DIRECTORY, sealed))


@pytest.mark.parametrize("deleted", [(), (1,), (1, 2), (1, 2, 3), (2,), (1, 3)])
def test_pieces_are_what_one_reader_sees(deleted: tuple[int, ...]) -> None:
    fs = released_log()
    sealed = seal(fs, DIRECTORY, "test")
    for sequence in deleted:
        fs.delete(f"{DIRECTORY}/{file_name(sequence)}")
    found = outcome(lambda: read_pieces(fs, sealed)[0])
    assert found == outcome(lambda: by_one_reader(fs, sealed))
    assert isinstance(found, list) == (deleted in [(), (1,), (1, 2), (2,)])


def test_an_empty_log_has_no_pieces() -> None:
    fs = MemoryFileSystem()
    sealed = seal(fs, DIRECTORY, "test")
    assert pieces_of(fs, DIRECTORY, sealed) == ()
    check_pieces(DIRECTORY, sealed, [])


def test_a_last_file_of_which_nothing_counts_is_no_piece() -> None:
    whole = seal(long_log(), DIRECTORY, "test")
    fs = long_log()
    fs.create_exclusive(f"{DIRECTORY}/{file_name(len(whole.lengths) + 1)}", b"")
    sealed = Seal({**whole.lengths, len(whole.lengths) + 1: 0}, whole.index, whole.chain, 7)
    with pytest.raises(Corruption, match="without its last entry"):
        read_pieces(fs, sealed)
    assert outcome(lambda: by_one_reader(fs, sealed)) is Corruption


def test_a_flipped_bit_is_found_by_both() -> None:
    sealed = seal(long_log(), DIRECTORY, "test")
    for sequence, length in sealed.lengths.items():
        for at in range(0, length, 311):
            fs = long_log()
            seal(fs, DIRECTORY, "test")
            path = f"{DIRECTORY}/{file_name(sequence)}"
            data = bytearray(fs.read_all(path))
            data[at] ^= 1
            fs.delete(path)
            fs.create_exclusive(path, bytes(data))
            mine = outcome(lambda fs=fs: read_pieces(fs, sealed)[0])
            assert mine == outcome(lambda fs=fs: by_one_reader(fs, sealed))


def test_reports_that_do_not_fit_each_other_are_refused() -> None:
    fs = long_log()
    sealed = seal(fs, DIRECTORY, "test")
    _, facts = read_pieces(fs, sealed)
    for number, wrong in itertools.product(
        range(len(facts)),
        [{"chain": 1}, {"chain_before": 1}, {"first_index": 99}, {"last_index": 99}],
    ):
        changed = [
            msgspec.structs.replace(each, **wrong) if place == number else each
            for place, each in enumerate(facts)
        ]
        of_beginning = "chain_before" in wrong or "first_index" in wrong
        if of_beginning and facts[number].sequence == 1:
            continue  # nothing is before the first
        with pytest.raises(Corruption):
            check_pieces(DIRECTORY, sealed, changed)
    for missing in facts:
        with pytest.raises(Corruption):
            check_pieces(DIRECTORY, sealed, [each for each in facts if each is not missing])
    opened = [msgspec.structs.replace(each, is_closed=False) for each in facts]
    with pytest.raises(Corruption, match="without its last entry"):
        check_pieces(DIRECTORY, sealed, opened)
