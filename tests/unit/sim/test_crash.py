"""The explorer against a small log: sound code passes, each classic mistake is found."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable

import pytest

from stele.env.disk import Step
from stele.env.failpoints import SimulatedCrash
from stele.env.memory_fs import MemoryFileSystem
from stele.env.ports import FileSystem
from stele.errors import NotFound, SteleError
from stele.sim.crash import CrashFailure, CrashPoint, Notes, explore, fair_shares, require_minimums

ENTRIES = [bytes([65 + n]) * size for n, size in enumerate([5, 600, 1, 1400, 30])]
HEADER_BYTES = 8


def framed(entry: bytes) -> bytes:
    return len(entry).to_bytes(4, "big") + zlib.crc32(entry).to_bytes(4, "big") + entry


def complete_entries(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at + HEADER_BYTES <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        entry = data[at + HEADER_BYTES : at + HEADER_BYTES + size]
        checksum = int.from_bytes(data[at + 4 : at + HEADER_BYTES], "big")
        if not size or len(entry) < size or zlib.crc32(entry) != checksum:
            break
        found.append(entry)
        at += HEADER_BYTES + size
    return found


def write_log(fs: FileSystem, notes: Notes) -> None:
    fs.mkdir("log")
    with fs.create("log/1") as file:
        fs.sync_dir("log")
        for entry in ENTRIES:
            notes.attempt(entry)
            file.write(framed(entry))
            file.sync()
            notes.ack(entry)


def read_log(fs: FileSystem) -> list[bytes]:
    try:
        return complete_entries(fs.read_all("log/1"))
    except NotFound:
        return []


def check_log(fs: FileSystem, point: CrashPoint) -> list[bytes]:
    found = read_log(fs)
    assert found[: len(point.acked)] == list(point.acked), "an acknowledged entry is lost"
    assert found == list(point.attempted[: len(found)]), "an entry is made up"
    if found:
        fs.sync_file("log/1")
        fs.sync_dir("log")
        fs.mkdir("log")
    return found


def test_a_sound_log_passes_everywhere() -> None:
    report = explore(write_log, check_log, seed=5, states_max=2_000, nested_max=40)
    report.require(moments_exhausted=15, states=30, torn=15, nested_chains=20, nested_states=30)
    assert report.moments == report.steps + 1 == 15
    assert report.as_dict()["seed"] == 5


def without_sync(fs: FileSystem, notes: Notes) -> None:
    fs.mkdir("log")
    with fs.create("log/1") as file:
        fs.sync_dir("log")
        for entry in ENTRIES:
            notes.attempt(entry)
            file.write(framed(entry))
            notes.ack(entry)


def without_directory_sync(fs: FileSystem, notes: Notes) -> None:
    fs.mkdir("log")
    with fs.create("log/1") as file:
        notes.attempt(ENTRIES[0])
        file.write(framed(ENTRIES[0]))
        file.sync()
        notes.ack(ENTRIES[0])


def acknowledged_too_early(fs: FileSystem, notes: Notes) -> None:
    fs.mkdir("log")
    with fs.create("log/1") as file:
        fs.sync_dir("log")
        notes.attempt(ENTRIES[0])
        notes.ack(ENTRIES[0])
        file.write(framed(ENTRIES[0]))
        file.sync()


@pytest.mark.parametrize("run", [without_sync, without_directory_sync, acknowledged_too_early])
def test_a_writer_that_promises_too_much_is_found(run: Callable[[FileSystem, Notes], None]) -> None:
    with pytest.raises(CrashFailure, match="an acknowledged entry is lost"):
        explore(run, check_log)


def test_a_reader_that_trusts_torn_entries_is_found() -> None:
    def check(fs: FileSystem, point: CrashPoint) -> None:
        if fs.exists("log/1"):
            data, found, at = fs.read_all("log/1"), [], 0
            while at < len(data):
                size = int.from_bytes(data[at : at + 4], "big")
                found.append(data[at + HEADER_BYTES : at + HEADER_BYTES + size])
                at += HEADER_BYTES + size
            assert all(entry in point.attempted for entry in found), "an entry is made up"

    with pytest.raises(CrashFailure, match="made up"):
        explore(write_log, check)


def test_a_recovery_that_trusts_a_killed_process_is_found_when_nested() -> None:
    def check(fs: FileSystem, point: CrashPoint) -> list[bytes]:
        found = read_log(fs)
        assert found[: len(point.acked)] == list(point.acked), "an acknowledged entry is lost"
        return found

    explore(write_log, check).require(states=30)
    with pytest.raises(CrashFailure, match="choice: killed\nthen, in recovery"):
        explore(write_log, check, nested_max=40)


def test_a_recovery_that_breaks_things_half_way_is_found_when_nested() -> None:
    def check(fs: FileSystem, point: CrashPoint) -> None:
        found = read_log(fs)
        if not found and fs.exists("copy"):
            found = complete_entries(fs.read_all("copy"))
        assert found[: len(point.acked)] == list(point.acked), "an acknowledged entry is lost"
        if fs.exists("log/1"):
            fs.delete("log/1")
            fs.sync_dir("log")
            fs.write_atomic("copy", *map(framed, found))

    explore(write_log, check).require(states=30)
    with pytest.raises(CrashFailure, match="then, in recovery"):
        explore(write_log, check, nested_max=40)


def test_a_failure_says_where_and_can_be_seen_again() -> None:
    with pytest.raises(CrashFailure) as caught:
        explore(without_sync, check_log, seed=9)
    message = str(caught.value)
    assert "seed 9" in message
    assert "write of 13 bytes 'log/1'" in message
    assert "choice: all unsynced lost" in message
    number = int(message.split("only=")[1].partition(")")[0])
    with pytest.raises(CrashFailure) as again:
        explore(without_sync, check_log, seed=9, only=number)
    assert str(again.value) == message
    explore(without_sync, check_log, seed=9, only=number - 1)


def test_setup_is_synced_and_not_part_of_the_trace() -> None:
    def check(fs: FileSystem, point: CrashPoint) -> None:
        assert fs.read_all("before") == b"here"

    def setup(fs: FileSystem) -> None:
        with fs.create("before") as file:
            file.write(b"here")

    report = explore(lambda fs, _notes: fs.write_atomic("x", b"1"), check, setup=setup)
    report.require(steps=5, states=4)


def test_a_run_may_end_in_a_simulated_crash() -> None:
    def run(fs: FileSystem, notes: Notes) -> None:
        write_log(fs, notes)
        raise SimulatedCrash

    assert explore(run, check_log).steps == 14


def test_an_error_of_the_run_itself_is_not_hidden() -> None:
    with pytest.raises(SteleError):
        explore(lambda fs, _notes: fs.delete("nothing"), check_log)


def test_long_traces_are_sampled_within_the_budget() -> None:
    def run(fs: FileSystem, notes: Notes) -> None:
        for _round in range(40):
            fs.write_atomic("x", bytes(1_000))

    report = explore(run, lambda _fs, _point: None, states_max=60)
    assert report.steps == 200
    assert report.moments <= 20
    assert report.states <= 60


def write_in_kinds(fs: FileSystem, notes: Notes) -> None:
    """Many steps of one kind of work, and in their middle one of another."""
    for number in range(41):
        notes.begin("rare" if number == 17 else "common")
        fs.write_atomic("x", b"%1000d" % number)


def test_every_kind_of_work_is_crashed_however_small_the_budget() -> None:
    for seed in range(10):
        report = explore(write_in_kinds, lambda _fs, _point: None, seed=seed, states_max=9)
        report.require(in_rare=1, in_common=1)
        assert report.moments <= 5


def test_moments_are_spread_evenly_over_a_trace() -> None:
    struck: list[int] = []

    def check(_fs: FileSystem, point: CrashPoint) -> None:
        struck.append(int(point.label.split()[1]))

    report = explore(write_in_kinds, check, states_max=120)
    gaps = [after - before for before, after in itertools.pairwise(sorted({*struck}))]
    assert report.steps == 205
    assert max(gaps) <= 2 * report.steps // 40 + 1


def test_what_is_half_done_is_neither_untouched_nor_complete() -> None:
    steps: list[Step] = []
    notes = Notes(steps)
    assert notes.busy_with(0) is None
    fs = MemoryFileSystem()
    fs.disk.steps = steps
    notes.begin("nothing")
    notes.begin("one")
    fs.write_atomic("x", b"1")
    notes.begin("two")
    fs.write_atomic("x", b"2")
    assert [notes.busy_with(made) for made in range(len(steps) + 1)] == [
        None, *["one"] * 4, None, *["two"] * 4, None
    ]  # fmt: skip


def test_large_writes_are_sampled_within_the_budget() -> None:
    def run(fs: FileSystem, notes: Notes) -> None:
        with fs.create("x") as file:
            file.write(bytes(range(256)) * 1_000)
            file.sync()
        fs.sync_dir("")

    report = explore(run, lambda _fs, _point: None, states_max=400)
    report.require(states=300, torn=150, scattered=50)
    assert report.states <= 400


def test_many_ways_to_the_same_few_states_are_given_up() -> None:
    def run(fs: FileSystem, notes: Notes) -> None:
        for _round in range(12):
            fs.create("x").close()
            fs.delete("x")

    report = explore(run, lambda _fs, _point: None, states_max=5_000)
    assert report.states == 2
    report.require(moments=25, scattered=1)


def test_a_budget_is_shared_by_need() -> None:
    assert fair_shares([1, 100, 4, 100], 45) == [1, 20, 4, 20]
    assert fair_shares([3, 2, 1], 100) == [3, 2, 1]
    assert fair_shares([9, 9], 1) == [0, 1]


def test_trying_little_is_a_failure() -> None:
    report = explore(write_log, check_log)
    with pytest.raises(AssertionError, match="too little was tried"):
        report.require(states=10_000)
    with pytest.raises(AssertionError, match="no such counters"):
        report.require(stats=1)
    require_minimums({"a": 1}, {"a": 1})
