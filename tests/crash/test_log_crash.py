"""The log after crashes: every state a power failure may leave, every call failing, every bit.

What must hold, whatever happens: everything acknowledged is found; what is found is a prefix of
what was committed, in whole groups; what the log refused is never found; and nothing is found in
any other shape than it was written in.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, OutOfSpace
from stele.model.cells import Cell, batch_to_cells
from stele.sim.crash import CrashPoint, Notes, explore
from stele.sim.io_sweep import sweep
from stele.storage.group_commit import GroupCommit, LogEvents
from stele.storage.log_format import file_name
from stele.storage.log_parts import Commit, clock_commit, release_commit
from stele.storage.log_reader import LogReader
from stele.storage.log_replay import Replayed, recover_log, replay
from stele.storage.log_seal import seal, seal_fence, sealed_entries
from stele.storage.log_segments import first_needed_file, released_files
from stele.storage.log_spares import SpareFiles
from tests.unit.storage.log_support import DIRECTORY, TABLE, batch, new_writer, rows, written

STATES = int(os.environ.get("STELE_CRASH_STATES", "2000"))
"""How many crash states to explore: a few in the gate, many by hand."""

SEED = int(os.environ.get("STELE_CRASH_SEED", "1"))
ROLL_BYTES = 4_096
RESERVE_BYTES = 1_024
"""Less than a file, so that some entries begin inside what is reserved and end behind it."""
GROUPS = 12
SAVED_GROUP = 5
"""When this one is written, the flush of some groups before it has been saved."""

Cells = dict[tuple[str, int], list[Cell]]
"""By table and txn."""


def commits_of(group: int) -> list[Commit]:
    """The commits of one group: small and large ones, of two tables, and a clock now and then."""
    first = 10 * group
    commits = [rows(first, value=b"%d" % first), batch(first + 1, value=b"x" * (200 * group))]
    if group % 3 == 0:
        commits.append(clock_commit(first + 2))
    commits.append(rows(first + 3, "other", count=2))
    return commits


def cells_of(replayed: Iterable[Replayed]) -> Cells:
    cells: Cells = {}
    for each in replayed:
        for cell in batch_to_cells(each.block.batch):
            cells.setdefault((each.table, cell.txn), []).append(cell)
    return {place: sorted(found, key=Cell.key) for place, found in cells.items()}


def _written_cells(group: int) -> Cells:
    fs = written([commits_of(group)])
    return cells_of(replay(LogReader(fs, DIRECTORY).entries()))


CELLS = {group: _written_cells(group) for group in range(1, GROUPS + 1)}
"""What each group must look like whenever it is found."""


def write_log(fs: MemoryFileSystem, notes: Notes, groups: int = GROUPS) -> None:
    """Groups of commits over several files; some are given up on the way, and written again."""
    writer = new_writer(fs, roll_bytes=ROLL_BYTES, reserve_bytes=RESERVE_BYTES)
    log = GroupCommit(writer, LogEvents(fence=seal_fence(fs, DIRECTORY)), clock=MemoryClock())
    for group in range(1, groups + 1):
        notes.attempt(("commit", group))
        try:
            tickets = [log.append(commit) for commit in commits_of(group)]
            log.wait(tickets[-1])
        except OutOfSpace:
            notes.ack(("refused", group))
            continue
        notes.ack(("commit", group))
        if group == SAVED_GROUP:
            give_up_files(fs, notes, log, writer.spares, saved=group - 2)
    log.close()


def give_up_files(
    fs: MemoryFileSystem, notes: Notes, log: GroupCommit, spares: SpareFiles, saved: int
) -> None:
    txn = 10 * saved + 9
    first_needed = first_needed_file(log.files, {TABLE: txn, "other": txn})
    try:
        log.wait(log.append(release_commit(10 * SAVED_GROUP + 9, first_needed)))
    except OutOfSpace:
        return
    notes.attempt(("saved", saved))
    spares.keep_or_delete(released_files(fs, DIRECTORY, first_needed))
    log.forget_files(first_needed)


def check_log(fs: MemoryFileSystem, point: CrashPoint) -> list[tuple[str, int]]:
    """Recover, and hold what is found against what was promised."""
    found = cells_of(recover_log(fs, DIRECTORY, "test")[1])
    groups = sorted({txn // 10 for _table, txn in found})
    for group in groups:
        assert {place: found[place] for place in found if place[1] // 10 == group} == CELLS[group]
    acked = {group for kind, group in point.acked if kind == "commit"}
    refused = {group for kind, group in point.acked if kind == "refused"}
    attempted = {group for kind, group in point.attempted if kind == "commit"}
    saved = max((group for kind, group in point.attempted if kind == "saved"), default=0)
    assert acked - set(range(saved + 1)) <= set(groups), "something acknowledged is lost"
    assert set(groups) <= attempted - refused, "something refused or unknown is found"
    expected = [group for group in range(1, GROUPS + 1) if group not in refused]
    assert groups == [g for g in expected if groups[0] <= g <= groups[-1]] if groups else True
    assert not groups or groups[0] <= min(g for g in expected if g > saved)
    return [("commit", group) for group in groups]


def test_every_state_a_power_failure_may_leave() -> None:
    report = explore(write_log, check_log, seed=SEED, states_max=STATES, nested_max=40)
    print(report.as_dict())
    report.require(states=STATES // 2, torn=200, combined=300, nested_chains=40, nested_states=150)


def test_the_files_are_rolled_and_given_up_in_the_run_above() -> None:
    fs = MemoryFileSystem()
    write_log(fs, Notes([]))
    names = fs.list(DIRECTORY)
    assert names[0] != file_name(1)
    assert len(names) >= 2


def test_files_are_written_once_more_in_the_run_above() -> None:
    fs = MemoryFileSystem()
    fs.disk.steps = []
    write_log(fs, Notes([]))
    steps = Counter(step.name for step in fs.disk.steps)
    assert steps["reuse"] >= 1
    assert steps["rename"] == 2 * steps["reuse"]


def test_a_promise_that_is_broken_is_noticed() -> None:
    """The check itself can fail: acknowledging before the sync is found out."""

    def hasty(fs: MemoryFileSystem, notes: Notes) -> None:
        log = GroupCommit(new_writer(fs), clock=MemoryClock())
        for group in range(1, 4):
            notes.attempt(("commit", group))
            tickets = [log.append(commit) for commit in commits_of(group)]
            notes.ack(("commit", group))
            log.wait(tickets[-1])

    with pytest.raises(AssertionError, match="something acknowledged is lost"):
        explore(hasty, check_log, seed=SEED, states_max=500)


def write_short_log(fs: MemoryFileSystem, notes: Notes) -> None:
    write_log(fs, notes, groups=SAVED_GROUP + 1)


def test_every_failing_call() -> None:
    report = sweep(write_short_log, check_log, seed=SEED)
    print(report.as_dict())
    report.require(runs=200, write=50, sync=40, create=8, sync_dir=8, delete=2, StorageFailed=50)


def test_every_failing_call_of_a_recovery() -> None:
    def setup(fs: MemoryFileSystem) -> None:
        write_short_log(fs, Notes([]))

    def recover(fs: MemoryFileSystem, notes: Notes) -> None:
        notes.attempt(("saved", SAVED_GROUP - 2))
        for group in range(1, SAVED_GROUP + 2):
            notes.attempt(("commit", group))
            notes.ack(("commit", group))
        _sealed, blocks = recover_log(fs, DIRECTORY, "test")
        assert {SAVED_GROUP, SAVED_GROUP + 1} <= {txn // 10 for _table, txn in cells_of(blocks)}

    report = sweep(recover, check_log, seed=SEED, setup=setup)
    print(report.as_dict())
    report.require(runs=100, read=20, link=4, sync=10)


# Every bit.


def small_log(*, closed: bool) -> MemoryFileSystem:
    """Two files with a few entries each."""
    fs = MemoryFileSystem()
    writer = new_writer(fs, roll_bytes=1_024)
    for txn in range(1, 6):
        writer.write([rows(txn, value=bytes(160))])
    writer.write([batch(8, count=1)])
    if closed:
        writer.close()
    else:
        writer.abandon()
    assert len(fs.list(DIRECTORY)) == 2
    return fs


Read = Callable[[MemoryFileSystem], Cells]


def read_as_found(fs: MemoryFileSystem) -> Cells:
    return cells_of(replay(LogReader(fs, DIRECTORY).entries()))


def flip_every_bit(
    fs: MemoryFileSystem, read: Read, files: Iterable[int]
) -> Counter[tuple[str, bool, str]]:
    """What became of each bit: by file, whether in the last entry of all, and the outcome."""
    complete = read(fs)
    last = list(LogReader(fs, DIRECTORY).entries())[-1]
    without_last = {place: cells for place, cells in complete.items() if place[1] != 8}
    outcomes: Counter[tuple[str, bool, str]] = Counter()
    for number in files:
        path = f"{DIRECTORY}/{file_name(number)}"
        data = fs.read_all(path)
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            fs.write_atomic(path, flipped)
            in_last = path == last.file and bit // 8 >= last.offset
            try:
                found = read(fs)
            except Corruption as error:
                outcome = "named" if error.file is not None else "not named"
            else:
                assert found in (complete, without_last)
                outcome = "harmless" if found == complete else "dropped"
            outcomes[file_name(number), in_last, outcome] += 1
        fs.write_atomic(path, data)
    return outcomes


def test_every_bit_of_a_log_that_was_not_closed() -> None:
    """A bit of the last entry looks like a torn write. Every other bit is found."""
    outcomes = flip_every_bit(small_log(closed=False), read_as_found, (1, 2))
    print(outcomes)
    assert {key: count for key, count in outcomes.items() if key[2] != "named"} == {
        (file_name(2), True, "dropped"): outcomes[file_name(2), True, "dropped"]
    }
    assert outcomes[file_name(1), False, "named"] > 8_000


def test_every_bit_of_a_log_that_was_closed() -> None:
    """The last entry holds no commits, so every bit of every commit is found."""
    outcomes = flip_every_bit(small_log(closed=True), read_as_found, (2,))
    print(outcomes)
    assert {key for key in outcomes if key[2] != "named"} == {(file_name(2), True, "harmless")}


def test_every_bit_of_a_log_that_was_sealed() -> None:
    """Its exact length is on record: nothing is forgiven."""
    fs = small_log(closed=False)
    sealed = seal(fs, DIRECTORY, "test")

    def read_sealed(fs: MemoryFileSystem) -> Cells:
        return cells_of(replay(sealed_entries(fs, DIRECTORY, sealed)))

    outcomes = flip_every_bit(fs, read_sealed, (2,))
    print(outcomes)
    assert {key[2] for key in outcomes} == {"named"}
    assert outcomes.total() > 4_000
