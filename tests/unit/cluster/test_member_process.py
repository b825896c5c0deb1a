"""A member as a process: found, join, restart elsewhere, end in good order."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import stele
import stele.cluster.member_process as member_process
from stele.client.metastore_admin import MetastoreAdmin
from stele.client.metastore_aio import AsyncMetastore
from stele.client.metastore_connect import connect_async
from stele.cluster.discovery import Announcer, DiscoveryOptions
from stele.cluster.member_process import MemberProcess, ServeOptions, serve
from stele.env.real import SystemClock
from stele.errors import AlreadyExists, InvalidArgument, NotFound, RetryLater, Unavailable
from stele.metastore.discovery import Respondent
from stele.metastore.server import NodeServer
from stele.protocol.metastore_member import BootstrapResponse
from stele.rpc import Role
from tests.unit.rpc.addresses import free_address, free_port


async def test_s39_found_join_move_and_hand_over(tmp_path: Path) -> None:
    first, second, moved = free_address(), free_address(), free_address()
    a = MemberProcess(ServeOptions(directory=str(tmp_path / "a"), listen=first, bootstrap=True))
    b = MemberProcess(ServeOptions(directory=str(tmp_path / "b"), listen=second, join=(first,)))
    try:
        await a.start()
        ms = await connect_async([first])
        await ms.put("/a", b"1", timeout=20)
        await b.start()
        async with asyncio.timeout(30):
            while len([m for m in await ms.admin.members() if m.is_voter]) < 2:
                await asyncio.sleep(0.05)
        stop = asyncio.Event()
        stop.set()
        ask, attempts = a.server.driver.ask, itertools.count()

        def fail_first(*words: Any) -> Any:
            if not next(attempts):
                raise Unavailable("it takes too long")
            return ask(*words)

        with mock.patch.object(a.server.driver, "ask", fail_first):
            await a.run(stop)
        assert not a.server.driver.node.leads, "it handed over before it ended"
        await b.close()
        b = MemberProcess(ServeOptions(directory=str(tmp_path / "b"), listen=moved))
        await b.start()
        async with asyncio.timeout(30):
            while moved not in [m.address for m in await ms.admin.members()]:
                await asyncio.sleep(0.05)
        assert (await ms.get("/a")).value == b"1"  # type: ignore[union-attr]
        await ms.close()
    finally:
        await a.close()
        await b.close()


async def voters(ms: AsyncMetastore) -> set[str]:
    return {member.address for member in await ms.admin.members() if member.is_voter}


async def test_a_removed_node_does_not_come_back_by_itself(tmp_path: Path) -> None:
    """Not even with ``--join``: who removed it may add it again."""
    first, second = free_address(), free_address()
    a = MemberProcess(ServeOptions(directory=str(tmp_path / "a"), listen=first, bootstrap=True))
    b = MemberProcess(ServeOptions(directory=str(tmp_path / "b"), listen=second, join=(first,)))
    try:
        await a.start()
        await b.start()
        ms = await connect_async([first, second], role=Role.ADMIN)
        async with asyncio.timeout(60):
            while await voters(ms) != {first, second}:
                await asyncio.sleep(0.05)
        node = a.server.node
        await ms.admin.remove(node)
        async with asyncio.timeout(60):
            while not a.server.driver.node.standing.removed_at:
                await asyncio.sleep(0.05)
        await a.close()
        a = MemberProcess(ServeOptions(directory=str(tmp_path / "a"), listen=first, join=(second,)))
        with mock.patch.object(MetastoreAdmin, "join") as join:
            await a.start()
            async with asyncio.timeout(60):
                while (await ms.admin.status(first)).role != "removed":
                    await asyncio.sleep(0.05)
            join.assert_not_called()
        await ms.admin.add_learner(node, first)
        async with asyncio.timeout(60):
            while await voters(ms) != {first, second}:
                await asyncio.sleep(0.05)
        await ms.close()
    finally:
        await a.close()
        await b.close()


async def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    def nobody(_server: NodeServer) -> None:
        raise AssertionError("it must not start")

    stop = asyncio.Event()
    with pytest.raises(NotFound, match="--bootstrap"):
        await serve(ServeOptions(directory=str(tmp_path), listen=free_address()), stop, nobody)
    with pytest.raises(InvalidArgument, match="not both"):
        ServeOptions(directory="d", listen="a:1", bootstrap=True, join=("b:1",))
    options = ServeOptions(directory=str(tmp_path), listen=free_address(), bootstrap=True)
    process = MemberProcess(options)
    await process.start()
    await process.close()
    await process.close()
    with pytest.raises(AlreadyExists, match="without --bootstrap"):
        await serve(options, stop, nobody)


@pytest.mark.parametrize("option", ["advertise", "join"])
def test_addresses_that_nobody_can_call_are_refused_before_anything_is_made(
    option: str, tmp_path: Path
) -> None:
    words: dict[str, Any] = {"advertise": "nonsense", "join": ("127.0.0.1:7420", "nonsense")}
    with pytest.raises(InvalidArgument, match=f"--{option}: address 'nonsense'"):
        ServeOptions(
            directory=str(tmp_path / "a"), listen=free_address(), **{option: words[option]}
        )
    assert not list(tmp_path.iterdir())


async def test_a_port_that_is_chosen_is_the_one_that_is_announced(tmp_path: Path) -> None:
    options = ServeOptions(directory=str(tmp_path), listen="127.0.0.1:0", bootstrap=True)
    process = MemberProcess(options)
    try:
        address = await process.start()
        assert not address.endswith(":0")
        assert process.server.address == address
        async with await connect_async([address]) as ms:
            await ms.put("/a", b"1", timeout=60)
            assert [member.address for member in await ms.admin.members()] == [address]
    finally:
        await process.close()


async def test_who_waits_for_its_group_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_process, "SAY_S", 0.01)
    nobody = free_address()
    options = ServeOptions(directory=str(tmp_path), listen=free_address(), join=(nobody,))
    stop = asyncio.Event()
    serving = asyncio.ensure_future(serve(options, stop, lambda _: None))
    said = f"still asking for the group at {nobody}: no answer"
    async with asyncio.timeout(60):
        while said not in caplog.text:
            await asyncio.sleep(0.01)
    stop.set()
    await serving
    assert caplog.text.count(said) == 1


async def test_a_node_does_not_move_into_a_database_nor_a_database_into_a_node(
    tmp_path: Path,
) -> None:
    def nobody(_server: NodeServer) -> None:
        raise AssertionError("it must not start")

    home, node = tmp_path / "db", tmp_path / "node"
    stele.open(home).close()
    before = sorted(home.iterdir())
    options = ServeOptions(directory=str(home), listen=free_address(), bootstrap=True)
    with pytest.raises(AlreadyExists, match="give a new directory"):
        await serve(options, asyncio.Event(), nobody)
    assert sorted(home.iterdir()) == before
    process = MemberProcess(
        ServeOptions(directory=str(node), listen=free_address(), bootstrap=True)
    )
    await process.start()
    await process.close()
    before = sorted(node.iterdir())
    with pytest.raises(InvalidArgument, match="node of a metastore"):
        stele.open(node)
    assert sorted(node.iterdir()) == before


def place(label: str = "stele") -> DiscoveryOptions:
    multicast = f"239.255.74.21:{free_port()}"
    return DiscoveryOptions(interface="127.0.0.1", multicast=multicast, label=label)


async def test_s36_a_newcomer_finds_its_group_by_itself(tmp_path: Path) -> None:
    """It waits until there is one, and needs no address of anybody."""
    first, second, where = free_address(), free_address(), place()
    a = MemberProcess(
        ServeOptions(directory=str(tmp_path / "a"), listen=first, bootstrap=True, discovery=where)
    )
    b = MemberProcess(ServeOptions(directory=str(tmp_path / "b"), listen=second, discovery=where))
    try:
        waiting = asyncio.ensure_future(b.start())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await a.start()
        await waiting
        ms = await connect_async([second])
        async with asyncio.timeout(30):
            while len([m for m in await ms.admin.members() if m.is_voter]) < 2:
                await asyncio.sleep(0.05)
        assert a.server.cluster == b.server.cluster
        await ms.close()
    finally:
        await a.close()
        await b.close()


async def test_a_newcomer_that_hears_two_groups_joins_neither(tmp_path: Path) -> None:
    where, seed = place(), free_address()
    founders = [
        MemberProcess(
            ServeOptions(
                directory=str(tmp_path / name), listen=address, bootstrap=True, discovery=where
            )
        )
        for name, address in (("a", seed), ("b", free_address()))
    ]

    def newcomer(*join: str) -> MemberProcess:
        return MemberProcess(
            ServeOptions(
                directory=str(tmp_path / "c"), listen=free_address(), join=join, discovery=where
            )
        )

    undecided, told = newcomer(), newcomer(seed)
    try:
        for founder in founders:
            await founder.start()
        with pytest.raises(InvalidArgument, match="several groups have the label 'stele'"):
            await undecided.start()
        await undecided.close()
        await told.start()
        assert told.server.cluster == founders[0].server.cluster, "whom it was told of comes first"
    finally:
        for process in (*founders, told):
            await process.close()


async def test_an_announcement_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    """The address is dialled, nobody of a group is there, and the search goes on."""
    where, first = place(), free_address()
    liar = Announcer(Respondent("stele", "c0ffee", 1, free_address()), SystemClock())
    await liar.start(where)
    a = MemberProcess(
        ServeOptions(directory=str(tmp_path / "a"), listen=first, bootstrap=True, discovery=where)
    )
    b = MemberProcess(
        ServeOptions(directory=str(tmp_path / "b"), listen=free_address(), discovery=where)
    )
    try:
        await a.start()
        await b.start()
        assert b.server.cluster == a.server.cluster
    finally:
        liar.close()
        await a.close()
        await b.close()


async def test_who_searches_can_be_told_to_end(tmp_path: Path) -> None:
    stop = asyncio.Event()
    options = ServeOptions(directory=str(tmp_path), listen=free_address(), discovery=place())
    serving = asyncio.ensure_future(serve(options, stop, lambda _: None))
    await asyncio.sleep(0.05)
    stop.set()
    await asyncio.wait_for(serving, 10)
    assert not (tmp_path / "log").exists()


async def test_nodes_that_wait_are_told_to_found_a_group_and_to_join_it(tmp_path: Path) -> None:
    places = [free_address(), free_address()]
    processes = [
        MemberProcess(
            ServeOptions(directory=str(tmp_path / str(n)), listen=at, await_bootstrap=True)
        )
        for n, at in enumerate(places)
    ]
    starting = [asyncio.ensure_future(process.start()) for process in processes]
    operator = await connect_async(places, role=Role.ADMIN)
    try:
        async with asyncio.timeout(60):
            begun = await _told(operator, places[0])
            assert await starting[0] == places[0]
            assert processes[0].server.cluster == begun.cluster
            with pytest.raises(AlreadyExists, match=begun.cluster):
                await _told(operator, places[0])
            joined = await _told(operator, places[1], places[0])
            assert joined.cluster == begun.cluster
            await starting[1]
            while {m.node for m in await operator.admin.members() if m.is_voter} != {
                begun.node,
                joined.node,
            }:
                await asyncio.sleep(0.05)
        await processes[0].close()
        again = ServeOptions(directory=str(tmp_path / "0"), listen=places[0], await_bootstrap=True)
        processes[0] = MemberProcess(again)
        assert await processes[0].start() == places[0], "it knows its group and waits for nobody"
    finally:
        await operator.close()
        for process in processes:
            await process.close()


async def _told(operator: AsyncMetastore, address: str, *join: str) -> BootstrapResponse:
    """Said until it is heard: the node may be about to listen."""
    while True:
        try:
            return await operator.admin.bootstrap(address, *join)
        except RetryLater:
            await asyncio.sleep(0.05)


async def test_a_node_that_waits_ends_when_it_is_told_to(tmp_path: Path) -> None:
    stop = asyncio.Event()
    options = ServeOptions(
        directory=str(tmp_path / "a"), listen=free_address(), await_bootstrap=True
    )
    serving = asyncio.ensure_future(serve(options, stop, lambda _: None))
    await asyncio.sleep(0)
    stop.set()
    async with asyncio.timeout(20):
        await serving
    assert not (tmp_path / "a" / "log").exists(), "it belongs to no group"


async def test_a_node_that_waits_does_not_begin_over_what_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    process = MemberProcess(
        ServeOptions(directory=str(tmp_path), listen=free_address(), await_bootstrap=True)
    )
    with pytest.raises(AlreadyExists, match=r"letters\.txt"):
        await process.start()
    await process.close()
