"""The client of a metastore in this process."""

from __future__ import annotations

import signal

import pytest

from stele.metastore.embedded_client import _FOR_EVER_US, EmbeddedTransport
from tests.unit.metastore.embedded_support import Home


def test_sessions_of_this_process_last_as_long_as_it_does() -> None:
    home = Home()
    renewed: list[int] = []
    transport = EmbeddedTransport(home.node, home.clock)
    assert transport.addresses == ()
    let_go = transport.keep(7, 1, 1_000_000, renewed.append, lambda _error: None)
    assert renewed == [_FOR_EVER_US]
    assert home.node._kept == {7}
    let_go()
    assert home.node._kept == set()


def test_ctrl_c_in_a_watch_ends_that_watch_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home()
    home.ms.put("/w/a", b"1")
    watch = home.ms.watch("/w/", since=0)
    next(watch)
    lead = home.node._lead

    def interrupted() -> None:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        lead()

    monkeypatch.setattr(home.node, "_lead", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(watch)
    watch.close()
    home.ms.put("/w/b", b"2")
    again = home.ms.watch("/w/", since=0)
    assert [change.key for change in next(again).changes] == ["/w/a"]
    again.close()
