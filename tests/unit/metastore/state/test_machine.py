"""The state machine as a whole: batches, restarts, restoring, determinism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pytest

from stele.env.posix import PosixFileSystem
from stele.errors import LimitExceeded, SnapshotTooOld, UnsupportedFormat
from stele.metastore.commands import Effects, Executed, Refused
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.kv_rocks import RocksKeyValues
from stele.metastore.state import keys, pages
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import KeyRange, Put
from tests.unit.metastore.state.replica import Replica


class CountingKeyValues(MemoryKeyValues):
    """Remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[dict[bytes, bytes | None]] = []

    def write(self, batch: Mapping[bytes, bytes | None]) -> None:
        self.batches.append(dict(batch))
        super().write(batch)


def test_a_batch_is_one_write_with_the_applied_index() -> None:
    source = Replica()
    for number in range(5):
        source.put("/a", b"%d" % number)
    values = CountingKeyValues()
    machine = StateMachine(values)
    machine.apply(source.log)
    (written,) = values.batches
    assert b"\x00" in written
    assert machine.apply([]) == []
    assert len(values.batches) == 1
    assert machine.applied_index == 5
    item = machine.get("/a")
    assert item is not None
    assert (item.value, item.version) == (b"4", 5)


def test_calls_share_a_batch_until_it_is_large_enough() -> None:
    source = Replica()
    for number in range(9):
        source.put(f"/a/{number}", b"")
    values = CountingKeyValues()
    machine = StateMachine(values, held_changes_max=12)
    for entry in source.log:
        machine.apply([entry])
    # The key and the changelog of six entries, the last answer, the header.
    assert [len(batch) for batch in values.batches] == [2 * 6 + 1 + 1]
    assert machine.get("/a/8") is not None, "held and seen"
    assert len(machine.range(KeyRange("/a/", "/a0")).items) == 9


LOOKS: dict[str, Callable[[StateMachine], object]] = {
    "range": lambda machine: machine.range(KeyRange("/", "0")),
    "history": lambda machine: machine.history(0, 10),
    "export": lambda machine: list(machine.export()),
    "write": StateMachine.write,
}


@pytest.mark.parametrize("look", LOOKS)
def test_who_needs_the_store_itself_has_it_written_first(look: str) -> None:
    source = Replica()
    source.put("/a", b"1")
    values = CountingKeyValues()
    machine = StateMachine(values, held_changes_max=100)
    machine.apply(source.log)
    assert not values.batches
    LOOKS[look](machine)
    assert b"".join(StateMachine(values).export()) == source.image()


def test_what_was_held_in_a_crash_comes_again_from_the_log() -> None:
    source = Replica()
    source.put("/a", b"1")
    values = MemoryKeyValues()
    machine = StateMachine(values, held_changes_max=100)
    machine.apply(source.log)
    machine.write()
    source.put("/a", b"2")
    machine.apply(source.log[1:])
    again = StateMachine(values, held_changes_max=100)
    assert again.applied_index == 1
    again.apply(source.log[1:])
    assert b"".join(again.export()) == source.image()


def test_an_answer_that_its_client_has_in_time_is_never_stored() -> None:
    source = Replica()
    for number in range(50):
        source.put("/a", b"%d" % number)
    values = CountingKeyValues()
    machine = StateMachine(values, held_changes_max=1000)
    for entry in source.log:
        machine.apply([entry])
    machine.write()
    (written,) = values.batches
    low, high = keys.table_bounds(keys.RETRIES)
    assert sum(low <= key < high for key in written) == 1
    assert b"".join(machine.export()) == source.image()


def test_an_entry_that_is_no_command_moves_the_index_only() -> None:
    replica = Replica()
    assert replica.machine.apply([(1, b""), (2, b"")]) == [Effects(1, None), Effects(2, None)]
    assert replica.machine.applied_index == 2
    assert replica.put("/a", b"") == 3


def test_what_is_synced_is_there_again(tmp_path: Path) -> None:
    files = PosixFileSystem(str(tmp_path))
    replica = Replica(MemoryKeyValues(files))
    replica.put("/a", b"1")
    replica.machine.sync()
    replica.put("/a", b"2")
    again = StateMachine(MemoryKeyValues(files))
    assert again.applied_index == 1
    again.apply(replica.log[again.applied_index :])
    assert b"".join(again.export()) == replica.image()


def test_an_entry_is_applied_once() -> None:
    replica = Replica()
    replica.put("/a", b"")
    with pytest.raises(AssertionError, match="applied already"):
        replica.machine.apply(replica.log)


