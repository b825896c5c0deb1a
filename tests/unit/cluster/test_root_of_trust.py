"""The root of trust of an embedded store: what is in memory is what is in the metastore."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stele.cluster import root_of_trust
from stele.cluster.root_of_trust import has_root, open_root, read_root, state_of
from stele.coordination.records import LeaseRecord, State, TableRecord
from stele.env.posix import PosixFileSystem
from stele.errors import Corruption, NotFound
from stele.metastore.state.machine import StateMachine
from stele.metastore.watch_hub import HISTORY_ENTRIES_PER_TAKE, QUEUED_CHANGES_MAX
from tests.unit.tablet.engine_support import memory_world


def test_changes_are_seen_at_once_whoever_makes_them() -> None:
    root = open_root(memory_world())
    assert root.tables() == ()
    root.add_table(TableRecord("t1", "users", "{}", 1, created_us=1))
    assert [record.name for record in root.tables()] == ["users"]
    assert root.advance_horizon("t1", 50) == root.horizon("t1") == 50
    root.metastore.put("/stele/horizons/t1", b"70")
    assert root.horizon("t1") == 70
    root.metastore.put("/elsewhere", b"1")
    assert root.horizon("t1") == 70
    session = root.open_session("me", 1)
    root.grant_lease(LeaseRecord("l", "t1", 80, 80, session.id, created_us=1))
    assert [lease.name for lease in root.leases("t1")] == ["l"]
    assert root.leases("t2") == ()
    root.close_session(session.id)
    assert root.sessions() == ()
    assert root.leases() == ()


def test_it_can_be_read_without_being_opened() -> None:
    world = memory_world()
    assert not has_root(world.files)
    with pytest.raises(NotFound):
        read_root(world.files)
    root = open_root(world)
    root.add_table(TableRecord("t1", "users", "{}", 1, created_us=1))
    root.advance_horizon("t1", 50)
    assert has_root(world.files)
    state = read_root(world.files)
    assert state.tables == root.tables()
    assert state.horizons == {"t1": 50}
    root.close()


def test_the_cluster_keeps_its_id() -> None:
    world = memory_world()
    root = open_root(world)
    root.close()
    assert open_root(world).cluster_id == root.cluster_id


def test_nobody_is_given_the_old_state_while_another_reads_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has made a change sees it, though others have noticed it first."""
    root = open_root(memory_world())
    assert root.tables() == ()
    root.add_table(TableRecord("t1", "users", "{}", 1, created_us=1))
    seen: list[str] = []
    beside = threading.Thread(target=lambda: seen.extend(t.name for t in root.tables()))

    def read_slowly(machine: StateMachine) -> State:
        beside.start()
        beside.join(0.1)
        return state_of(machine)

    monkeypatch.setattr(root_of_trust, "state_of", read_slowly)
    assert [table.name for table in root.tables()] == ["users"]
    beside.join(30)
    assert seen == ["users"]


def test_a_change_is_noticed_however_many_were_not_looked_at() -> None:
    root = open_root(memory_world())
    for number in range(QUEUED_CHANGES_MAX + HISTORY_ENTRIES_PER_TAKE):
        root.metastore.put("/stele/horizons/t1", b"%d" % number)
    assert root.horizon("t1") == number
    root.metastore.put("/stele/horizons/t1", b"1000000")
    assert root.horizon("t1") == 1_000_000


def test_damage_of_the_only_copy_is_no_reason_to_throw_it_away(tmp_path: Path) -> None:
    world = replace(memory_world(), files=PosixFileSystem(tmp_path))
    root = open_root(world)
    for number in range(3):
        root.metastore.put("/a", b"%d" % number)
    root.close()
    newest = max((tmp_path / "metastore" / "log").glob("raft-*.log"))
    newest.write_bytes(b"XXXX" + newest.read_bytes()[4:])
    for look in (lambda: read_root(world.files), lambda: open_root(world)):
        with pytest.raises(Corruption, match="go back to a backup") as caught:
            look()
        assert "empty its directory" not in str(caught.value)
        assert caught.value.file is not None
