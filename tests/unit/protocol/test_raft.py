"""The messages between members."""

from __future__ import annotations

import msgspec

from stele.protocol.raft import RAFT, Delivery, ImageChunk, RemovalNotice
from stele.raft import Entry, EntryKind, InstallSnapshot, Membership, Snapshot
from stele.raft.messages import AppendRequest
from stele.rpc import Role


def test_a_delivery_carries_whole_messages() -> None:
    append = AppendRequest(1, 2, 3, 4, 3, (Entry(3, 5, EntryKind.DATA, b"x"),), 4)
    install = InstallSnapshot(1, 2, 3, Snapshot(9, 3, Membership((1, 2), (), {1: "a"})))
    delivery = Delivery("c", "a:1", (append, install))
    data = msgspec.msgpack.encode(delivery)
    assert msgspec.msgpack.decode(data, type=Delivery) == delivery
    chunk = ImageChunk("c", install, 0, 1, is_last=False)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(chunk), type=ImageChunk) == chunk
    notice = RemovalNotice("c", 4, 9, "a:1")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(notice), type=RemovalNotice) == notice


def test_only_members_may_call_it() -> None:
    for method in RAFT.methods():
        assert method.permission.roles == {Role.METASTORE}, method.full_name
