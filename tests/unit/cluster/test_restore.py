"""Backups, and a new incarnation from one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stele.client.metastore_connect import connect_async
from stele.cluster.member_process import MemberProcess, ServeOptions
from stele.cluster.restore import read_backup, restore_backup, write_backup
from stele.env.posix import PosixFileSystem
from stele.errors import AlreadyExists, Corruption, DirectoryInUse, NotFound, SteleError
from tests.unit.metastore.embedded_support import Home
from tests.unit.rpc.addresses import free_address


def backup(tmp_path: Path) -> tuple[Path, int, int]:
    """A backup of a store in which a session holds a key and a lock; its index and the token."""
    ms = Home().ms
    ms.put("/kept", b"1")
    session = ms.session()
    ms.put("/gone", b"", session=session)
    lock = session.lock("/locks/x")
    lock.acquire()
    file = tmp_path / "copy"
    index, size = write_backup(ms, file)
    assert size == file.stat().st_size
    with pytest.raises(AlreadyExists):
        write_backup(ms, file)
    return file, index, lock.token


async def test_a_new_incarnation_goes_on_far_above_and_without_sessions(tmp_path: Path) -> None:
    file, index, token = backup(tmp_path)
    address, directory = free_address(), str(tmp_path / "new")
    restored = restore_backup(file, directory, address, index_offset=1_000)
    assert restored.index == index + 1_000
    assert restored.incarnation == 1
    process = MemberProcess(ServeOptions(directory=directory, listen=address))
    try:
        await process.start()
        ms = await connect_async([address])
        assert (await ms.get("/kept", timeout=30)).value == b"1"  # type: ignore[union-attr]
        assert await ms.get("/gone") is None
        async with await ms.session() as session:
            assert await session.lock("/locks/x", wait=False).acquire() > token + 1_000
        status = await ms.admin.status()
        assert (status.incarnation, status.cluster) == (1, restored.cluster)
        await ms.close()
    finally:
        await process.close()
    with pytest.raises(AlreadyExists):
        await asyncio.to_thread(restore_backup, file, directory, address, index_offset=1_000)


def test_what_is_not_a_whole_backup_is_refused(tmp_path: Path) -> None:
    file, _, _ = backup(tmp_path)
    data = file.read_bytes()
    cut, foreign = tmp_path / "cut", tmp_path / "foreign"
    foreign.write_bytes(b"something else")
    with pytest.raises(NotFound):
        list(read_backup(tmp_path / "none"))
    with pytest.raises(Corruption, match="not a backup"):
        list(read_backup(foreign))
    for size in (len(data) - 1, len(data) // 2):
        cut.write_bytes(data[:size])
        with pytest.raises(Corruption):
            restore_backup(cut, str(tmp_path / "d"), "127.0.0.1:1", index_offset=1)
    for bad, address in ((foreign, "127.0.0.1:1"), (file, "nonsense"), (file, "127.0.0.1:0")):
        with pytest.raises(SteleError):
            restore_backup(bad, str(tmp_path / "d"), address, index_offset=1)
    restore_backup(file, str(tmp_path / "d"), "127.0.0.1:1", index_offset=1)  # and then a good one


def test_a_directory_that_is_in_use_or_holds_anything_is_refused(tmp_path: Path) -> None:
    file, _, _ = backup(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(AlreadyExists, match="give a new directory"):
        restore_backup(file, str(tmp_path / "full"), "127.0.0.1:1", index_offset=1)
    with (
        PosixFileSystem(tmp_path / "used").lock_exclusive("LOCK"),
        pytest.raises(DirectoryInUse, match="give a new directory"),
    ):
        restore_backup(file, str(tmp_path / "used"), "127.0.0.1:1", index_offset=1)