def test_an_unknown_command_stops_the_replica() -> None:
    with pytest.raises(UnsupportedFormat):
        Replica().machine.apply([(1, b"\x09abc")])


def test_a_page_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    for number in range(5):
        replica.put(f"/k{number}", b"x" * 100)
    whole = KeyRange("/", "0")
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 150)
    page = replica.machine.range(whole)
    assert (len(page.items), page.more) == (2, True)
    monkeypatch.setattr(pages, "PAGE_ITEMS_MAX", 1)
    page = replica.machine.range(whole, limit=3)
    assert (len(page.items), page.more) == (1, True)


def busy_replica(values: MemoryKeyValues | None = None) -> Replica:
    replica = Replica(values)
    dice = Random(7)
    sessions: list[int] = []
    for _ in range(300):
        key = f"/k{dice.randrange(20)}"
        match dice.randrange(8):
            case 0:
                sessions.append(replica.open_session())
            case 1 if sessions:
                replica.close_session(sessions.pop(dice.randrange(len(sessions))))
            case 2 if sessions:
                session = dice.choice(sessions)
                if not replica.machine.lock(key).holders:
                    replica.acquire(session, key)
            case 3:
                replica.delete(key)
            case 4:
                replica.advance(replica.machine.applied_index - 50)
            case _:
                owner = dice.choice(sessions) if sessions and dice.random() < 0.3 else 0
                replica.put(key, dice.randbytes(dice.randrange(30)), owner)
    return replica


def test_the_same_log_gives_the_same_bytes_however_it_is_cut(tmp_path: Path) -> None:
    source = busy_replica()
    rocks = RocksKeyValues(str(tmp_path), PosixFileSystem(str(tmp_path)))
    for seed in range(6):
        dice = Random(seed)
        values = rocks if seed == 5 else MemoryKeyValues()
        machine = StateMachine(values)
        while machine.applied_index < len(source.log):
            size = dice.choice([1, 2, 5, 40])
            machine.apply(source.log[machine.applied_index :][:size])
            choice = dice.randrange(10)
            if choice == 0:
                machine = StateMachine(values)
            elif choice == 1:
                fresh = StateMachine(MemoryKeyValues())
                fresh.replace(machine.export())
                machine.replace(fresh.export())
        assert b"".join(machine.export()) == source.image()
    rocks.close()


def test_a_restored_state_goes_on_above_all_that_was_given_out() -> None:
    source = Replica()
    session = source.open_session()
    source.put("/mine", b"", session)
    source.put("/stays", b"1")
    token = source.acquire(session, "/l").token
    lost = source.put("/after-the-backup", b"")
    restored = Replica()
    restored.machine.replace(source.machine.export())
    index = restored.machine.restore(1000)
    assert index == lost + 1000
    assert restored.machine.applied_index == index
    assert restored.machine.incarnation == 1
    assert restored.machine.sessions() == ()
    assert restored.contents() == {"/stays": b"1", "/after-the-backup": b""}
    restored.restart()
    assert restored.machine.incarnation == 1
    again = restored.open_session(client=9)
    assert again > index
    assert restored.acquire(again, "/l", client=9).token > token
    with pytest.raises(LimitExceeded):
        restored.machine.restore(0)


def test_after_a_restore_nobody_goes_on_from_an_index_of_before() -> None:
    """The old group went on after the backup: what it did there is lost, and must be missed."""
    source = Replica()
    for number in range(5):
        source.put("/a", b"%d" % number)
    source.put("/gone", b"")
    source.delete("/gone")
    restored = Replica()
    restored.machine.replace(source.machine.export())
    index = restored.machine.restore(1000)
    for seen in (1, 5, 7, 50, index - 1):
        with pytest.raises(SnapshotTooOld, match=f"history begins at {index}"):
            restored.machine.history(seen, 10)
        with pytest.raises(SnapshotTooOld):
            restored.machine.get("/a", seen)
    refused = restored.commit(50, (KeyRange("/a"),), Put("/a", b"old"))
    assert isinstance(refused, Refused)
    assert refused.error == "SnapshotTooOld"
    assert restored.machine.waterline == index
    restored.restart()
    assert restored.machine.get("/a", index) == restored.machine.get("/a")
    written = restored.put("/a", b"new")
    assert [changes.index for changes in restored.machine.history(index, 10)] == [written]


def test_a_restored_state_has_forgotten_the_clients() -> None:
    source = Replica()
    source.put("/a", b"1")
    source.machine.restore(10)
    fresh = Replica(source.values)
    answer = fresh.execute(Put("/a", b"2"))
    assert answer == Executed(fresh.machine.applied_index, True, (2,))
