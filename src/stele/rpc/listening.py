"""Sockets to listen at, and what the kernel says of who is at the other end of one."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from typing import Final

from stele.errors import AlreadyExists, InvalidArgument, SteleError, Unauthenticated
from stele.rpc.addresses import Address, TcpAddress, UnixAddress, check_plaintext
from stele.rpc.identity import Proof

ROOT_UID: Final = 0

_UCRED: Final = struct.Struct("3i")


def bind_tcp(address: TcpAddress, has_tls: bool) -> tuple[socket.socket, Address]:
    """A bound socket, and its address with the port that was chosen."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:  # of a name with impossible parts
        raise InvalidArgument(f"cannot listen at {address}: {error}") from error
    if not has_tls:
        check_plaintext(address, [str(info[4][0]) for info in found], "listen at")
    family, _, _, _, target = found[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(target)
    except OSError as error:
        listening.close()
        raise _refusal(address, error) from error
    return listening, TcpAddress(address.host, listening.getsockname()[1])


def bind_unix(address: UnixAddress) -> socket.socket:
    """A socket file that only its owner can open, in place of one that nobody serves."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_abandoned(address.path):
            unlink(address.path)
        listening.bind(address.path)
        os.chmod(address.path, stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        listening.close()
        raise _refusal(address, error) from error
    return listening


def _refusal(address: Address, error: OSError) -> SteleError:
    text = f"cannot listen at {address}: {error.strerror}"
    return AlreadyExists(text) if error.errno == errno.EADDRINUSE else InvalidArgument(text)


def _is_abandoned(path: str) -> bool:
    """Whether a path is a socket that its server left behind."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def proof_of(sock: socket.socket, address: Address) -> Proof:
    """On a Unix socket the kernel names the peer's user; it must be ours, or root."""
    if not isinstance(address, UnixAddress):
        return Proof.CLAIM
    _, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid not in (os.geteuid(), ROOT_UID):
        raise Unauthenticated(f"user {uid} is at the other end of {address}")
    return Proof.KERNEL


def set_no_delay(sock: socket.socket) -> None:
    """Writes are gathered here already; the kernel must not hold them back again."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def unlink(path: str) -> None:
    """Remove a socket file, if it is still there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
