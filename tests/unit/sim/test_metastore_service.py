"""What a simulated client may ask of a member."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import NotLeader, SessionExpired
from stele.metastore.commands import Acquire, Execute, Executed, OpenSession, SessionOpened
from stele.protocol.metastore import WatchResponse
from stele.protocol.metastore_values import Identity, KeyRange, Put
from stele.raft import AddLearner, Membership
from stele.sim.metastore_service import (
    Call,
    ChangeCall,
    JoinCall,
    KeepAliveCall,
    LockWaitCall,
    ReadCall,
    ReadResult,
    TransferCall,
    WatchCall,
    WriteCall,
)
from stele.sim.metastore_world import MetastoreWorld


class Asked:
    """A world with one leader, and a client that remembers what it hears."""

    def __init__(self, size: int = 1) -> None:
        self.world = MetastoreWorld(2, size)
        self.heard: list[tuple[Any, ...]] = []
        self.world.clients[-1] = lambda _source, parcel: self.heard.append(parcel)
        self.run(600)
        (self.leader,) = [
            h.id for h in self.world.hosts.values() if h.driver is not None and h.driver.node.leads
        ]

    def run(self, duration_ms: int) -> None:
        until = self.world.now_ms + duration_ms
        while self.world.now_ms < until:
            self.world.step()

    def ask(self, call: Call, node: int | None = None) -> Any:
        self.heard.clear()
        self.world.transmit(-1, node or self.leader, ("call", 7, call))
        self.run(200)
        return self.heard[0][2] if self.heard else None


def put(sequence: int = 1) -> WriteCall:
    return WriteCall(Execute(Identity(5, sequence), (Put("/a", b"x"),)))


def test_writes_and_reads() -> None:
    asked = Asked(3)
    assert isinstance(asked.ask(put()), Executed)
    for node in asked.world.hosts:
        read = asked.ask(ReadCall(("/a", "/b")), node)
        assert isinstance(read, ReadResult)
        first, second = read.values
        assert first is not None
        assert first.value == b"x"
        assert second is None


def test_a_follower_refuses_and_hints() -> None:
    asked = Asked(3)
    follower = next(node for node in asked.world.hosts if node != asked.leader)
    assert isinstance(asked.ask(put(), follower), NotLeader)
    assert asked.heard[0][3] == asked.leader


def test_sessions_are_renewed() -> None:
    asked = Asked()
    opened = asked.ask(WriteCall(OpenSession(Identity(5, 1), 400_000, "me", 0)))
    assert isinstance(opened, SessionOpened)
    assert asked.ask(KeepAliveCall(opened.session)) == 400_000
    assert isinstance(asked.ask(KeepAliveCall(99)), SessionExpired)


def test_whoever_waits_for_a_lock_hears_in_time() -> None:
    asked = Asked()
    sessions = [
        asked.ask(WriteCall(OpenSession(Identity(c, 1), 9_000_000, "me", 0))).session
        for c in (5, 6)
    ]
    tickets = [
        asked.ask(WriteCall(Acquire(Identity(c, 2), session, "/l"))).ticket
        for c, session in zip((5, 6), sessions, strict=True)
    ]
    assert asked.ask(LockWaitCall(sessions[1], tickets[1])) is not None


def test_a_watch_is_a_numbered_stream() -> None:
    asked = Asked()
    asked.world.transmit(-1, asked.leader, ("call", 1, WatchCall(9, KeyRange("/a"), 0)))
    asked.run(50)
    asked.world.transmit(-1, asked.leader, ("call", 2, put()))
    asked.run(200)
    pushed = [parcel for parcel in asked.heard if parcel[0] == "pushed"]
    assert [parcel[1][0] for parcel in pushed] == [9] * len(pushed)
    assert [parcel[2] for parcel in pushed] == list(range(len(pushed)))
    transactions = [
        t
        for parcel in pushed
        if isinstance(parcel[3], WatchResponse)
        for t in parcel[3].transactions
    ]
    assert [change.key for t in transactions for change in t.changes] == ["/a"]


@pytest.mark.parametrize("call", [ChangeCall(AddLearner(9, "host-9")), JoinCall(1)])
def test_the_membership_comes_back(call: Call) -> None:
    assert isinstance(Asked().ask(call), Membership)


def test_leadership_moves() -> None:
    asked = Asked(3)
    target = next(node for node in asked.world.hosts if node != asked.leader)
    assert asked.ask(TransferCall(target)) == target
