"""Deep checks: damage anywhere in a file or a log is a sentence, and order is silence."""

from __future__ import annotations

from stele.env.memory_fs import MemoryFileSystem
from stele.model.cells import Cell
from stele.storage.deep_check import examine_here, wrong_with_fragment, wrong_with_log
from stele.storage.log_format import file_name
from tests.unit.storage.fragment_cases import new_fs, path_of, write
from tests.unit.storage.log_support import DIRECTORY, rows, written


def flipped(fs: MemoryFileSystem, path: str, at: int) -> None:
    data = bytearray(fs.read_all(path))
    data[at] ^= 1
    fs.delete(path)
    fs.create_exclusive(path, bytes(data))


def test_a_fragment() -> None:
    fs = new_fs()
    (info,) = write(fs, [Cell(b"a", "f", b"q", 1, b"v" * 50, txn=1)])
    path = path_of(info)
    assert wrong_with_fragment(fs, path) is None
    flipped(fs, path, 10)
    assert path in str(wrong_with_fragment(fs, path))
    assert "no-such" in str(wrong_with_fragment(fs, "no-such"))


def test_a_log() -> None:
    fs = written([[rows(txn, value=bytes(400))] for txn in range(1, 6)], roll_bytes=1_024)
    before = fs.list(DIRECTORY)
    assert wrong_with_log(fs, DIRECTORY) is None
    assert fs.list(DIRECTORY) == before, "looking seals nothing"
    flipped(fs, f"{DIRECTORY}/{file_name(1)}", 300)
    assert file_name(1) in str(wrong_with_log(fs, DIRECTORY))


def test_only_what_is_wrong_is_reported() -> None:
    fs = written([[rows(1)]])
    assert examine_here(fs)([], [DIRECTORY]) == {}
    found = examine_here(fs)(["missing"], [DIRECTORY])
    assert list(found) == ["missing"]
