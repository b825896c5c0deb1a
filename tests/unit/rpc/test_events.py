"""Events are values; a call starts without credit, unanswered."""

from __future__ import annotations

import pytest

from stele.errors import Unavailable
from stele.rpc import wire_format as wire
from stele.rpc.events import NO_DEADLINE, Call, Closed, Item


def test_a_new_call_has_neither_credit_nor_answer() -> None:
    call = Call(wire.OPEN, 1, 0x0101, b"", (), None, NO_DEADLINE, 32)
    assert (call.credit, call.items_sent, call.answered, call.context) == (0, 0, False, None)


def test_what_happened_does_not_change() -> None:
    item = Item("context", b"body", (), 36)
    with pytest.raises(AttributeError):
        item.weight = 0  # type: ignore[misc]
    error = Unavailable("x")
    assert Closed(error).error is error
