"""Sockets are bound where they may be, privately, and say who is at the other end."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from stele.errors import AlreadyExists, InvalidArgument, Unauthenticated
from stele.rpc.addresses import TcpAddress, UnixAddress
from stele.rpc.identity import Proof
from stele.rpc.listening import bind_tcp, bind_unix, proof_of, set_no_delay, unlink

LOOPBACK = TcpAddress("127.0.0.1", 0)


def test_a_port_is_chosen_and_taken() -> None:
    bound, address = bind_tcp(LOOPBACK, has_tls=False)
    with bound:
        assert isinstance(address, TcpAddress)
        assert address.port > 0
        bound.listen()
        with pytest.raises(AlreadyExists, match=str(address)):
            bind_tcp(address, has_tls=False)


def test_other_machines_are_served_with_tls_only() -> None:
    everywhere = TcpAddress("0.0.0.0", 0)
    with pytest.raises(InvalidArgument, match="without TLS"):
        bind_tcp(everywhere, has_tls=False)
    bound, _ = bind_tcp(everywhere, has_tls=True)
    bound.close()


def test_an_address_of_another_machine_cannot_be_bound() -> None:
    with pytest.raises(InvalidArgument, match=r"192\.0\.2\.1"):
        bind_tcp(TcpAddress("192.0.2.1", 0), has_tls=True)


def test_a_socket_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with bind_unix(UnixAddress(str(path))):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    unlink(str(path))
    unlink(str(path))
    assert not path.exists()


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "s"))
    bind_unix(address).close()
    with bind_unix(address) as bound:
        bound.listen()
        with pytest.raises(AlreadyExists):
            bind_unix(address)


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(AlreadyExists):
        bind_unix(UnixAddress(str(path)))
    assert path.read_text() == "mine"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="nowhere"):
        bind_unix(UnixAddress(f"{tmp_path}/nowhere/s"))


def test_the_kernel_vouches_on_unix_sockets_only(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert proof_of(one, UnixAddress("x")) is Proof.KERNEL
        assert proof_of(one, LOOPBACK) is Proof.CLAIM
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
        monkeypatch.setattr("stele.rpc.listening.ROOT_UID", 54322)
        with pytest.raises(Unauthenticated, match="user"):
            proof_of(one, UnixAddress("x"))


def test_small_writes_are_not_held_back() -> None:
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as local:
        set_no_delay(tcp)
        set_no_delay(local)
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
