"""A handle knows the process it was opened in."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from stele.errors import StaleHandle
from stele.rpc.fork import ForkGuard


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
