"""The part of a host that needs neither loop nor sockets."""

from __future__ import annotations

from unittest import mock

import pytest

from stele.client.metastore_inline import LocalAnswer
from stele.errors import NotLeader, OutOfSpace, Unavailable
from stele.metastore import driver as driver_module
from stele.metastore import events as e
from stele.metastore.commands import Execute, encode_command
from stele.metastore.driver import payloads
from stele.protocol.metastore_values import Identity, KeyRange, Put
from stele.raft import Entry, EntryKind
from tests.unit.metastore.embedded_support import Home


def test_only_commands_have_payloads() -> None:
    entries = [
        Entry(1, 1, EntryKind.MEMBERSHIP, b"m"),
        Entry(1, 2, EntryKind.NOOP, b""),
        Entry(1, 3, EntryKind.DATA, b"d"),
    ]
    assert list(payloads(entries)) == [(1, b""), (2, b""), (3, b"d")]


def test_who_has_gone_is_forgotten_and_its_answer_goes_nowhere() -> None:
    home = Home()
    driver = home.node.driver
    gone = driver.read(lambda: 1)
    gone.set_exception(Unavailable("gone"))
    driver.tick(1, 1)
    driver.turn()
    assert gone.done()
    home.ms.put("/a", b"1")


def test_what_a_lookup_raises_goes_to_who_asked() -> None:
    home = Home()

    def look_up() -> None:
        raise NotLeader("no")

    with home.node.entered():
        waiter: LocalAnswer = home.node.driver.read(look_up)
    with pytest.raises(NotLeader):
        waiter.__await__().send(None)


def test_beginning_again_tells_all_who_wait() -> None:
    home = Home()
    home.ms.put("/a", b"1")
    driver = home.node.driver
    waiter = driver.ask(e.Read, lambda value: value)
    driver.begin_again(home.node._member, OutOfSpace("full"))
    with pytest.raises(OutOfSpace):
        waiter.__await__().send(None)


def noop(index: int) -> e.Instructions:
    return e.Instructions(apply=(Entry(1, index, EntryKind.NOOP, b""),))


def test_a_leader_applies_at_once() -> None:
    home = Home()
    driver = home.node.driver
    driver._puts_off = True
    home.ms.put("/a", b"1")
    assert not driver.is_behind, "somebody waits here"


def test_who_follows_puts_entries_off_and_keeps_their_order() -> None:
    home = Home()
    driver = home.node.driver
    driver._puts_off = True
    first = driver.machine.applied_index + 1
    with mock.patch.object(type(driver.node), "leads", False):
        driver._carry_out(noop(first))
        assert (driver.is_behind, driver.must_catch_up) == (True, False), "nobody waits here"
        watcher = driver.hub.add(KeyRange("/a"), first, lambda: None)
        assert driver.must_catch_up, "somebody watches"
        driver.hub.remove(watcher)
        with mock.patch.object(driver_module, "PUT_OFF_ENTRIES_MAX", 1):
            assert driver.must_catch_up, "it is enough"
        driver.read(lambda: 1)
        assert driver.must_catch_up, "somebody reads"
    driver._carry_out(noop(first + 1))
    assert driver.must_catch_up, "it leads"
    assert driver.machine.applied_index == first - 1
    with mock.patch.object(driver.node, "handle") as handle:
        driver.catch_up()
        driver.catch_up()
    assert driver.machine.applied_index == first + 1
    (applied,) = handle.call_args.args
    assert [entry.index for entry in applied.entries] == [first, first + 1]


def test_who_watches_is_woken_before_anybody_is_answered() -> None:
    home = Home()
    home.ms.put("/a", b"1")
    driver = home.node.driver
    order: list[str] = []
    driver.hub.add(
        KeyRange("/a"), driver.machine.applied_index, lambda: order.append("woken")
    ).take(driver.machine)
    with home.node.entered():
        payload = encode_command(Execute(Identity(77, 1), (Put("/a", b"2"),)))
        driver.write(payload, lambda _: order.append("answered"))
    assert order == ["woken", "answered"]
