"""The local root of trust: every change is durable when the call returns."""

from pathlib import Path

import msgspec
import pytest

from stele.coordination.local import STATE_FILE, LocalCoordination, decode_state, encode_state
from stele.coordination.ports import Coordination
from stele.coordination.records import LeaseRecord, State, TableRecord, TableState
from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemRandom
from stele.errors import (
    AlreadyExists,
    Conflict,
    Corruption,
    InvalidArgument,
    NotFound,
    SnapshotTooOld,
    TableNotFound,
    UnsupportedFormat,
)


@pytest.fixture
def files(tmp_path: Path) -> PosixFileSystem:
    return PosixFileSystem(str(tmp_path))


def reopen(files: PosixFileSystem) -> LocalCoordination:
    return LocalCoordination.open(files, SystemRandom())


def table(identity: str = "t1", name: str = "users", version: int = 1) -> TableRecord:
    return TableRecord(identity, name, "{}", version, created_us=1)


def lease(name: str, txn: int, session: int | None = None) -> LeaseRecord:
    return LeaseRecord(name, "t1", txn, txn, session, created_us=1)


def test_it_is_a_coordination(files: PosixFileSystem) -> None:
    store: Coordination = reopen(files)
    assert store.cluster_id == reopen(files).cluster_id


def test_sessions_have_growing_ids_for_ever(files: PosixFileSystem) -> None:
    first = reopen(files).open_session("a", 1)
    store = reopen(files)
    store.close_session(first.id)
    assert store.open_session("b", 2).id > first.id
    assert [record.owner for record in reopen(files).sessions()] == ["b"]


def test_table_ids_are_never_used_again(files: PosixFileSystem) -> None:
    store = reopen(files)
    ids = [store.new_table_id(), store.new_table_id()]
    ids.append(reopen(files).new_table_id())
    assert ids == sorted(set(ids))


def test_names_of_running_tables_are_unique(files: PosixFileSystem) -> None:
    store = reopen(files)
    store.add_table(table())
    with pytest.raises(AlreadyExists, match="users"):
        store.add_table(table("t2"))
    dropped = TableRecord("t1", "users", "{}", 1, 1, TableState.DROPPED, 5)
    store.replace_table(dropped, expected_version=1)
    store.add_table(table("t2"))
    with pytest.raises(AlreadyExists):
        store.replace_table(table("t1"), expected_version=1)
    assert [record.id for record in reopen(files).tables()] == ["t1", "t2"]


def test_a_table_changes_only_from_the_version_that_was_read(files: PosixFileSystem) -> None:
    store = reopen(files)
    store.add_table(table())
    store.replace_table(table(version=2), expected_version=1)
    with pytest.raises(Conflict, match="version 2, not 1"):
        store.replace_table(table(version=2), expected_version=1)
    with pytest.raises(TableNotFound):
        store.replace_table(table("t9"), expected_version=1)


def test_only_a_dropped_table_is_forgotten(files: PosixFileSystem) -> None:
    store = reopen(files)
    store.add_table(table())
    with pytest.raises(InvalidArgument, match="dropped first"):
        store.forget_table("t1")
    store.replace_table(TableRecord("t1", "users", "{}", 1, 1, TableState.DROPPED), 1)
    store.advance_horizon("t1", 5)
    store.forget_table("t1")
    store.forget_table("t1")
    assert reopen(files).tables() == ()
    assert reopen(files).horizon("t1") == 0


def test_the_horizon_moves_forward_and_stops_at_leases(files: PosixFileSystem) -> None:
    store = reopen(files)
    assert store.advance_horizon("t1", 10) == 10
    store.grant_lease(lease("before", 15))
    assert store.advance_horizon("t1", 20) == 15
    assert store.advance_horizon("t1", 3) == 15
    store.release_lease("before")
    store.release_lease("before")
    assert reopen(files).advance_horizon("t1", 20) == 20


def test_a_lease_below_the_horizon_is_refused(files: PosixFileSystem) -> None:
    store = reopen(files)
    store.advance_horizon("t1", 10)
    with pytest.raises(SnapshotTooOld, match="begins at 10"):
        store.grant_lease(lease("late", 9))
    store.grant_lease(lease("edge", 10))
    with pytest.raises(AlreadyExists, match="edge"):
        store.grant_lease(lease("edge", 11))


def test_a_session_takes_its_leases_with_it(files: PosixFileSystem) -> None:
    store = reopen(files)
    session = store.open_session("a", 1)
    store.grant_lease(lease("scan", 5, session.id))
    store.grant_lease(lease("named", 5))
    store.close_session(session.id)
    assert [held.name for held in reopen(files).leases("t1")] == ["named"]
    assert reopen(files).leases("other") == ()
    with pytest.raises(NotFound, match="has ended"):
        store.grant_lease(lease("scan", 5, session.id))


def test_a_lease_is_given_another_end_while_it_is_held(files: PosixFileSystem) -> None:
    store = reopen(files)
    held = msgspec.structs.replace(lease("pin", 5), expires_us=10)
    with pytest.raises(NotFound, match="has ended"):
        store.replace_lease(held)
    store.grant_lease(held)
    longer = msgspec.structs.replace(held, expires_us=20, files=("s1-00000001.parquet",))
    store.replace_lease(longer)
    assert reopen(files).leases("t1") == (longer,)
    assert not longer.has_expired(19)
    assert longer.has_expired(20)
    assert not lease("for ever", 5).has_expired(1 << 62)


@pytest.mark.parametrize("point", ["before_save", "after_save"])
def test_a_crash_leaves_the_old_or_the_new_state(files: PosixFileSystem, point: str) -> None:
    store = reopen(files)
    with armed(f"coordination.local.{point}", crash()), pytest.raises(SimulatedCrash):
        store.add_table(table())
    names = [record.name for record in reopen(files).tables()]
    assert names == ([] if point == "before_save" else ["users"])


def test_damage_is_named(files: PosixFileSystem) -> None:
    store = reopen(files)
    store.add_table(table())
    data = bytearray(files.read_all(STATE_FILE))
    for position in range(len(data) - 1):
        data[position] ^= 1
        with pytest.raises(Corruption, match=STATE_FILE):
            decode_state(bytes(data))
        data[position] ^= 1


def test_a_newer_format_is_refused_by_name() -> None:
    newer = encode_state(State(cluster_id="c", format_version=2))
    with pytest.raises(UnsupportedFormat, match="format version 2"):
        decode_state(newer)
