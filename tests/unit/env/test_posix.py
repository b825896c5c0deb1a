"""What only the real file system can show: links, modes, forks, and real errors."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stele.env.files import KernelFileSystem, KernelWritableFile
from stele.env.posix import PosixFileSystem, PosixKernel
from stele.env.real import SystemRandom
from stele.errors import (
    AlreadyExists,
    DirectoryInUse,
    InvalidArgument,
    NotFound,
    OutOfSpace,
    StorageFailed,
    Unavailable,
)


@pytest.fixture
def fs(tmp_path: Path) -> PosixFileSystem:
    return PosixFileSystem(tmp_path / "root")


def test_the_root_is_made_and_named(tmp_path: Path) -> None:
    fs = PosixFileSystem(tmp_path / "a" / "b")
    assert fs.root == str(tmp_path / "a" / "b")
    assert stat.S_IMODE(os.stat(fs.root).st_mode) == 0o700
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AlreadyExists):
        PosixFileSystem(tmp_path / "file")


def test_files_and_directories_are_private(fs: PosixFileSystem) -> None:
    fs.mkdir("d")
    fs.write_atomic("d/f", b"x")
    assert stat.S_IMODE(os.stat(f"{fs.root}/d").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{fs.root}/d/f").st_mode) == 0o600


def test_symbolic_links_are_not_followed(fs: PosixFileSystem, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    os.symlink(secret, f"{fs.root}/link")
    for attempt in (fs.open_read, fs.sync_file, fs.lock_exclusive):
        with pytest.raises(InvalidArgument):
            attempt("link")
    with pytest.raises(AlreadyExists):
        fs.create("link")
    fs.write_atomic("link", b"ours")
    assert secret.read_bytes() == b"secret"
    assert fs.read_all("link") == b"ours"


def test_a_dangling_link_is_still_a_name(fs: PosixFileSystem) -> None:
    os.symlink("nowhere", f"{fs.root}/link")
    assert fs.exists("link")
    with pytest.raises(AlreadyExists):
        fs.create("link")


def test_a_pipe_is_no_file(fs: PosixFileSystem) -> None:
    os.mkfifo(f"{fs.root}/pipe")
    with pytest.raises(InvalidArgument):
        fs.open_read("pipe")


def test_descriptors_are_given_back(fs: PosixFileSystem) -> None:
    fs.mkdir("d")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        fs.write_atomic("d/f", b"x")
        fs.read_all("d/f")
        fs.sync_file("d/f")
        fs.lock_exclusive("d/LOCK").release()
        with pytest.raises(InvalidArgument):
            fs.open_read("d")
        with pytest.raises(AlreadyExists):
            fs.create_exclusive("d/f", str(number).encode())
    assert len(os.listdir("/proc/self/fd")) == before


def test_running_out_of_descriptors_passes(fs: PosixFileSystem) -> None:
    fs.write_atomic("f", b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open("/", os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(Unavailable):
            fs.open_read("f")
        with pytest.raises(OutOfSpace, match="Too many open files"):
            fs.create("g")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert fs.read_all("f") == b"x"


def test_a_real_short_write_is_continued_into_its_real_error_and_undone(
    fs: PosixFileSystem,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = fs.create("f")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        file.write(bytes(600))
        with pytest.raises(OutOfSpace, match="too large"):
            file.write(bytes(600))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.path.getsize(f"{fs.root}/f") == 600, "the part that the kernel took is cut off"
    file.write(bytes(600))
    file.sync()
    file.close()
    assert os.path.getsize(f"{fs.root}/f") == 1_200


@pytest.mark.parametrize("filled", [True, False], ids=["filled", "empty"])
def test_a_reserved_place_reads_as_zeros_and_can_be_given_up(
    fs: PosixFileSystem, filled: bool
) -> None:
    with fs.create("f") as file:
        file.write(b"head")
        file.reserve(200_000, filled=filled)
        assert fs.read_all("f") == b"head" + bytes(199_996)
        file.write(b"tail")
        file.sync()
        assert fs.read_all("f") == b"headtail" + bytes(199_992)
        file.trim()
    assert fs.read_all("f") == b"headtail"


def test_a_really_full_device_that_cannot_be_cut_back(fs: PosixFileSystem) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    file = KernelWritableFile(PosixKernel(fs.root), descriptor, "full", set())
    with file, pytest.raises(StorageFailed, match="undo a write to 'full'"):
        file.write(b"x")


def test_a_place_where_nobody_may_write_stops() -> None:
    with pytest.raises(StorageFailed, match="make directory '/sys/stele/data'"):
        PosixFileSystem("/sys/stele/data")


HOLDER = """
import sys
from stele.env.posix import PosixFileSystem
lock = PosixFileSystem(sys.argv[1]).lock_exclusive("LOCK")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_keeps_other_processes_out_until_they_die(fs: PosixFileSystem) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, fs.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUse):
            fs.lock_exclusive("LOCK")
        holder.kill()
        holder.wait()
    fs.lock_exclusive("LOCK").release()


