"""Log directories that nobody writes any more."""

from __future__ import annotations

from stele.cluster.old_logs import directory_bytes, remove_old_logs
from stele.env.memory_fs import MemoryFileSystem
from stele.storage.log_format import LENGTHS_NAME, SEALED_NAME, file_name, spare_name


def filled() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for directory in ("log/a", "log/b", "log/c"):
        fs.mkdir(directory)
        for name in (file_name(1), spare_name(2), SEALED_NAME, LENGTHS_NAME):
            fs.write_atomic(f"{directory}/{name}", bytes(10))
    return fs


def test_what_is_named_stays_without_its_spares_and_what_is_written_stays_as_it_is() -> None:
    fs = filled()
    remove_old_logs(fs, "log", named={"log/b", "log/c"}, written=["log/c"])
    assert fs.list("log") == ["b", "c"]
    assert fs.list("log/b") == sorted([file_name(1), SEALED_NAME, LENGTHS_NAME])
    assert fs.list("log/c") == sorted([file_name(1), spare_name(2), SEALED_NAME, LENGTHS_NAME])


def test_a_seal_outlives_the_files_it_is_for() -> None:
    fs = filled()
    steps = fs.disk.steps = []
    remove_old_logs(fs, "log", named=(), written=["log/b", "log/c"])
    gone = [str(step) for step in steps if "log/a/" in str(step)]
    assert len(gone) == 4
    assert {name for name in (SEALED_NAME, LENGTHS_NAME) if name in "".join(gone[:2])} == set()


def test_the_size_of_a_directory() -> None:
    assert directory_bytes(filled(), "log/a") == 40
