"""The metastore in this process: durable, alone, and the same client as over the network."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import (
    Conflict,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    OutOfSpace,
    SnapshotTooOld,
    StorageFailed,
    Unavailable,
)
from stele.metastore.embedded import read_machine
from tests.unit.metastore.embedded_support import Home


def test_what_was_acknowledged_survives_a_crash() -> None:
    home = Home()
    for number in range(20):
        home.ms.put(f"/k/{number}", b"%d" % number)
    home.ms.delete("/k/3")
    again = home.reopened()
    assert [item.key for item in again.ms.range("/k/")] == sorted(
        f"/k/{number}" for number in range(20) if number != 3
    )
    assert again.ms.get("/k/7").value == b"7"  # type: ignore[union-attr]


def test_it_lives_through_many_lives_and_keeps_its_log_short() -> None:
    home = Home()
    for life in range(4):
        for number in range(300):
            home.ms.put(f"/k/{number}", b"%d" % life)
        home = home.reopened()
    assert {item.value for item in home.ms.range("/k/")} == {b"3"}
    status = home.ms.admin.status()
    assert status.last_index - status.first_index < 1_000


@pytest.mark.parametrize(
    "place",
    [
        "metastore.raft_log.after_segment_create",
        "metastore.raft_log.after_write",
        "metastore.raft_log.after_sync",
        "metastore.raft_log.after_sync_dir",
    ],
)
def test_a_crash_at_birth_leaves_a_directory_that_can_be_opened(place: str) -> None:
    files = MemoryFileSystem()
    with armed(place, crash()), pytest.raises(SimulatedCrash):
        Home(files)
    home = Home(files.crash_image())
    home.ms.put("/a", b"1")
    assert home.reopened().ms.get("/a") is not None


def test_reading_the_state_changes_nothing() -> None:
    home = Home()
    home.ms.put("/a", b"1")
    before = {name: home.files.read_all(f"m/log/{name}") for name in home.files.list("m/log")}
    found = read_machine(home.files, "m").get("/a")
    assert found is not None
    assert found.value == b"1"
    assert before == {n: home.files.read_all(f"m/log/{n}") for n in home.files.list("m/log")}
    with pytest.raises(NotFound):
        read_machine(home.files, "elsewhere")


def test_a_lock_passes_to_the_thread_that_waits_for_it() -> None:
    home = Home()
    with home.ms.session(ttl=5) as first, home.ms.session(ttl=5) as second:
        held = first.lock("/locks/x")
        token = held.acquire()
        waiting = second.lock("/locks/x", timeout=30)
        thread = threading.Thread(target=waiting.acquire)
        thread.start()
        while not home.node.driver.locks:
            pass
        held.release()
        thread.join()
        assert waiting.token > token
        assert not held.is_held


def test_who_gives_up_waiting_leaves_the_queue() -> None:
    home = Home()
    with home.ms.session() as first, home.ms.session() as second:
        with first.lock("/locks/x"):
            with pytest.raises(DeadlineExceeded):
                second.lock("/locks/x", timeout=0.01).acquire()
            assert not home.node.driver.machine.lock("/locks/x").waiters
        with second.lock("/locks/x", wait=False) as lock:
            assert lock.is_held


def test_sessions_of_this_process_last_and_end_with_it() -> None:
    home = Home()
    session = home.ms.session(ttl=2)
    home.ms.put("/alive", b"", session=session)
    home.tasks.advance(60_000_000)
    assert session.is_alive
    assert home.ms.get("/alive") is not None
    again = home.reopened()
    again.tasks.advance(60_000_000)
    assert again.ms.get("/alive") is None


def test_a_watch_sees_whole_transactions_in_order() -> None:
    home = Home()
    first = home.ms.put("/w/a", b"1")
    with home.ms.watch("/w/", since=0) as watch:
        assert next(watch).index == first
        with home.ms.transaction() as t:
            t.put("/w/a", b"2")
            t.put("/elsewhere", b"2")
            t.put("/w/b", b"2")
        seen = next(watch)
        assert [(change.key, change.value) for change in seen.changes] == [
            ("/w/a", b"2"),
            ("/w/b", b"2"),
        ]
        assert watch.index == seen.index
    assert len(home.node.driver.hub) == 0


def test_history_can_be_read_until_it_is_given_up() -> None:
    home = Home()
    old = home.ms.put("/a", b"1")
    home.ms.put("/a", b"2")
    assert home.ms.get("/a", at=old).value == b"1"  # type: ignore[union-attr]
    home.tasks.advance(1_300_000_000)
    home.ms.put("/a", b"3")
    with pytest.raises(SnapshotTooOld):
        home.ms.get("/a", at=old)


def test_transactions_meet_each_other() -> None:
    home = Home()
    home.ms.put("/n", b"1")
    t = home.ms.transaction()
    seen = t.get("/n")
    home.ms.put("/n", b"9")
    t.put("/n", seen.value + b"1")  # type: ignore[union-attr]
    with pytest.raises(Conflict):
        t.commit()
    assert home.ms.get("/n").value == b"9"  # type: ignore[union-attr]


def test_a_failed_sync_is_the_end_of_the_node() -> None:
    files = MemoryFileSystem()
    before = Home(files)
    before.ms.put("/a", b"1")
    syncs = files.faults.calls[Call.SYNC]
    faults = Faults(Fault(Failure.EIO, call=syncs + 1, kinds={Call.SYNC}))
    home = Home(MemoryFileSystem(faults=faults))
    home.ms.put("/a", b"1")
    with pytest.raises(OutcomeUnknown):
        home.ms.put("/a", b"2")
    with pytest.raises(StorageFailed):
        home.ms.put("/a", b"3")
    assert home.reopened().ms.get("/a") is not None


def test_a_closed_node_says_so() -> None:
    home = Home()
    home.node.close()
    home.node.close()
    with pytest.raises(Unavailable, match="closed"):
        home.ms.get("/a")


def test_a_copy_of_the_state_can_be_taken() -> None:
    home = Home()
    home.ms.put("/a", b"1")
    pieces: list[bytes] = []
    index = home.ms.admin.snapshot(pieces.append)
    assert index == home.ms.admin.status().applied
    assert b"/a" in b"".join(pieces)


def test_a_copy_is_begun_by_one_who_is_alone_with_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = Home()
    home.ms.put("/a", b"1")
    machine = home.node.driver.machine
    export, was_alone = machine.export, []

    def watched() -> Iterator[bytes]:
        was_alone.append(home.node._lock.locked())
        return export()

    monkeypatch.setattr(machine, "export", watched)
    assert home.ms.admin.snapshot(lambda _: None) == machine.applied_index
    assert was_alone == [True]


def test_what_makes_no_sense_is_refused() -> None:
    home = Home()
    with pytest.raises(InvalidArgument, match="not a path"):
        home.ms.put("a", b"1")
    with pytest.raises(InvalidArgument, match="bytes"):
        home.ms.put("/a", "text")  # type: ignore[arg-type]


def test_on_a_full_disk_nothing_happens_and_what_was_refused_never_does() -> None:
    home = Home()
    home.ms.put("/a", b"1")
    home.files.capacity_bytes = home.files.disk.used_bytes
    refused = 0
    for number in range(200):
        try:
            home.ms.put(f"/full/{number}", b"x" * 4_000)
        except OutOfSpace:
            refused += 1
    assert refused > 150
    assert home.ms.get("/a") is not None, "what is there can be read"
    kept = {item.key for item in home.ms.range("/full/")}
    assert len(kept) == 200 - refused
    home.files.capacity_bytes = 1 << 30
    home.ms.put("/again", b"1")
    again = home.reopened()
    assert {item.key for item in again.ms.range("/full/")} == kept
    assert again.ms.get("/again") is not None


def test_a_disk_without_any_room_is_waited_for_by_whoever_asks() -> None:
    home = Home()
    home.ms.put("/a", b"1")
    home.files.delete("m/log/reserve")
    home.files.capacity_bytes = home.files.disk.used_bytes
    for _ in range(3):
        with pytest.raises(OutOfSpace, match="full"):
            home.ms.put("/b", b"x" * 100_000)  # more than is taken ahead
    home.files.capacity_bytes = 1 << 30
    home.ms.put("/c", b"1")
    assert home.ms.get("/b") is None
    assert home.reopened().ms.get("/c") is not None


def test_an_alarm_does_not_outlive_the_full_disk_that_raised_it() -> None:
    home = Home()
    home.files.capacity_bytes = home.files.disk.used_bytes
    home.ms.put("/a", b"x" * 4_000)  # out of the reserve
    home.tasks.advance(2_000_000)
    with pytest.raises(OutOfSpace, match="database's own metastore reports disk full: make room"):
        home.ms.put("/b", b"1")
    home.files.capacity_bytes = 1 << 30
    home.reopened().ms.put("/b", b"2")


def test_who_waits_hears_of_the_end() -> None:
    home = Home()
    changes = home.ms.watch("/a/")
    ends: list[Exception] = []

    def listen() -> None:
        try:
            for _ in changes:
                pass
        except Unavailable as error:
            ends.append(error)

    listener = threading.Thread(target=listen)
    listener.start()
    home.node.close()
    listener.join(60)
    assert not listener.is_alive()
    assert "closed" in str(ends[0])


@pytest.mark.parametrize("place", ["after_write", "after_sync"])
def test_after_a_write_that_was_cut_short_the_disk_says_what_happened(place: str) -> None:
    home = Home()

    def ctrl_c(_place: str) -> None:
        raise KeyboardInterrupt

    with armed(f"metastore.raft_log.{place}", ctrl_c), pytest.raises(KeyboardInterrupt):
        home.ms.put("/a", b"1")
    found = home.ms.get("/a")
    assert found is not None
    home.ms.put("/b", b"2")
    again = home.reopened()
    assert again.ms.get("/a") == found
    assert again.ms.get("/b") is not None


def test_ctrl_c_in_a_turn_is_heard_when_the_turn_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home()
    home.ms.put("/before", b"0")
    turn = home.node.driver.turn

    def interrupted_turn() -> None:
        monkeypatch.undo()
        turn()
        signal.raise_signal(signal.SIGINT)  # the job of this turn is still to be run

    monkeypatch.setattr(home.node.driver, "turn", interrupted_turn)
    with pytest.raises(KeyboardInterrupt):
        home.ms.put("/a", b"1")
    found = home.ms.get("/a")
    assert found is not None, "what was begun is done"
    assert found.value == b"1"
    home.ms.put("/b", b"2")
