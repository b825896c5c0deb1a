"""What the note on the metastore asks of its state, by its numbers."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument
from stele.metastore.commands import (
    AclRule,
    CommitTransaction,
    Done,
    Grant,
    LockState,
    Refused,
    SetAcl,
    SwitchAcl,
)
from stele.metastore.kv_memory import MemoryKeyValues
from stele.protocol.metastore_values import Delete, Get, KeyRange, KeyValue, Put
from tests.unit.metastore.state.replica import Replica

OVERLAPPING = (KeyRange("/0", "/b"), KeyRange("/a"), KeyRange("/a", "/c"))


def test_s1_a_small_consistent_store_reads_what_was_written_last() -> None:
    replica = Replica()
    replica.put("/config/a", b"1")
    replica.put("/config/a", b"2")
    assert replica.contents() == {"/config/a": b"2"}


def test_s2_it_manages_locks_for_others() -> None:
    replica = Replica()
    first, second = replica.open_session(), replica.open_session()
    assert replica.acquire(first, "/locks/x").state == LockState.GRANTED
    assert replica.acquire(second, "/locks/x").state == LockState.WAITING


@pytest.mark.parametrize("key", ["a/b", "", "/", "/a/", "//a", "/a//b", "/a/../b", "/./a", "/a\0"])
def test_s3_keys_are_absolute_paths(key: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a path"):
        Replica().put(key, b"")


@pytest.mark.parametrize(
    "key", ["/ä", "/a b", "/a\\b", "/a\nb", "/\x7f", "/a?", "/\U0001d41a", '/"']
)
def test_s4_keys_have_path_characters_only(key: str) -> None:
    with pytest.raises(InvalidArgument, match="a name has letters"):
        Replica().put(key, b"")


def test_s5_directories_have_access_rules() -> None:
    replica = Replica()
    admin = AclRule("role/admin", Grant.ALL)
    replica.answer(SetAcl(replica.identity(1), "/", (admin,)))
    replica.answer(SetAcl(replica.identity(1), "/team/", (AclRule("ada", Grant.READ), admin)))
    replica.answer(SwitchAcl(replica.identity(1), True))
    machine = replica.machine
    assert machine.may("ada", Grant.READ, KeyRange("/team/x"))
    assert not machine.may("ada", Grant.WRITE, KeyRange("/team/x"))
    assert not machine.may("ada", Grant.READ, KeyRange("/teams"))


def test_s8_get() -> None:
    replica = Replica()
    index = replica.put("/a", b"1")
    assert replica.machine.get("/a") == KeyValue("/a", b"1", index, index, 1)
    assert replica.machine.get("/b") is None


def test_s9_get_range_lists_a_directory() -> None:
    replica = Replica()
    for key in ("/a", "/a/x", "/a/y", "/a/y/z", "/ab", "/b"):
        replica.put(key, key.encode())
    page = replica.machine.range(KeyRange("/a/", "/a0"))
    assert [item.key for item in page.items] == ["/a/x", "/a/y", "/a/y/z"]
    assert not page.more


def test_s10_put_counts_versions() -> None:
    replica = Replica()
    created = replica.put("/a", b"1")
    changed = replica.put("/a", b"2")
    assert replica.machine.get("/a") == KeyValue("/a", b"2", changed, created, 2)


def test_s11_delete() -> None:
    replica = Replica()
    replica.put("/a", b"1")
    assert replica.execute(Delete("/a")).results == (1,)
    assert replica.execute(Delete("/a")).results == (0,)
    assert replica.contents() == {}


def test_s12_transactions_over_any_operations_are_serializable() -> None:
    replica = Replica()
    at = replica.put("/n", b"1")
    assert replica.commit(at, (KeyRange("/n"),), Put("/n", b"2")) == Done(at + 1)
    refused = replica.commit(at, (KeyRange("/n"),), Put("/n", b"3"))
    assert isinstance(refused, Refused)
    assert refused.error == "Conflict"
    assert replica.contents() == {"/n": b"2"}


def test_s13_acquire_shared_or_exclusive() -> None:
    replica = Replica()
    sessions = [replica.open_session() for _ in range(3)]
    assert replica.acquire(sessions[0], "/l", exclusive=False).state == LockState.GRANTED
    assert replica.acquire(sessions[1], "/l", exclusive=False).state == LockState.GRANTED
    assert replica.acquire(sessions[2], "/l", exclusive=True).state == LockState.WAITING


def test_s14_release_passes_the_lock_on() -> None:
    replica = Replica()
    first, second = replica.open_session(), replica.open_session()
    held = replica.acquire(first, "/l")
    waiting = replica.acquire(second, "/l")
    (granted,) = replica.release(first, "/l").granted
    assert (granted.session, granted.ticket) == (second, waiting.ticket)
    assert granted.token > held.token


def test_s16_every_stored_key_begins_with_a_table_id() -> None:
    values = MemoryKeyValues()
    replica = Replica(values)
    session = replica.open_session()
    replica.acquire(session, "/l")
    replica.put("/a", b"1", session)
    replica.put("/a", b"2", session)
    tables = {stored[0] for stored, _ in values.scan(b"", b"\xff")}
    assert tables == {0, 1, 2, 3, 4, 5, 6, 7}


def test_s17_the_value_is_under_sub_key_1_of_table_1() -> None:
    values = MemoryKeyValues()
    Replica(values).put("/a", b"the value")
    stored = values.get(b"\x01/a\x00\x01")
    assert stored is not None
    assert stored.endswith(b"the value")


def test_s18_the_lock_is_under_sub_key_2_of_table_1() -> None:
    values = MemoryKeyValues()
    replica = Replica(values)
    session = replica.open_session()
    replica.acquire(session, "/a")
    assert values.get(b"\x01/a\x00\x02") is not None
    assert replica.contents() == {}, "a lock is not a value"
    replica.release(session, "/a")
    assert values.get(b"\x01/a\x00\x02") is None


def test_s24_any_number_of_transactions_may_be_under_way() -> None:
    replica = Replica()
    at = replica.put("/seed", b"")
    for number in range(50):
        key = f"/own/{number}"
        assert isinstance(replica.commit(at, (KeyRange(key),), Put(key, b"")), Done)


def test_s26_a_read_of_a_range_protects_the_range() -> None:
    replica = Replica()
    at = replica.put("/r/a", b"")
    replica.put("/r/b", b"a phantom")
    refused = replica.commit(at, (KeyRange("/r/", "/r0"),), Put("/sum", b"1"))
    assert isinstance(refused, Refused)
    assert "/r/b" in refused.message


def test_s27_readers_of_one_range_do_not_exclude_each_other() -> None:
    replica = Replica()
    at = replica.put("/r/a", b"")
    for number in range(3):
        answer = replica.commit(at, (KeyRange("/r/", "/r0"),), Put(f"/w/{number}", b""))
        assert isinstance(answer, Done)


def test_s27_what_somebody_writes_meanwhile_is_not_overwritten_by_its_readers() -> None:
    """Who commits first has the range; readers of it come too late, all of them, until they have
    read what it wrote."""
    replica = Replica()
    at = replica.put("/r/a", b"")
    read = (KeyRange("/r/", "/r0"),)
    assert isinstance(replica.commit(at, read, Put("/r/a", b"the writer")), Done)
    for number in range(3):
        refused = replica.commit(at, read, Put("/r/a", b"%d" % number))
        assert isinstance(refused, Refused)
        assert refused.error == "Conflict"
    assert replica.contents() == {"/r/a": b"the writer"}
    now = replica.machine.applied_index
    assert isinstance(replica.commit(now, read, Put("/r/a", b"a reader")), Done)
    assert replica.contents() == {"/r/a": b"a reader"}


def test_s28_a_transaction_may_read_ranges_that_overlap() -> None:
    replica = Replica()
    at = replica.put("/a", b"")
    assert isinstance(replica.commit(at, OVERLAPPING, Put("/z", b"")), Done)


@pytest.mark.parametrize("key", ["/0", "/a", "/ab", "/b"])
def test_s28_every_piece_of_overlapping_ranges_is_protected(key: str) -> None:
    replica = Replica()
    at = replica.put("/a", b"")
    replica.put(key, b"in one, in two or in three of them")
    refused = replica.commit(at, OVERLAPPING, Put("/z", b""))
    assert isinstance(refused, Refused)
    assert key in refused.message
    assert "/z" not in replica.contents()


@pytest.mark.parametrize("key", ["/-", "/c", "/d"])
def test_s28_what_lies_outside_of_all_pieces_is_not(key: str) -> None:
    replica = Replica()
    at = replica.put("/a", b"")
    replica.put(key, b"")
    assert isinstance(replica.commit(at, OVERLAPPING, Put("/z", b"")), Done)


@pytest.mark.parametrize("distance", [1, 2000])
def test_s29_a_range_written_after_the_read_index_stops_the_transaction(distance: int) -> None:
    replica = Replica()
    at = replica.put("/r/a", b"")
    replica.put("/r/a", b"again")
    for _ in range(distance):
        replica.put("/elsewhere", b"")
    refused = replica.commit(at, (KeyRange("/r/", "/r0"),), Put("/w", b""))
    assert isinstance(refused, Refused)
    assert refused.error == "Conflict"


@pytest.mark.parametrize("distance", [1, 2000])
def test_s30_a_key_put_and_deleted_after_the_read_index_is_still_a_change(distance: int) -> None:
    replica = Replica()
    at = replica.put("/other", b"")
    replica.put("/a", b"")
    replica.delete("/a")
    for _ in range(distance):
        replica.put("/elsewhere", b"")
    assert isinstance(replica.commit(at, (KeyRange("/a"),), Put("/w", b"")), Refused)


def test_s31_what_has_not_changed_is_returned_as_of_the_read_index() -> None:
    replica = Replica()
    at = replica.put("/a", b"old")
    replica.put("/a", b"new")
    item = replica.machine.get("/a", at)
    assert item is not None
    assert item.value == b"old"


def test_s32_writes_take_effect_at_the_commit_and_all_at_once() -> None:
    replica = Replica()
    at = replica.put("/a", b"")
    effects_before = replica.contents()
    replica.commit(at, (), Put("/x", b"1"), Put("/y", b"1"), Delete("/a"))
    assert effects_before == {"/a": b""}
    assert replica.contents() == {"/x": b"1", "/y": b"1"}


def test_s33_a_blind_write_does_not_conflict() -> None:
    replica = Replica()
    at = replica.put("/a", b"1")
    replica.put("/a", b"2")
    assert isinstance(replica.commit(at, (), Put("/a", b"3")), Done)


def test_s34_write_skew_cannot_happen() -> None:
    # Both saw that two doctors are on call; each signs one off.
    replica = Replica()
    replica.put("/call/ada", b"on")
    at = replica.put("/call/bob", b"on")
    read = (KeyRange("/call/", "/call0"),)
    assert isinstance(replica.commit(at, read, Put("/call/ada", b"off")), Done)
    assert isinstance(replica.commit(at, read, Put("/call/bob", b"off")), Refused)


def test_s35_a_commit_bails_out_when_it_is_applied() -> None:
    replica = Replica()
    at = replica.put("/a", b"1")
    before = replica.put("/a", b"2")
    refused = replica.apply(
        CommitTransaction(replica.identity(1), at, (KeyRange("/a"),), (Put("/a", b"3"),))
    )
    assert isinstance(refused.answer, Refused)
    assert refused.changes == ()
    assert replica.machine.applied_index == before + 1, "the entry is applied, without effect"


def test_s37_it_is_a_key_value_store_with_read_and_write_rules() -> None:
    replica = Replica()
    assert replica.machine.may("anybody", Grant.ALL, KeyRange("/", "0")), "all is allowed at first"
    result = replica.execute(Put("/a", b"1"), Get("/a")).results[1]
    assert isinstance(result, KeyValue)
    assert result.value == b"1"
