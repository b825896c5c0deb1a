"""Who owns a directory, where it is served, and how others find it. Processes: integration."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

import stele
from stele.cluster import attach
from stele.cluster.attach import (
    OWNER_FILE,
    SOCKET_FILE,
    OwnerLocation,
    OwnerServer,
    open_database,
    read_owner,
)
from stele.env.posix import PosixFileSystem
from stele.errors import DirectoryInUse, StaleHandle, Unavailable, UnsupportedFormat
from stele.rpc.server import Server
from tests.oracles.model_backend import ModelBackend


def socket_of(folder: Path) -> Path:
    owner = read_owner(PosixFileSystem(folder))
    assert owner is not None
    assert owner.pid == os.getpid()
    return Path(owner.address.removeprefix("unix:"))


def test_the_owner_serves_a_socket_for_itself_alone(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with stele.open(folder):
        path = socket_of(folder)
        assert path == folder / SOCKET_FILE
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()
    assert not (folder / OWNER_FILE).exists()


def test_a_long_path_is_served_from_a_short_private_one(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    with stele.open(folder) as owner, stele.open(folder) as attached:
        path = socket_of(folder)
        assert len(os.fsencode(path)) <= 107
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        owner.create_table("t")
        assert attached.tables() == ["t"]
    assert not path.parent.exists()


def test_a_long_temporary_directory_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 40)
    (tmp_path / ("temporary" * 12)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("temporary" * 12)))
    with stele.open(folder), stele.open(folder) as attached:
        assert attached.tables() == []


def test_what_a_killed_owner_left_behind_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    folder.mkdir()
    private = tmp_path / "stele-abc"
    private.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(private / SOCKET_FILE))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / SOCKET_FILE))
    record = f'{{"format": 1, "pid": 1, "address": "unix:{private / SOCKET_FILE}"}}'
    (folder / OWNER_FILE).write_text(record)
    with stele.open(folder), stele.open(folder) as attached:
        assert attached.tables() == []
        assert not private.exists()


@pytest.mark.parametrize("text", ["", "no json", "{}", '{"format": 1}'])
def test_an_owner_file_that_says_nothing_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / OWNER_FILE).write_text(text)
    assert read_owner(PosixFileSystem(tmp_path)) is None


def test_an_owner_of_a_newer_format_is_not_misread(tmp_path: Path) -> None:
    newer = '{"format": 2, "pids": [1, 2]}'
    with stele.open(tmp_path):
        (tmp_path / OWNER_FILE).write_text(newer)
        with pytest.raises(UnsupportedFormat, match="format 2, this program knows 1"):
            stele.open(tmp_path)
    (tmp_path / OWNER_FILE).write_text(newer)
    with stele.open(tmp_path), stele.open(tmp_path) as attached:  # that owner is gone
        assert attached.tables() == []


def test_attaching_can_be_refused(tmp_path: Path) -> None:
    with stele.open(tmp_path), pytest.raises(DirectoryInUse, match="open already"):
        stele.open(tmp_path, attach=False)
    stele.open(tmp_path, attach=False).close()


def test_a_visitor_that_serves_nobody_is_waited_for_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "OPEN_WAIT_US", 100_000)
    with (
        open_database(str(tmp_path), serve=False),
        pytest.raises(DirectoryInUse, match="attaching to it did not work"),
    ):
        stele.open(tmp_path)


def test_locations_say_what_became_of_an_owner(tmp_path: Path) -> None:
    location = OwnerLocation(str(tmp_path))
    with pytest.raises(Unavailable, match="has closed it: open it again"):
        location.address()
    server = OwnerServer(str(tmp_path), ModelBackend())
    assert location.address() == server.address
    error = location.explain(Unavailable("refused"))
    assert f"process {os.getpid()}" in str(error)
    assert "does not answer any more" in str(error)
    server.close()
    assert "has closed it" in str(location.explain(Unavailable("refused")))


def test_an_owner_that_cannot_listen_is_an_owner_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_self: Server, _address: str) -> str:
        raise Unavailable("no sockets here")

    monkeypatch.setattr(Server, "listen", refuse)
    with stele.open(tmp_path) as db:
        assert db.tables() == []
        assert not (tmp_path / OWNER_FILE).exists()
    assert "cannot attach" in caplog.text


def test_closing_an_attached_database_leaves_the_owner(tmp_path: Path) -> None:
    with stele.open(tmp_path) as owner:
        table = owner.create_table("t")
        attached = stele.open(tmp_path)
        far = attached.table("t")
        far.put(b"a", {"f:q": b"1"})
        attached.close()
        attached.close()
        with pytest.raises(StaleHandle):
            far.get(b"a")
        assert table.get(b"a") is not None


def test_an_owner_that_closes_is_succeeded_by_whoever_comes_first(tmp_path: Path) -> None:
    owner = stele.open(tmp_path)
    owner.create_table("t").put(b"a", {"f:q": b"1"})
    attached = stele.open(tmp_path)
    far = attached.table("t")
    owner.close()
    with pytest.raises(Unavailable, match="has closed it"):
        far.get(b"a", timeout=10)
    with stele.open(tmp_path) as next_owner:
        assert next_owner.table("t").get(b"a") is not None
        # The one that was attached finds the new owner by itself.
        assert far.put(b"b", {"f:q": b"2"})
        assert [row.key for row in next_owner.table("t").scan()] == [b"a", b"b"]
    attached.close()
