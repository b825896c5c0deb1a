"""Reads and imports that are being decided: waiting, going on, giving up."""

from __future__ import annotations

import threading

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.errors import DeadlineExceeded, StorageFailed, Unavailable
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.tablet.import_gate import (
    await_import,
    import_stuck,
    number_import,
    settle_import,
)
from tests.unit.tablet.engine_support import ONE_GROUP, get, memory_world, open_backend, put

NO_TIME_US = 1_000
LONG_US = 60_000_000


def new_table() -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", ONE_GROUP, [b"m"])


def test_reads_wait_for_the_outcome_and_old_snapshots_do_not() -> None:
    backend, table = new_table()
    before = put(table, b"a", b"old")
    engine, state = backend.store.user, table._state
    undecided = number_import(engine, state, "job")
    assert get(table, b"a", at=before)[0].value == b"old"
    answers: list[int] = []
    reader = threading.Thread(target=lambda: answers.append(len(get(table, b"a"))))
    reader.start()
    reader.join(0.05)
    assert reader.is_alive(), "an answer at a txn that is not decided"
    settle_import(engine, state)
    reader.join()
    assert answers == [1]
    assert undecided <= table.durable_txn()


def test_a_read_without_time_left_is_told_that_nothing_is_decided() -> None:
    backend, table = new_table()
    before = put(table, b"a")
    engine, state = backend.store.user, table._state
    undecided = number_import(engine, state, "job")
    hurried = table.within(NO_TIME_US)
    for read in (
        lambda: hurried.read_row(b"a", CellSpec()),
        lambda: hurried.read_rows(ReadSpec(rows=(b"a",))),
        lambda: next(hurried.scan(ScanSpec())),
    ):
        with pytest.raises(DeadlineExceeded, match=f"{NO_TIME_US} µs"):
            read()
    assert hurried.read_row(b"a", CellSpec(at=before))[0] is not None
    settle_import(engine, state)
    await_import(engine, state, undecided, NO_TIME_US)
    assert hurried.read_row(b"a", CellSpec())[0] is not None


def test_who_waits_hears_why_the_outcome_cannot_be_shown() -> None:
    backend, table = new_table()
    engine, state = backend.store.user, table._state
    undecided = number_import(engine, state, "job")
    heard: list[str] = []

    def wait() -> None:
        try:
            await_import(engine, state, undecided, LONG_US)
        except Unavailable as error:
            heard.append(str(error))

    reader = threading.Thread(target=wait)
    reader.start()
    import_stuck(engine, state, StorageFailed("the disk is gone"))
    reader.join()
    assert len(heard) == 1
    assert "the disk is gone" in heard[0]
    settle_import(engine, state)
    await_import(engine, state, undecided, NO_TIME_US)
