"""Reading the log back: after power failures of every kind, and where it must refuse."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from stele.env.failpoints import SimulatedCrash, armed, counting, crash, declared
from stele.env.memory import SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, NotFound
from stele.metastore.events import Group
from stele.metastore.raft_log import RaftLog, RaftLogOptions
from stele.metastore.raft_log_format import LogIdentity
from stele.metastore.raft_log_recovery import recover
from stele.raft import Entry, EntryKind, HardState, Membership, Snapshot, StoredState
from stele.sim.crash_choices import Moment

OPTIONS = RaftLogOptions(segment_bytes=2_000, reserve_bytes=512)
IDENTITY = LogIdentity("c1", 1)


class Model:
    """What the log must hold, as plain values."""

    def __init__(self, stored: StoredState = StoredState()) -> None:  # noqa: B008 - frozen
        self.stored = stored

    def after(self, group: Group, base: Snapshot | None) -> Model:
        stored = self.stored
        snapshot, entries = stored.snapshot, stored.entries
        if group.snapshot is not None:
            snapshot, entries = group.snapshot, ()
        if group.entries:
            first = group.entries[0].index
            entries = tuple(e for e in entries if e.index < first) + group.entries
        if base is not None:
            snapshot = base
            entries = tuple(e for e in entries if e.index > base.index)
        return Model(StoredState(group.hard_state or stored.hard_state, snapshot, entries))


def draw_group(dice: random.Random, model: Model) -> tuple[Group, Snapshot | None]:
    stored = model.stored
    last = stored.snapshot.index + len(stored.entries)
    term = stored.hard_state.term + (dice.random() < 0.2)
    reset = base = None
    if dice.random() < 0.05:
        reset = Snapshot(last + 10, term, Membership((1,)))
        first = reset.index + 1
    else:
        first = (
            dice.randint(stored.snapshot.index + 1, last + 1) if dice.random() < 0.3 else last + 1
        )
    count = dice.choice([0, 1, 3, 20])
    entries = tuple(
        Entry(term, first + i, EntryKind.DATA, dice.randbytes(dice.choice([0, 10, 700])))
        for i in range(count)
    )
    if reset is None and stored.entries and not entries and dice.random() < 0.5:
        kept = stored.entries[dice.randrange(len(stored.entries))]
        base = Snapshot(kept.index, kept.term, Membership((1,)))
    return Group(1, reset, entries, HardState(term, 0, 0), needs_sync=True), base


@pytest.mark.parametrize("seed", range(25))
def test_after_any_power_failure_exactly_the_last_frame_is_open(seed: int) -> None:
    """Whatever was synced is there as it was; the frame on its way is there as a whole or not."""
    dice = random.Random(seed)
    fs = MemoryFileSystem(seed=seed)
    log = RaftLog.create(fs, "log", SeededRandom(seed), IDENTITY, StoredState(), OPTIONS)
    durable = Model()
    for _ in range(30):
        group, base = draw_group(dice, durable)
        log.append([group], base)
        coming = durable.after(group, base)
        if dice.random() < 0.3:
            moment = Moment(fs.disk)
            choices = [*moment.basic(), *moment.classic()]
            fs = fs.crash_image(dice.choice(choices))
            log = RaftLog.open(fs, "log", SeededRandom(seed), OPTIONS)
            assert log.stored in (durable.stored, coming.stored)
            durable = Model(log.stored)
        else:
            log.sync()
            durable = coming
            if base is not None:
                log.drop_dead_segments()


def two_segments() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    small = RaftLogOptions(segment_bytes=1, reserve_bytes=64)
    log = RaftLog.create(fs, "log", SeededRandom(1), IDENTITY, StoredState(), small)
    for i in (1, 2):
        entry = Entry(1, i, EntryKind.DATA, b"value")
        log.append([Group(1, None, (entry,), HardState(1, 0, 0), needs_sync=True)])
        log.sync()
    return fs


def with_contents(fs: MemoryFileSystem, path: str, data: bytes) -> MemoryFileSystem:
    fs.write_atomic(path, data)
    return fs


def test_damage_in_an_earlier_segment_is_named_with_the_way_out() -> None:
    fs = two_segments()
    path = "log/raft-00000002.log"
    data = bytearray(fs.read_all(path))
    data[-1] ^= 1
    with pytest.raises(Corruption, match="remove it from the group") as caught:
        recover(with_contents(fs, path, bytes(data)), "log")
    assert (caught.value.file, caught.value.offset) == (path, 0)


def test_a_lost_tail_of_an_earlier_segment_is_noticed() -> None:
    fs = two_segments()
    path = "log/raft-00000002.log"
    with pytest.raises(Corruption):
        recover(with_contents(fs, path, fs.read_all(path)[:-3]), "log")


def test_a_missing_segment_is_noticed_by_its_entries() -> None:
    fs = two_segments()
    fs.delete("log/raft-00000002.log")
    with pytest.raises(Corruption, match="entries 1 to 1 are gone"):
        recover(fs, "log")


def test_a_segment_of_another_member_is_refused() -> None:
    fs = two_segments()
    other = MemoryFileSystem()
    stranger = LogIdentity("c1", 2)
    RaftLog.create(other, "log", SeededRandom(1), stranger, StoredState(), OPTIONS)
    data = other.read_all("log/raft-00000001.log")
    with pytest.raises(Corruption):
        recover(with_contents(fs, "log/raft-00000003.log", data), "log")


def test_a_log_of_which_nothing_is_left_is_refused() -> None:
    fs = MemoryFileSystem()
    fs.mkdir("log")
    fs.write_atomic("log/raft-00000002.log", b"nothing of ours")
    with pytest.raises(Corruption, match="no segment can be read"):
        recover(fs, "log")


def test_a_first_segment_without_a_frame_was_never_a_log() -> None:
    fs = MemoryFileSystem()
    fs.mkdir("log")
    fs.write_atomic("log/raft-00000001.log", b"half a fra")
    with pytest.raises(NotFound):
        recover(fs, "log")


FAILPOINTS = [name for name in declared() if name.startswith("metastore.raft_log.")]


def run_until_crash(fs: MemoryFileSystem, models: list[Model]) -> None:
    """Appends, cuts and a full disk; each state that may be found goes to the end of ``models``."""
    small = RaftLogOptions(segment_bytes=400, reserve_bytes=2_000)
    models.append(Model())
    log = RaftLog.create(fs, "log", SeededRandom(1), IDENTITY, StoredState(), small)
    for i in range(1, 30):
        entry = Entry(1, i, EntryKind.DATA, bytes(100))
        group = Group(1, None, (entry,), HardState(1, 0, 0), needs_sync=True)
        base = Snapshot(i - 4, 1, Membership((1,))) if i % 6 == 0 else None
        models.append(models[-1].after(group, base))
        if i == 20:
            fs.capacity_bytes = fs.disk.used_bytes
        log.append([group], base)
        log.sync()
        if base is not None:
            log.drop_dead_segments()


def test_the_run_passes_every_failpoint() -> None:
    with counting() as passes:
        run_until_crash(MemoryFileSystem(), [])
    assert set(FAILPOINTS) <= set(passes)


@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("name", FAILPOINTS)
def test_after_a_crash_at_any_failpoint_the_last_frame_is_open(name: str, hit: int) -> None:
    fs = MemoryFileSystem()
    models: list[Model] = []
    with suppress(SimulatedCrash), armed(name, crash(), hit=hit):
        run_until_crash(fs, models)
    moment = Moment(fs.disk)
    allowed = [model.stored for model in models[-2:]]
    for choice in [*moment.basic(), *moment.classic()]:
        try:
            found = RaftLog.open(fs.crash_image(choice), "log", SeededRandom(2), OPTIONS).stored
        except NotFound:
            found = StoredState()
        assert found in allowed
