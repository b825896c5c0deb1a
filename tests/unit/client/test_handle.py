"""A handle ends with its database, and does not survive a fork."""

from __future__ import annotations

import copy
import os
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import stele
from stele.client.handle import Handle
from stele.errors import InvalidArgument, StaleHandle


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


def test_what_is_open_cannot_be_sent_away(tmp_path: Path) -> None:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("t")
        table.put(b"a", {"f:q": b"1"})
        for opened in (db, table, table.scan()):
            for send in (ForkingPickler.dumps, copy.deepcopy):
                with pytest.raises(InvalidArgument, match=r"give the other one its path"):
                    send(opened)
        assert copy.deepcopy(table.get(b"a")) == table.get(b"a")
        assert str(tmp_path / "db") in repr(db)
        assert repr(table.scan(limit=3)).startswith("Scan('t', {")
    assert repr(db).endswith(", closed>")
