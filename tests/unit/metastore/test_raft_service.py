"""What members say to each other, and what is passed over."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument, PermissionDenied
from stele.protocol.raft import (
    DELIVER,
    TAKE_CHUNK,
    TELL_REMOVED,
    Delivery,
    ImageChunk,
    RemovalNotice,
)
from stele.raft import InstallSnapshot, Snapshot
from stele.raft.messages import VoteRequest
from stele.rpc import Channel, ClientOptions, Role
from tests.unit.metastore.cluster_support import Group, group_of
from tests.unit.rpc.support import CountingRandom, settle


def channel_to(group: Group, role: Role) -> Channel:
    return Channel(
        group.leader(), ClientOptions(role=role), random=CountingRandom(), network=group.network
    )


async def test_another_group_is_not_listened_to() -> None:
    async with group_of(1) as group:
        (server,) = group.servers.values()
        term = server.driver.node.core.term
        async with channel_to(group, Role.METASTORE) as channel:
            await channel.connect()
            vote = VoteRequest(99, server.node, term + 50, 10, 10, transfer=False)
            channel.send(DELIVER, Delivery("another", "m9:1", (vote,)))
            other = VoteRequest(99, server.node + 1, term + 50, 10, 10, transfer=False)
            channel.send(DELIVER, Delivery(server.cluster, "m9:1", (other,)))
            await settle()
            assert server.driver.node.core.term == term
            chunk = ImageChunk(
                "another", InstallSnapshot(1, server.node, 1, Snapshot()), 0, 0, is_last=True
            )
            with pytest.raises(InvalidArgument, match="belongs to"):
                await channel.call_attached(TAKE_CHUNK, chunk, (b"x",))
            ours = ImageChunk(
                server.cluster, InstallSnapshot(1, server.node, 1, Snapshot()), 0, 0, is_last=True
            )
            with pytest.raises(InvalidArgument, match="one attachment"):
                await channel.call_attached(TAKE_CHUNK, ours)


async def test_a_notice_for_another_is_passed_over() -> None:
    async with group_of(1) as group:
        (server,) = group.servers.values()
        standing = server.driver.node.standing
        async with channel_to(group, Role.METASTORE) as channel:
            await channel.connect()
            channel.send(TELL_REMOVED, RemovalNotice("another", server.node, 99, "m9:1"))
            channel.send(TELL_REMOVED, RemovalNotice(server.cluster, server.node + 1, 99, "m9:1"))
            channel.send(DELIVER, Delivery(server.cluster, "m9:1", ()))
            await settle()
            assert standing.removed_at == 0
            channel.send(TELL_REMOVED, RemovalNotice(server.cluster, server.node, 99, "m9:1"))
            await settle()
            assert standing.removed_at == 99


async def test_only_members_may_speak_of_consensus() -> None:
    async with group_of(1) as group:
        (server,) = group.servers.values()
        async with channel_to(group, Role.CLIENT) as channel:
            chunk = ImageChunk(
                server.cluster, InstallSnapshot(1, server.node, 1, Snapshot()), 0, 0, is_last=True
            )
            with pytest.raises(PermissionDenied, match="replicate"):
                await channel.call_attached(TAKE_CHUNK, chunk, (b"x",))