def test_a_lock_that_cannot_be_had_names_the_directory(
    fs: PosixFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StorageFailed) as refused:
        fs.lock_exclusive("LOCK")
    assert str(refused.value) == f"directory {fs.root!r}: cannot lock 'LOCK': Permission denied"


def test_releasing_a_lock_frees_it_though_its_open_file_was_inherited(fs: PosixFileSystem) -> None:
    lock = fs.lock_exclusive("LOCK")
    assert lock._descriptor is not None
    inherited = os.dup(lock._descriptor)  # what a child holds between its fork and its exec
    lock.release()
    fs.lock_exclusive("LOCK").release()
    os.close(inherited)


def test_a_forked_child_does_not_keep_the_lock(fs: PosixFileSystem) -> None:
    lock = fs.lock_exclusive("LOCK")
    ready_read, ready_write = os.pipe()
    end_read, end_write = os.pipe()
    child = os.fork()
    if child == 0:
        lock.release()  # not its lock: nothing may happen to the parent's
        os.write(ready_write, b"x")
        os.close(end_write)
        os.read(end_read, 1)
        os._exit(0)
    try:
        os.read(ready_read, 1)
        with pytest.raises(DirectoryInUse):
            fs.lock_exclusive("LOCK")
        lock.release()
        fs.lock_exclusive("LOCK").release()
    finally:
        os.write(end_write, b"x")
        os.waitpid(child, 0)
        for descriptor in (ready_read, ready_write, end_read, end_write):
            os.close(descriptor)


class WithoutReserving(PosixKernel):
    """A file system that cannot reserve: the C library writes a byte here and there instead, and
    before that reads what is there of a file that reaches so far already."""

    def allocate(self, descriptor: int, offset: int, length: int, filled: bool) -> None:
        if offset < self.size(descriptor):
            raise OSError(errno.EBADF, "the file is open for writing only")
        self.write(descriptor, [memoryview(b"\x00")], offset + length - 1)


def test_a_file_is_written_over_from_its_start(tmp_path: Path) -> None:
    fs = PosixFileSystem(tmp_path)
    with fs.create("f") as file:
        file.write(b"0123456789")
        assert (file.position, file.length) == (10, 10)
    with fs.overwrite("f") as file:
        assert (file.position, file.length) == (0, 10)
        file.write(b"abc")
        file.sync()
        assert (file.position, file.length) == (3, 10)
        assert fs.read_all("f") == b"abc3456789"
        file.reserve(12)
        assert fs.read_all("f") == b"abc3456789\0\0"
        file.trim()
    assert fs.read_all("f") == b"abc"


def test_only_a_file_is_written_over(tmp_path: Path) -> None:
    fs = PosixFileSystem(tmp_path)
    with pytest.raises(NotFound):
        fs.overwrite("missing")
    fs.mkdir("d")
    with pytest.raises(InvalidArgument):
        fs.overwrite("d")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidArgument):
        fs.overwrite("link")


def test_reserving_again_does_not_look_at_what_is_reserved(tmp_path: Path) -> None:
    kernel = WithoutReserving(str(tmp_path))
    fs = KernelFileSystem(kernel, SystemRandom())
    with fs.create("log") as file:
        file.write(b"one")
        file.reserve(10)
        file.write(b"two")
        file.reserve(8)
        file.reserve(20)
        assert fs.read_all("log") == b"onetwo" + bytes(14)
        file.trim()
        file.reserve(9)
        file.write(b"three")
        file.reserve(12)
        assert fs.read_all("log") == b"onetwothree" + bytes(1)
        file.trim()
    assert fs.read_all("log") == b"onetwothree"
