"""One suite over every file system: what the port promises, whoever keeps it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stele.env.memory_fs import MemoryFileSystem
from stele.env.paths import NAME_BYTES_MAX, PATH_BYTES_MAX
from stele.env.ports import FileSystem
from stele.env.posix import PosixFileSystem
from stele.errors import (
    AlreadyExists,
    DirectoryInUse,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    SteleError,
)

MakeFileSystem = Callable[[Path], FileSystem]

VERSIONS: dict[str, MakeFileSystem] = {
    "posix": PosixFileSystem,
    "memory": lambda _path: MemoryFileSystem(),
}


@pytest.fixture(params=list(VERSIONS))
def fs(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    return VERSIONS[request.param](tmp_path / "root")


def refused(
    error: type[SteleError], attempts: Sequence[Callable[..., object]], *arguments: object
) -> None:
    for attempt in attempts:
        with pytest.raises(error):
            attempt(*arguments)


def put(fs: FileSystem, path: str, data: bytes = b"data") -> None:
    with fs.create(path) as file:
        file.write(data)
        file.sync()


# Files.


def test_what_is_written_is_read(fs: FileSystem) -> None:
    with fs.create("a") as file:
        file.write(b"one", bytearray(b"two"), memoryview(b"three"), pa.py_buffer(b"four"))
        file.write()
        file.write(b"")
        assert (file.position, file.path) == (15, "a")
        assert fs.read_all("a") == b"onetwothreefour", "visible before it is synced"
        file.sync()
    assert fs.read_all("a") == b"onetwothreefour"


def test_buffers_of_any_item_size_count_in_bytes(fs: FileSystem) -> None:
    array = pa.array([1, 2, 3], pa.int64())
    with fs.create("a") as file:
        file.write(array.buffers()[1].slice(0, 24), memoryview(b"12345678").cast("I"))
        assert file.position == 32
    assert fs.read_all("a") == b"".join(n.to_bytes(8, "little") for n in (1, 2, 3)) + b"12345678"


def test_more_buffers_than_one_call_takes(fs: FileSystem) -> None:
    pieces = [n.to_bytes(2, "big") for n in range(3000)]
    with fs.create("a") as file:
        file.write(*pieces)
    assert fs.read_all("a") == b"".join(pieces)


def test_a_file_is_created_once(fs: FileSystem) -> None:
    put(fs, "a", b"first")
    with pytest.raises(AlreadyExists, match="'a'"):
        fs.create("a")
    assert fs.read_all("a") == b"first"


def test_reads_stop_at_the_end_of_the_file(fs: FileSystem) -> None:
    put(fs, "a", b"0123456789")
    with fs.open_read("a") as file:
        assert (file.size(), file.path) == (10, "a")
        assert file.pread(0, 10) == b"0123456789"
        assert file.pread(3, 4) == b"3456"
        assert file.pread(7, 100) == b"789"
        assert file.pread(10, 1) == b""
        assert file.pread(1_000, 1) == b""
        assert file.pread(5, 0) == b""


def test_an_open_file_sees_what_is_written_later(fs: FileSystem) -> None:
    with fs.create("a") as writer, fs.open_read("a") as reader:
        assert reader.size() == 0
        writer.write(b"more")
        assert (reader.size(), reader.pread(0, 10)) == (4, b"more")


def test_an_open_file_outlives_its_name(fs: FileSystem) -> None:
    put(fs, "a", b"kept")
    with fs.open_read("a") as file:
        fs.delete("a")
        assert not fs.exists("a")
        assert file.pread(0, 4) == b"kept"


def test_threads_share_a_reader(fs: FileSystem) -> None:
    put(fs, "a", bytes(range(256)) * 64)
    wrong: dict[int, bool] = {}
    with fs.open_read("a") as file:

        def read(start: int) -> None:
            for offset in range(start, 16_384, 37):
                wrong[offset] = file.pread(offset, 1) != bytes([offset % 256])

        threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong
    assert not any(wrong.values())


def test_a_closed_file_cannot_be_used(fs: FileSystem) -> None:
    writer = fs.create("a")
    writer.close()
    writer.close()
    with pytest.raises(AssertionError, match="closed"):
        writer.write(b"x")
    reader = fs.open_read("a")
    reader.close()
    reader.close()
    with pytest.raises(AssertionError, match="closed"):
        reader.pread(0, 1)


# Names.


def test_missing_files_are_named(fs: FileSystem) -> None:
    for attempt in (fs.open_read, fs.read_all, fs.delete, fs.sync_file, fs.sync_dir, fs.list):
        with pytest.raises(NotFound, match="'no/such'"):
            attempt("no/such")
    with pytest.raises(NotFound, match="'no/such'"):
        fs.create("no/such")
    with pytest.raises(NotFound):
        fs.rename("no/such", "a")
    with pytest.raises(NotFound):
        fs.link("no/such", "a")
    assert not fs.exists("no/such")


def test_rename_replaces(fs: FileSystem) -> None:
    put(fs, "a", b"new")
    put(fs, "b", b"old")
    fs.rename("a", "b")
    assert fs.list("") == ["b"]
    assert fs.read_all("b") == b"new"
    fs.rename("b", "b")
    assert fs.read_all("b") == b"new"


def test_link_never_replaces(fs: FileSystem) -> None:
    put(fs, "a", b"one")
    put(fs, "b", b"two")
    with pytest.raises(AlreadyExists, match="'b'"):
        fs.link("a", "b")
    fs.link("a", "c")
    fs.delete("a")
    assert fs.read_all("c") == b"one"
    assert fs.read_all("b") == b"two"


def test_directories(fs: FileSystem) -> None:
    fs.mkdir("x/y/z")
    fs.mkdir("x/y/z")
    put(fs, "x/y/f")
    assert (fs.list(""), fs.list("x"), fs.list("x/y")) == (["x"], ["y"], ["f", "z"])
    assert fs.exists("x/y")
    with pytest.raises(AlreadyExists):
        fs.mkdir("x/y/f")
    with pytest.raises(AlreadyExists):
        fs.create("x/y/z")
    with pytest.raises(AlreadyExists):
        fs.delete_dir("x/y")
    fs.delete_dir("x/y/z")
    fs.delete("x/y/f")
    fs.delete_dir("x/y")
    assert fs.list("x") == []
    fs.sync_dir("x")
    with pytest.raises(NotFound):
        fs.list("x/y")


def test_a_directory_is_no_file_and_a_file_no_directory(fs: FileSystem) -> None:
    fs.mkdir("d")
    put(fs, "f")
    refused(InvalidArgument, [fs.open_read, fs.delete, fs.sync_file], "d")
    refused(InvalidArgument, [fs.list, fs.delete_dir, fs.sync_dir], "f")
    with pytest.raises(InvalidArgument):
        fs.create("f/under")
    with pytest.raises(InvalidArgument):
        fs.rename("f", "d")
    for give_a_name in (fs.rename, fs.link):
        with pytest.raises(InvalidArgument):
            give_a_name("d", "e")
        with pytest.raises(InvalidArgument):
            give_a_name("d", "d/e")
    assert not fs.exists("f/under")


def test_the_root_cannot_go_away(fs: FileSystem) -> None:
    put(fs, "f")
    with pytest.raises(AlreadyExists):
        fs.delete_dir("")
    with pytest.raises(AlreadyExists):
        fs.create("")
    fs.mkdir("")
    fs.sync_dir("")
    assert fs.list("") == ["f"]


@pytest.mark.parametrize(
    "bad", ["/etc", "..", "a/../b", "./a", "a//b", "a/", "a\0b", "a\nb", "\ud800"]
)
def test_a_path_cannot_leave_the_root(fs: FileSystem, bad: str) -> None:
    names = [fs.create, fs.open_read, fs.delete, fs.list, fs.mkdir, fs.sync_dir, fs.lock_exclusive]
    refused(InvalidArgument, names, bad)
    put(fs, "a.b")
    refused(InvalidArgument, [fs.rename, fs.link], "a.b", bad)
    refused(InvalidArgument, [fs.rename, fs.link], bad, "c")
    refused(InvalidArgument, [fs.write_atomic, fs.create_exclusive], bad, b"x")
    assert fs.list("") == ["a.b"]


def test_names_and_paths_are_bounded(fs: FileSystem) -> None:
    longest = "n" * NAME_BYTES_MAX
    put(fs, longest)
    fs.write_atomic(longest, b"also with a temporary beside it")
    for bad in (longest + "n", "é" * (NAME_BYTES_MAX // 2 + 1), "a/" * (PATH_BYTES_MAX // 2) + "a"):
        with pytest.raises(LimitExceeded, match="limit"):
            fs.create(bad)


# Publishing.


def test_write_atomic_replaces_and_leaves_nothing_else(fs: FileSystem) -> None:
    fs.mkdir("d")
    fs.write_atomic("d/a", b"1")
    fs.write_atomic("d/a", b"2", b"3")
    assert fs.read_all("d/a") == b"23"
    assert fs.list("d") == ["a"]
    with pytest.raises(NotFound):
        fs.write_atomic("no/such", b"")


def test_create_exclusive_has_one_winner(fs: FileSystem) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def compete(name: str) -> None:
        start.wait()
        try:
            fs.create_exclusive("SEALED", name.encode() * 1_000)
            outcomes.append(name)
        except AlreadyExists:
            outcomes.append("")

    threads = [threading.Thread(target=compete, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [name for name in outcomes if name]
    assert len(winners) == 1
    assert len(outcomes) == 8
    assert fs.read_all("SEALED") == winners[0].encode() * 1_000
    assert fs.list("") == ["SEALED"]


# Space and locks.


def test_free_bytes(fs: FileSystem) -> None:
    assert fs.free_bytes() > 0


def test_a_lock_is_exclusive(fs: FileSystem) -> None:
    with fs.lock_exclusive("LOCK"):
        with pytest.raises(DirectoryInUse, match="LOCK"):
            fs.lock_exclusive("LOCK")
        fs.lock_exclusive("OTHER").release()
    lock = fs.lock_exclusive("LOCK")
    lock.release()
    lock.release()
    fs.lock_exclusive("LOCK").release()
    assert fs.list("") == ["LOCK", "OTHER"]


# Any sequence of calls has the same outcome on every version.

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e"])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["write_atomic", "create_exclusive", "create"]),
            NAMES,
            st.binary(max_size=9),
        ),
        st.tuples(st.sampled_from(["rename", "link"]), NAMES, NAMES),
        st.tuples(
            st.sampled_from(
                ["delete", "mkdir", "delete_dir", "list", "exists", "read_all", "sync_dir"]
            ),
            NAMES,
        ),
    ),
    max_size=25,
)


def outcome(fs: FileSystem, operation: tuple[str, ...]) -> object:
    name, *arguments = operation
    try:
        result = getattr(fs, name)(*arguments[: 1 if name == "create" else None])
        if name == "create":
            result.write(arguments[1])
            result.close()
            return None
    except (AlreadyExists, NotFound, InvalidArgument) as error:
        return type(error)
    return result


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OPERATIONS)
def test_all_versions_agree(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, ...]]
) -> None:
    versions = {name: make(tmp_path_factory.mktemp(name)) for name, make in VERSIONS.items()}
    for operation in operations:
        outcomes = {name: outcome(fs, operation) for name, fs in versions.items()}
        assert outcomes["memory"] == outcomes["posix"], operation
