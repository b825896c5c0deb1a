from __future__ import annotations

import pytest

from stele.raft import (
    Entry,
    EntryKind,
    HardState,
    Membership,
    RaftConfig,
    Ready,
    Snapshot,
    bootstrap,
)
from stele.sim.raft_host import Disk, Host, Image


def entry(index: int, term: int = 1) -> Entry:
    return Entry(term, index, EntryKind.DATA, b"%d/%d" % (index, term))


def write(
    *entries: Entry, hard: HardState | None = None, snapshot: Snapshot | None = None
) -> Ready:
    return Ready(1, hard, snapshot, entries, True, (), (), (), (), (), ())


def make_disk() -> Disk:
    return Disk(HardState(), Snapshot(), [])


def test_later_entries_replace_earlier_ones() -> None:
    disk = make_disk()
    disk.write(write(entry(1), entry(2), entry(3)), {})
    disk.write(write(entry(2, 2), hard=HardState(2)), {})
    assert disk.entries == [entry(1), entry(2, 2)]
    assert disk.hard == HardState(2)


def test_a_hole_in_the_log_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="hole"):
        make_disk().write(write(entry(2)), {})


def test_holding_means_this_very_entry() -> None:
    disk = make_disk()
    disk.write(write(entry(1), entry(2, 2)), {})
    assert disk.holds(2, 2)
    assert not disk.holds(2, 1)
    assert not disk.holds(3, 2)
    disk.checkpoint(Snapshot(1, 1), Image(1, 5))
    assert disk.holds(1, 1)
    assert disk.entries == [entry(2, 2)]


def test_an_image_takes_the_place_of_the_log() -> None:
    disk = make_disk()
    disk.write(write(entry(1)), {})
    disk.write(write(snapshot=Snapshot(7, 2)), {7: Image(7, 3)})
    assert (disk.entries, disk.image) == ([], Image(7, 3))


def test_states_are_equal_when_the_same_was_applied() -> None:
    one = Image(0, 0).apply(entry(1)).apply(entry(2))
    assert one == Image(0, 0).apply(entry(1)).apply(entry(2))
    assert one != Image(0, 0).apply(entry(1)).apply(entry(2, 2))
    with pytest.raises(AssertionError, match="applied 3 after 1"):
        Image(0, 0).apply(entry(1)).apply(entry(3))


def make_host() -> Host:
    stored = bootstrap(Membership((1,)))
    host = Host(1, Disk(stored.hard_state, stored.snapshot, list(stored.entries)))
    host.start(RaftConfig(), lambda _: 0)
    return host


@pytest.mark.parametrize(("survivors", "kept"), [(0, 1), (1, 2), (2, 3)])
def test_a_crash_keeps_a_prefix_of_the_writes(survivors: int, kept: int) -> None:
    host = make_host()
    host.writes.extend([write(entry(2)), write(entry(3))])
    assert host.crash(survivors, state_survives=False) == 2 - survivors
    assert len(host.disk.entries) == kept
    assert host.core is None
    assert not host.writes


@pytest.mark.parametrize("survives", [True, False])
def test_the_state_machine_may_or_may_not_survive(survives: bool) -> None:
    host = make_host()
    host.image = host.image.apply(host.disk.entries[0])
    host.crash(0, state_survives=survives)
    host.start(RaftConfig(), lambda _: 0)
    assert host.image.index == (1 if survives else 0)
    assert host.life == 2


def test_a_sync_carries_out_the_oldest_writes() -> None:
    host = make_host()
    host.staged[9] = Image(9, 4)
    host.writes.extend([write(entry(2)), write(snapshot=Snapshot(9, 1)), write(entry(10))])
    assert len(host.sync(2)) == 2
    assert (host.image, host.disk.snapshot.index) == (Image(9, 4), 9)
    assert len(host.writes) == 1
