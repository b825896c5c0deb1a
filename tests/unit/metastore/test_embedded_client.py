"""The client of a metastore in this process."""

from __future__ import annotations

import signal

import pytest

from stele.metastore.embedded import EmbeddedNode
from tests.unit.metastore.embedded_support import Home


def test_it_has_no_address_and_keeps_its_sessions() -> None:
    home = Home()
    home.ms.put("/a", b"1")
    found = home.ms.get("/a")
    assert found is not None
    assert found.value == b"1"


def test_ctrl_c_in_a_watch_ends_that_watch_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home()
    home.ms.put("/w/a", b"1")
    watch = home.ms.watch("/w/", since=0)
    next(watch)
    lead = EmbeddedNode._lead

    def interrupted(node: EmbeddedNode) -> None:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        lead(node)

    monkeypatch.setattr(EmbeddedNode, "_lead", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(watch)
    watch.close()
    home.ms.put("/w/b", b"2")
    again = home.ms.watch("/w/", since=0)
    assert [change.key for change in next(again).changes] == ["/w/a"]
    again.close()
