"""A handle ends with its database, and does not survive a fork."""

from __future__ import annotations

import os

import pytest

from stele.client.handle import Handle
from stele.errors import StaleHandle


def test_a_closed_handle_is_refused() -> None:
    handle = Handle("the database in x")
    handle.check()
    handle.closed = True
    with pytest.raises(StaleHandle, match="closed"):
        handle.check()


def test_a_handle_does_not_survive_a_fork() -> None:
    handle = Handle("the database in x")
    child = os.fork()
    if not child:
        try:
            handle.check()
        except StaleHandle as error:
            os._exit(42 if "the database in x" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    handle.check()
