"""Requirements of the metastore that only a whole group, or the whole client, can meet."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from stele.client.metastore import Metastore
from stele.client.metastore_aio import AsyncMetastore
from stele.env.posix import PosixFileSystem
from stele.errors import Conflict
from stele.metastore.commands import Execute, encode_command
from stele.metastore.kv_rocks import RocksKeyValues
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore import COMMIT, CommitRequest
from stele.protocol.metastore_values import Identity, KeyRange, Put
from tests.unit.metastore.cluster_support import group_of


def test_s15_one_log_over_one_lsm_tree(tmp_path: Path) -> None:
    """The sequence of a write is the index of its entry, and the tree itself knows how far it is:
    there is no second log to compare with."""
    values = RocksKeyValues(str(tmp_path), PosixFileSystem(str(tmp_path)))
    machine = StateMachine(values)
    put = encode_command(Execute(Identity(1, 1), (Put("/a", b"1"),)))
    machine.apply([(5, b""), (6, put), (7, b"")])
    assert machine.get("/a").index == 6  # type: ignore[union-attr]
    values.close()
    values = RocksKeyValues(str(tmp_path), PosixFileSystem(str(tmp_path)))
    again = StateMachine(values)
    assert (again.applied_index, again.get("/a").index) == (7, 6)  # type: ignore[union-attr]
    values.close()


@pytest.mark.parametrize("changed", [False, True])
async def test_s21_s25_a_transaction_outlives_the_leader_it_began_with(changed: bool) -> None:
    """What it has read stays with the client, so there is nothing that a change of term could
    lose and nothing to clean up; whether it may commit is decided when it is applied."""
    async with group_of(3) as group:
        ms = group.client()
        await ms.put("/a", b"1")
        transaction = ms.transaction()
        assert await transaction.get("/a") is not None
        transaction.put("/b", b"from /a")
        await group.kill(await group.settled_leader())
        await group.settled_leader()
        if changed:
            await ms.put("/a", b"2")
            with pytest.raises(Conflict):
                await transaction.commit()
        else:
            await transaction.commit()
        assert (await ms.get("/b") is None) == changed


async def test_s22_the_identity_of_a_commit_makes_it_take_effect_once() -> None:
    """Client id and sequence stand where the note has term and local number: they hold across
    terms, too."""
    async with group_of(3) as group:
        ms = group.client()
        index = await ms.put("/a", b"1")
        commit = CommitRequest(Identity(77, 1), index, (KeyRange("/a"),), (Put("/a", b"2"),))
        first = await ms.transport.call(COMMIT, commit, timeout_s=20)
        await group.kill(await group.settled_leader())
        again = await ms.transport.call(COMMIT, commit, timeout_s=20)
        assert again.index == first.index
        assert (await ms.get("/a")).version == 2  # type: ignore[union-attr]


async def test_s23_a_transaction_reads_all_that_was_acknowledged_under_earlier_leaders() -> None:
    async with group_of(3) as group:
        ms = group.client()
        for number in range(3):
            index = await ms.put("/a", b"%d" % number)
            dead = await group.settled_leader()
            await group.kill(dead)
            async with ms.transaction() as transaction:
                found = await transaction.get("/a")
            assert found is not None
            assert (found.index, found.value) == (index, b"%d" % number)
            assert transaction.index is not None
            assert transaction.index >= index
            group.start(dead)


async def test_s36_one_seed_is_enough_to_find_the_group() -> None:
    """A client is told an address; newcomers may also look for one by multicast, which is tested
    with ``stele.cluster.discovery``. Whom the group consists of, its members tell in both cases."""
    async with group_of(3) as group:
        leader = await group.settled_leader()
        follower = next(address for address in group.servers if address != leader)
        ms = group.client(follower)
        await ms.put("/a", b"1")
        assert {member.address for member in await ms.admin.members()} == set(group.servers)


def test_s38_the_client_library_has_the_same_names_for_threads_and_asyncio() -> None:
    def names(client: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(client) if not name.startswith("_")}

    operations = {"get", "range", "put", "delete", "txn", "transaction", "session", "watch"}
    assert operations <= names(Metastore)
    assert names(Metastore) - {"for_coroutines"} <= names(AsyncMetastore) | {"admin"}
