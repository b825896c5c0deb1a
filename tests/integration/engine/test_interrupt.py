"""Ctrl-C in the middle of anything: the program hears of it, and the database goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import stele
from stele.client.table import Table
from stele.errors import AlreadyExists

ROUNDS = 15
"""Interrupts for each kind of work, at moments that no two rounds share."""

Work = Callable[[Table, int], None]


def put(table: Table, number: int) -> None:
    table.put(b"p%d" % number, {"f:q": b"1"})


def increment(table: Table, _number: int) -> None:
    table.increment(b"counter", "f:c")


def flush(table: Table, number: int) -> None:
    put(table, number)
    table.flush()


def compact(table: Table, number: int) -> None:
    put(table, number)
    table.compact()


def split(table: Table, _number: int) -> None:
    table.split(b"m")
    table.join(b"m")


def snapshot(table: Table, number: int) -> None:
    table.snapshot(f"s{number}")
    table.drop_snapshot(f"s{number}")


WORK: tuple[Work, ...] = (put, increment, flush, compact, split, snapshot)


@pytest.mark.parametrize("work", WORK)
def test_an_interrupt_ends_the_work_and_nothing_else(work: Work, tmp_path: Path) -> None:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("t")
        for round_number in range(ROUNDS):
            delay_s = 0.003 + 0.0017 * round_number
            timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                until_interrupted(work, table, timer)
            table.put(b"after", {"f:q": b"%d" % round_number})
        assert db.status()["error"] is None
        assert table.get(b"after")["f:q"] == b"%d" % (ROUNDS - 1)  # type: ignore[index]


def until_interrupted(work: Work, table: Table, timer: threading.Timer) -> None:
    timer.start()
    number = 0
    while True:
        with suppress(AlreadyExists):  # the name of a snapshot that an interrupt has left
            work(table, number)
        number += 1


def test_an_interrupted_close_has_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = stele.open(tmp_path / "db")
    db.create_table("t").put(b"a", {"f:q": b"1"})
    backend_close = type(db._backend).close

    def interrupted_close(backend: object) -> None:
        signal.raise_signal(signal.SIGINT)
        backend_close(backend)  # type: ignore[arg-type]

    monkeypatch.setattr(type(db._backend), "close", interrupted_close)
    with pytest.raises(KeyboardInterrupt):
        db.close()
    monkeypatch.undo()
    db.close()
    with stele.open(tmp_path / "db", attach=False) as again:
        assert again.table("t").scan().count() == 1
