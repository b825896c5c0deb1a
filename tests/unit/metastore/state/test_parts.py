"""The parts of a state, loaded from where it lies."""

from __future__ import annotations

from stele.metastore.commands import NOBODY, RaiseAlarm, SetQuota
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.state.parts import load_parts
from stele.protocol.metastore_values import Put
from tests.unit.metastore.state.replica import Replica


def test_the_parts_of_a_store_that_is_empty_are_empty() -> None:
    values = MemoryKeyValues()
    parts = load_parts(values, values)
    assert parts.header.applied_index == 0
    assert parts.sessions.all() == ()
    assert parts.alarms == {}


def test_parts_are_of_what_lies_beside_the_store_until_it_is_that() -> None:
    source = Replica()
    session = source.open_session(client=1)
    source.execute(Put("/a", b"new"))
    source.apply(RaiseAlarm(NOBODY, 3, "disk full"))
    source.apply(SetQuota(NOBODY, 77))
    values = MemoryKeyValues()
    values.write({b"unrelated": b"1"})
    staged = values.stage(source.values.scan(b"", b"\xff"))
    parts = load_parts(values, staged)
    assert [info.id for info in parts.sessions.all()] == [session]
    assert parts.alarms == {3: "disk full"}
    assert parts.header.quota_bytes == 77
    found = parts.versions.get("/a", None)
    assert found is not None
    assert found.value == b"new"
    staged.adopt()
    parts.staged.settle()
    parts.staged.put(b"late", b"1")
    parts.staged.flush()
    assert values.get(b"late") == b"1"
    assert parts.staged.get(b"unrelated") is None
