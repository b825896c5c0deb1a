"""A member as a process: found, join, restart elsewhere, end in good order."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from stele.client.metastore_connect import connect_async
from stele.cluster.member_process import MemberProcess, ServeOptions, serve
from stele.errors import AlreadyExists, InvalidArgument, NotFound
from stele.metastore.server import NodeServer


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


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
