"""Versions: the past stays readable to the waterline, and not a byte longer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument, SnapshotTooOld
from stele.metastore.commands import (
    NOBODY,
    AdvanceWaterline,
    CloseSession,
    Effects,
    Execute,
    OpenSession,
    WaterlineAt,
    encode_command,
)
from stele.metastore.state import keys, versions
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import Change, Changes, Delete, KeyRange, KeyValue, Put
from tests.unit.metastore.state.replica import Replica


def test_each_index_has_its_own_value() -> None:
    replica = Replica()
    first = replica.put("/a", b"1")
    second = replica.put("/a", b"2")
    third = replica.delete("/a")
    fourth = replica.put("/a", b"4")
    values = [replica.contents(at).get("/a") for at in (0, first, second, third, fourth)]
    assert values == [None, b"1", b"2", None, b"4"]
    assert replica.machine.get("/a") == KeyValue("/a", b"4", fourth, fourth, 1), "a new life"


def test_an_index_that_is_not_there_yet_is_refused() -> None:
    replica = Replica()
    index = replica.put("/a", b"1")
    with pytest.raises(InvalidArgument, match=f"this node is at {index}"):
        replica.machine.get("/a", index + 1)


def test_the_waterline_ends_the_past() -> None:
    replica = Replica()
    first = replica.put("/a", b"1")
    second = replica.put("/a", b"2")
    assert replica.advance(second) == WaterlineAt(second)
    with pytest.raises(SnapshotTooOld, match=f"history begins at {second}"):
        replica.machine.get("/a", first)
    with pytest.raises(SnapshotTooOld):
        replica.machine.range(KeyRange("/", "0"), first)
    with pytest.raises(SnapshotTooOld):
        replica.machine.history(first, 10)
    assert replica.contents(second) == {"/a": b"2"}
    assert replica.advance(first) == WaterlineAt(second), "it never goes back"


def test_what_the_waterline_passed_takes_no_space() -> None:
    replica = Replica()
    replica.put("/a", b"1")
    empty = Replica()
    empty.put("/a", b"1")
    for number in range(10):
        replica.put("/a", b"%d" % number)
        replica.put("/gone", b"x")
        replica.delete("/gone")
    replica.put("/a", b"1")
    replica.advance(replica.machine.applied_index)
    assert replica.machine.usage() == empty.machine.usage()
    kept = [stored for stored, _ in replica.values.scan(b"\x01", b"\x04")]
    assert kept == [keys.value_key("/a")]


def test_the_account_of_space_is_what_is_stored() -> None:
    replica = Replica()
    session = replica.open_session()
    for number in range(30):
        replica.put(f"/k{number % 7}", b"x" * number, session if number % 3 else 0)
        if number % 5 == 0:
            replica.delete(f"/k{number % 4}")
    replica.advance(20)
    stored = sum(len(k) + len(v) for k, v in replica.values.scan(b"\x01", b"\x03"))
    assert replica.machine.usage().used_bytes == stored
    assert replica.machine.usage().keys == len(replica.contents())


def test_one_entry_forgets_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "FORGET_CHANGES_MAX", 4)
    monkeypatch.setattr(versions, "FORGET_CHANGES_BESIDE", 0)
    replica = Replica()
    last = [replica.put("/a", b"") for _ in range(10)][-1]
    assert replica.advance(last) == WaterlineAt(4)
    assert replica.advance(last) == WaterlineAt(8)
    assert replica.advance(last) == WaterlineAt(last)
    assert [each.index for each in replica.machine.history(last, 10)] == []


def test_the_entries_that_follow_give_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "FORGET_CHANGES_MAX", 10)
    replica = Replica()
    last = [replica.put("/a", b"") for _ in range(100)][-1]
    waterline = replica.machine.waterline
    replica.advance(last)
    for _ in range(100):
        assert replica.machine.waterline >= waterline
        waterline = replica.machine.waterline
        replica.put("/a", b"")
    assert waterline == last
    assert len(list(replica.values.scan(b"\x02", b"\x03"))) == 100, "what is above it stays"
    replica.restart()
    assert replica.machine.waterline == last


def test_the_waterline_does_not_pass_its_own_entry() -> None:
    replica = Replica()
    replica.put("/a", b"")
    assert replica.advance(1 << 60) == WaterlineAt(2)


def test_history_has_whole_transactions() -> None:
    replica = Replica()
    first = replica.execute(Put("/a", b"1"), Put("/b", b"1")).index
    second = replica.execute(Delete("/a"), Put("/c", b"2")).index
    replica.execute(Delete("/nothing"))
    third = replica.put("/b", b"3")
    assert replica.machine.history(0, 10) == [
        Changes(first, (Change("/a", b"1", first, 1), Change("/b", b"1", first, 1))),
        Changes(second, (Change("/a", None), Change("/c", b"2", second, 1))),
        Changes(third, (Change("/b", b"3", first, 2),)),
    ]
    assert [each.index for each in replica.machine.history(first, 1)] == [second]
    assert replica.machine.history(1 << 63, 10) == []


def test_a_range_backwards_and_in_parts() -> None:
    replica = Replica()
    for number in range(5):
        replica.put(f"/k{number}", b"x")
    whole = KeyRange("/", "0")
    page = replica.machine.range(whole, limit=2, reverse=True)
    assert [item.key for item in page.items] == ["/k4", "/k3"]
    assert page.more
    rest = replica.machine.range(KeyRange("/", "/k3"), page.index, reverse=True)
    assert [item.key for item in rest.items] == ["/k2", "/k1", "/k0"]
    assert not rest.more
    bare = replica.machine.range(whole, keys_only=True)
    assert {item.value for item in bare.items} == {b""}


def test_a_key_that_one_entry_touches_twice_has_one_version_of_it() -> None:
    # Refused before it is proposed; should it come from a log, all replicas must agree on it.
    replica = Replica()
    first = replica.put("/a", b"0")
    operations = (Put("/a", b"1"), Delete("/a"), Put("/a", b"2"), Put("/b", b""), Delete("/b"))
    payload = encode_command(Execute(replica.identity(1), operations))
    effects = replica.machine.apply([(first + 1, payload)])[0]
    assert effects.changes == (Change("/a", b"2", first + 1, 1), Change("/b", None))
    assert replica.contents(first) == {"/a": b"0"}
    assert replica.contents() == {"/a": b"2"}
    replica.advance(first + 2)
    assert [stored for stored, _ in replica.values.scan(b"\x01", b"\x04")] == [keys.value_key("/a")]


steps = st.lists(
    st.tuples(st.sampled_from(["/a", "/b", "/c/d"]), st.none() | st.binary(max_size=2)),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps=steps, waterline=st.integers(0, 25))
def test_every_index_from_the_waterline_on_can_be_read(
    steps: list[tuple[str, bytes | None]], waterline: int
) -> None:
    replica = Replica()
    past: list[dict[str, bytes]] = [{}]
    for key, value in steps:
        state = dict(past[-1])
        if value is None:
            replica.delete(key)
            state.pop(key, None)
        else:
            replica.put(key, value)
            state[key] = value
        past.append(state)
    replica.advance(waterline)
    reached = replica.machine.waterline
    for at in range(reached, len(past)):
        assert replica.contents(at) == past[at]
    replayed = dict(past[min(reached, len(past) - 1)])
    for transaction in replica.machine.history(reached, 100):
        for change in transaction.changes:
            replayed.pop(change.key, None)
            if change.value is not None:
                replayed[change.key] = change.value
    assert replayed == past[-1]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "ephemeral", "delete", "forget"]),
        st.sampled_from(["/a", "/b", "/c", "/d"]),
        st.sampled_from([0, 1, 40]),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_shortest_way_of_a_put_leaves_the_same_bytes(steps: list[tuple[str, str, int]]) -> None:
    """One replica keeps little at hand, takes no short cuts and restarts after each entry."""
    quick, slow = Replica(), Replica()
    with pytest.MonkeyPatch.context() as patch:
        for kind, key, size in steps:
            patch.setattr(versions, "RECENT_KEYS_MAX", 2)
            patch.setattr(versions, "RECENT_BYTES_MAX", 48)
            effects = _step(quick, kind, key, bytes(size))
            with pytest.MonkeyPatch.context() as slowly:
                slowly.setattr(StateMachine, "_is_plain_put", lambda *_: False)
                slow.restart()
                assert _step(slow, kind, key, bytes(size)) == effects
            assert list(quick.values.scan(b"", b"\xff")) == list(slow.values.scan(b"", b"\xff"))
            assert quick.machine.get(key) == slow.machine.get(key)


def _step(replica: Replica, kind: str, key: str, value: bytes) -> Effects:
    if kind == "forget":
        index = replica.machine.applied_index
        return replica.apply(AdvanceWaterline(NOBODY, index))
    if kind == "ephemeral":
        opened = replica.apply(OpenSession(replica.identity(1), 1_000_000, "", 0)).opened[0].id
        replica.apply(Execute(replica.identity(1), (Put(key, value, opened),)))
        return replica.apply(CloseSession(replica.identity(1), opened))
    operation = Put(key, value) if kind == "put" else Delete(key)
    return replica.apply(Execute(replica.identity(1), (operation,)))


def test_no_more_than_so_many_versions_are_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "RECENT_KEYS_MAX", 4)
    replica = Replica()
    for number in range(50):
        replica.put(f"/k/{number % 20}", b"x")
        replica.put("/large", bytes(versions.RECENT_BYTES_MAX))
    kept = replica.machine._versions
    assert len(kept._recent) <= 5
    assert len(kept._older) <= 5
    assert "/large" not in {**kept._recent, **kept._older}
    assert len(replica.contents()) == 21
