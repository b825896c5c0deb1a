"""A handle knows the process it was opened in."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest

from stele.errors import StaleHandle
from stele.rpc.fork import ForkGuard, stays_with_parent


def in_child(verdict: Callable[[], bool]) -> int:
    """Fork, let the child judge, and return its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 2
        try:
            status = 0 if verdict() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_parent_keeps_its_handle() -> None:
    guard = ForkGuard("the thing")
    assert in_child(lambda: True) == 0
    guard.check()
    assert not guard.inherited


def test_the_child_is_refused_with_advice() -> None:
    guard = ForkGuard("the thing")

    def judge() -> bool:
        with pytest.raises(StaleHandle, match=r"the thing.*open a new one here"):
            guard.check()
        return guard.inherited

    assert in_child(judge) == 0


def test_what_the_child_opens_is_its_own() -> None:
    def judge() -> bool:
        guard = ForkGuard("mine")
        guard.check()
        return not guard.inherited

    assert in_child(judge) == 0


def test_a_socket_ends_with_the_parent_though_a_child_lives_on() -> None:
    mine, other = socket.socketpair()
    stays_with_parent(mine)
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(tell)
        os.read(told, 1)  # lives on until the parent has looked
        os._exit(0)
    mine.close()
    other.settimeout(10)
    assert other.recv(1) == b""  # the end, although the child has not gone
    os.close(tell)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(told)
    other.close()


def test_the_childs_descriptor_stays_taken() -> None:
    mine, other = socket.socketpair()
    stays_with_parent(mine)

    def judge() -> bool:
        return os.fstat(mine.fileno()).st_rdev == os.stat(os.devnull).st_rdev

    assert in_child(judge) == 0
    other.sendall(b"x")
    assert mine.recv(1) == b"x"
    mine.close()
    other.close()
