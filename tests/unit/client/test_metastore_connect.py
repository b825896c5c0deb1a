"""Connecting, for threads and for asyncio."""

from __future__ import annotations

from pathlib import Path

import pytest

import stele
from stele.client.metastore_connect import connect, connect_async
from stele.errors import DeadlineExceeded, InvalidArgument
from stele.rpc import TlsFiles


def test_somebody_has_to_be_named() -> None:
    with pytest.raises(InvalidArgument, match="at least one address"):
        connect([])


def test_nothing_is_dialled_before_the_first_call() -> None:
    with connect("127.0.0.1:1") as ms, pytest.raises(DeadlineExceeded):
        ms.get("/a", timeout=0.05)


def test_other_machines_are_not_called_without_tls() -> None:
    with connect("192.0.2.1:7420") as ms, pytest.raises(InvalidArgument, match="without TLS"):
        ms.get("/a", timeout=30)


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    nothing = TlsFiles(tmp_path / "c", tmp_path / "k", tmp_path / "a")
    with pytest.raises(InvalidArgument, match=str(tmp_path)):
        connect("127.0.0.1:1", tls=nothing)


async def test_both_have_the_same_names() -> None:
    client = await connect_async("127.0.0.1:1")
    with pytest.raises(DeadlineExceeded):
        await client.get("/a", timeout=0.05)
    await client.close()
    assert stele.metastore.connect is connect
    assert stele.aio.connect_metastore is connect_async
