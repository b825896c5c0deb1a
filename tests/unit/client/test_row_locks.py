"""Callers of one row queue; nobody waits beyond the deadline."""

from __future__ import annotations

import pytest

from stele.client.row_locks import RowLocks
from stele.client.waiting import ClientWorld
from stele.env.real import SystemClock, SystemRandom
from stele.errors import DeadlineExceeded

WORLD = ClientWorld(SystemClock(), SystemRandom())


def test_a_held_row_is_waited_for_until_the_deadline() -> None:
    locks = RowLocks(stripes=1)
    with (
        locks.hold(b"a", WORLD.deadline()),
        pytest.raises(DeadlineExceeded, match="b'b'"),
        locks.hold(b"b", WORLD.deadline(0)),
    ):
        pass
    with locks.hold(b"b", WORLD.deadline(0)):
        assert True


def test_a_lock_is_let_go_after_an_error() -> None:
    locks = RowLocks(stripes=1)
    with pytest.raises(ZeroDivisionError), locks.hold(b"a", WORLD.deadline("1000000d")):
        raise ZeroDivisionError
    with locks.hold(b"a", WORLD.deadline(0)):
        assert True
