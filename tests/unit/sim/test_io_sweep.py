"""The sweep fires at every call, and finds code that mishandles an error."""

from __future__ import annotations

from contextlib import suppress

import pytest

from stele.env.faults import Failure
from stele.env.memory_fs import MemoryFileSystem
from stele.env.ports import FileSystem
from stele.errors import SteleError, StorageFailed
from stele.sim.crash import CrashPoint, Notes
from stele.sim.io_sweep import SweepFailure, sweep


def work(fs: FileSystem, notes: Notes) -> None:
    fs.mkdir("d")
    with fs.create("d/log") as file:
        fs.sync_dir("d")
        for value in (b"one", b"two"):
            notes.attempt(value)
            file.write(value)
            file.sync()
            notes.ack(value)
    fs.create_exclusive("d/SEALED", b"x")
    fs.rename("d/SEALED", "d/sealed")
    assert fs.read_all("d/log") == b"onetwo"
    if fs.exists("d/log"):
        fs.list("d")
    fs.mkdir("e")
    fs.delete_dir("e")
    fs.lock_exclusive("LOCK").release()


def check(fs: FileSystem, point: CrashPoint) -> None:
    expected = b"".join(point.acked)
    if expected:
        assert fs.read_all("d/log").startswith(expected), "an acknowledged value is lost"


def test_every_call_fails_in_every_way() -> None:
    report = sweep(work, check, seed=3)
    report.require(
        calls=25, runs=120, runs_tolerated=10, create=4, open=4, write=12, read=2, cut=1, sync=8,
        sync_dir=8, rename=2, link=2, delete=2, stat=1, list=1, mkdir=4, rmdir=1, lock=1,
    )  # fmt: skip
    assert {"StorageFailed", "OutOfSpace", "TransientIoError"} <= set(report.errors)
    assert report.as_dict()["seed"] == 3


def test_a_sample_when_there_are_many_calls() -> None:
    report = sweep(work, check, failures=[Failure.EIO], runs_per_failure_max=5)
    assert report.runs == 10


def test_acknowledging_after_a_failed_sync_is_found() -> None:
    def stubborn(fs: FileSystem, notes: Notes) -> None:
        with fs.create("log") as file:
            fs.sync_dir("")
            notes.attempt(b"one")
            file.write(b"one")
            with suppress(StorageFailed):
                file.sync()
            notes.ack(b"one")

    def check_stubborn(fs: FileSystem, point: CrashPoint) -> None:
        assert not point.acked or fs.read_all("log") == b"one", "an acknowledged value is lost"

    with pytest.raises(
        SweepFailure, match=r"(?s)is lost.*EIO at call 5.*unsynced lost.*fail_sync 'log'"
    ):
        sweep(stubborn, check_stubborn)


def test_an_error_that_is_not_ours_is_found() -> None:
    def fragile(fs: FileSystem, notes: Notes) -> None:
        with suppress(SteleError):
            fs.write_atomic("config", b"x")
        b"x".index(fs.read_all("config") if fs.exists("config") else b"y")

    with pytest.raises(SweepFailure, match="not an error of ours: ValueError"):
        sweep(fragile, lambda _fs, _point: None)


def test_failing_on_a_short_call_is_found() -> None:
    def impatient(fs: MemoryFileSystem, notes: Notes) -> None:
        file = fs.create("a")
        file.write(b"1234")
        if len(fs.disk.file(2).changes) != 1:
            raise StorageFailed("short write")

    with pytest.raises(SweepFailure, match="a short call is no error"):
        sweep(impatient, lambda _fs, _point: None, failures=[Failure.SHORT])


def test_a_run_that_fails_without_faults_is_refused() -> None:
    with pytest.raises(SweepFailure, match="fails without faults"):
        sweep(lambda fs, _notes: fs.delete("nothing"), check)


def test_a_run_that_differs_from_time_to_time_is_refused() -> None:
    rounds = iter([3, 0, 0])

    def moody(fs: FileSystem, notes: Notes) -> None:
        for number in range(next(rounds)):
            fs.create(f"{number}").close()

    with pytest.raises(SweepFailure, match="not deterministic"):
        sweep(moody, lambda _fs, _point: None)


def test_trying_little_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="too little was tried"):
        sweep(work, check, failures=[Failure.SHORT]).require(sync=1)


def test_setup_runs_without_faults() -> None:
    report = sweep(
        lambda fs, _notes: fs.delete("there"),
        lambda _fs, _point: None,
        setup=lambda fs: fs.write_atomic("there", b"x"),
        failures=[Failure.EIO],
    )
    assert (report.calls, report.runs, report.errors["StorageFailed"]) == (1, 2, 2)
