"""The root of trust: one suite over every version, each call durable when it returns."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from stele.cluster.root_of_trust import open_root
from stele.coordination.on_metastore import LEASES, MetastoreCoordination, segment, transact
from stele.coordination.ports import Coordination
from stele.coordination.records import (
    JobRecord,
    JobState,
    LeaseRecord,
    TableRecord,
    TableState,
)
from stele.env.memory_fs import MemoryFileSystem
from stele.env.real import SystemRandom
from stele.errors import (
    AlreadyExists,
    Conflict,
    Corruption,
    InvalidArgument,
    NotFound,
    SnapshotTooOld,
    TableNotFound,
    Unavailable,
    UnsupportedFormat,
)
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.paths import check_key
from tests.unit.coordination.direct_metastore import DirectMetastore
from tests.unit.tablet.engine_support import memory_world

Reopen = Callable[[], Coordination]


@pytest.fixture(params=["embedded", "direct"])
def reopen(request: pytest.FixtureRequest) -> Reopen:
    if request.param == "embedded":
        files = MemoryFileSystem()
        return lambda: open_root(memory_world(files))
    metastore = DirectMetastore()
    return lambda: MetastoreCoordination.open(metastore, SystemRandom())


def table(identity: str = "t1", name: str = "users", version: int = 1) -> TableRecord:
    return TableRecord(identity, name, "{}", version, created_us=1)


def lease(name: str, txn: int, session: int | None = None) -> LeaseRecord:
    return LeaseRecord(name, "t1", txn, txn, session, created_us=1)


def test_it_is_a_coordination(reopen: Reopen) -> None:
    store: Coordination = reopen()
    assert store.cluster_id == reopen().cluster_id


def test_sessions_have_growing_ids_for_ever(reopen: Reopen) -> None:
    first = reopen().open_session("a", 1)
    store = reopen()
    store.close_session(first.id)
    assert store.open_session("b", 2).id > first.id
    assert [record.owner for record in reopen().sessions()] == ["b"]


def test_table_ids_are_never_used_again(reopen: Reopen) -> None:
    store = reopen()
    ids = [store.new_table_id(), store.new_table_id()]
    ids.append(reopen().new_table_id())
    assert ids == sorted(set(ids))


def test_names_of_running_tables_are_unique(reopen: Reopen) -> None:
    store = reopen()
    store.add_table(table())
    with pytest.raises(AlreadyExists, match="users"):
        store.add_table(table("t2"))
    dropped = TableRecord("t1", "users", "{}", 1, 1, TableState.DROPPED, 5)
    store.replace_table(dropped, expected_version=1)
    store.add_table(table("t2"))
    with pytest.raises(AlreadyExists):
        store.replace_table(table("t1"), expected_version=1)
    assert [record.id for record in reopen().tables()] == ["t1", "t2"]


def test_a_table_changes_only_from_the_version_that_was_read(reopen: Reopen) -> None:
    store = reopen()
    store.add_table(table())
    store.replace_table(table(version=2), expected_version=1)
    with pytest.raises(Conflict, match="version 2, not 1"):
        store.replace_table(table(version=2), expected_version=1)
    with pytest.raises(TableNotFound):
        store.replace_table(table("t9"), expected_version=1)


def test_only_a_dropped_table_is_forgotten(reopen: Reopen) -> None:
    store = reopen()
    store.add_table(table())
    with pytest.raises(InvalidArgument, match="dropped first"):
        store.forget_table("t1")
    store.replace_table(TableRecord("t1", "users", "{}", 1, 1, TableState.DROPPED), 1)
    store.advance_horizon("t1", 5)
    store.forget_table("t1")
    store.forget_table("t1")
    assert reopen().tables() == ()
    assert reopen().horizon("t1") == 0


def test_the_horizon_moves_forward_and_stops_at_leases(reopen: Reopen) -> None:
    store = reopen()
    assert store.advance_horizon("t1", 10) == 10
    store.grant_lease(lease("before", 15))
    assert store.advance_horizon("t1", 20) == 15
    assert store.advance_horizon("t1", 3) == 15
    store.release_lease("before")
    store.release_lease("before")
    assert reopen().advance_horizon("t1", 20) == 20


def test_a_lease_below_the_horizon_is_refused(reopen: Reopen) -> None:
    store = reopen()
    store.advance_horizon("t1", 10)
    with pytest.raises(SnapshotTooOld, match="begins at 10"):
        store.grant_lease(lease("late", 9))
    store.grant_lease(lease("edge", 10))
    with pytest.raises(AlreadyExists, match="edge"):
        store.grant_lease(lease("edge", 11))


def test_a_session_takes_its_leases_with_it(reopen: Reopen) -> None:
    store = reopen()
    session = store.open_session("a", 1)
    store.grant_lease(lease("scan", 5, session.id))
    store.grant_lease(lease("named", 5))
    store.close_session(session.id)
    assert [held.name for held in reopen().leases("t1")] == ["named"]
    assert reopen().leases("other") == ()
    with pytest.raises(NotFound, match="has ended"):
        store.grant_lease(lease("scan", 5, session.id))


def test_a_lease_is_given_another_end_while_it_is_held(reopen: Reopen) -> None:
    store = reopen()
    held = msgspec.structs.replace(lease("pin", 5), expires_us=10)
    with pytest.raises(NotFound, match="has ended"):
        store.replace_lease(held)
    store.grant_lease(held)
    longer = msgspec.structs.replace(held, expires_us=20, files=("s1-00000001.parquet",))
    store.replace_lease(longer)
    assert reopen().leases("t1") == (longer,)
    assert not longer.has_expired(19)
    assert longer.has_expired(20)
    assert not lease("for ever", 5).has_expired(1 << 62)


def test_a_table_may_take_the_name_of_one_that_gave_it_up(reopen: Reopen) -> None:
    store = reopen()
    store.add_table(table("t1", "users"))
    store.add_table(table("t2", "people"))
    with pytest.raises(AlreadyExists, match="people"):
        store.replace_table(table("t1", "people"), expected_version=1)
    store.replace_table(table("t1", "users.old"), expected_version=1)
    store.replace_table(table("t2", "users"), expected_version=1)
    store.replace_table(table("t2", "users", version=2), expected_version=1)
    assert [record.name for record in reopen().tables()] == ["users.old", "users"]


def test_a_transaction_is_run_again_when_another_got_in_between() -> None:
    metastore = DirectMetastore()
    store = MetastoreCoordination.open(metastore, SystemRandom())
    other = MetastoreCoordination.open(metastore, SystemRandom())
    intruders = [1, 2, 3]

    def intrude() -> None:
        if intruders:
            intruders.pop()
            kept, metastore.before_commit = metastore.before_commit, lambda: None
            other.new_table_id()
            metastore.before_commit = kept

    metastore.before_commit = intrude
    assert store.new_table_id() == "t00000004"


def test_a_transaction_that_never_gets_through_says_so() -> None:
    metastore = DirectMetastore()

    def intrude() -> None:
        metastore.put("/stele/last-id", b"7")

    metastore.before_commit = intrude
    store = MetastoreCoordination(metastore, "c")
    with pytest.raises(Unavailable, match="100 times"):
        store.new_table_id()


def test_an_error_of_the_work_itself_is_not_tried_again() -> None:
    metastore = DirectMetastore()
    calls = []

    def work(_: object) -> None:
        calls.append(1)
        raise Conflict("of my own")

    with pytest.raises(Conflict, match="of my own"):
        transact(metastore, work)
    assert calls == [1]


@pytest.mark.parametrize("name", [".", "..", "a/b", "ä", "a b", "%41", "x" * 80, "\0"])
def test_any_name_is_a_segment_of_a_path(name: str) -> None:
    assert check_key(LEASES + segment(name)).count("/") == LEASES.count("/")


def test_different_names_are_different_segments() -> None:
    names = ["a.b", "a%2Eb", "a/b", "A.b", "a%2eb"]
    assert len({segment(name) for name in names}) == len(names)


def test_a_record_of_something_else_is_named() -> None:
    metastore = DirectMetastore(MemoryKeyValues())
    metastore.put("/stele/tables/t1", b"{}")
    with pytest.raises(Corruption, match="/stele/tables/t1"):
        MetastoreCoordination(metastore, "c").tables()


@pytest.mark.parametrize(("field", "value"), [("moons", 3), ("state", "frozen")])
def test_a_record_of_a_newer_program_is_named_and_not_taken_for_damage(
    field: str, value: object
) -> None:
    metastore = DirectMetastore(MemoryKeyValues())
    record = msgspec.to_builtins(TableRecord("t1", "users", "{}", 1, created_us=1))
    metastore.put("/stele/tables/t1", msgspec.json.encode({**record, field: value}))
    with pytest.raises(UnsupportedFormat, match=f"/stele/tables/t1: .*({field}|{value})"):
        MetastoreCoordination(metastore, "c").tables()


def test_a_job_changes_only_for_who_knows_it(reopen: Reopen) -> None:
    store = reopen()
    job = JobRecord("load/ä", "t1", "i1", JobState.RUNNING, 1, 2)
    other = JobRecord("load/ä", "t2", "i2", JobState.RUNNING, 1, 2)
    store.change_job(job, None)
    store.change_job(other, None)
    with pytest.raises(Conflict, match="changed by another"):
        store.change_job(job, None)
    done = msgspec.structs.replace(job, state=JobState.COMMITTED, txn=9)
    store.change_job(done, job)
    with pytest.raises(Conflict):
        store.change_job(job, job)
    assert store.jobs("t1") == (done,)
    assert set(store.jobs()) == {done, other}
    assert done.has_expired(2)
    assert not done.has_expired(1)
    store.forget_job("t1", "load/ä")
    store.forget_job("t1", "load/ä")
    store.forget_table("t2")
    assert store.jobs() == ()
