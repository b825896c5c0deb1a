"""A store whose memory is full: writers wait in turn, from threads, coroutines and processes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import stele
import stele.aio
from stele.client.database import Database
from stele.client.table import Table
from stele.errors import StaleHandle, SteleError, Throttled
from stele.model.mutations import MutationBatch
from stele.storage.admission_line import AdmissionLine
from stele.tablet.engine import Engine
from tests.integration.attach.processes import process

LIMITS = stele.FlushLimits(memory_bytes=64 << 10, budget_bytes=256 << 10)
SMALL = {"f:q": bytes(2_000)}
OVERSIZED = {"f:q": bytes(400 << 10)}

ATTACHED = """
db = stele.open(path)
table = db.table("t")
try:
    table.put(b"early", {"f:q": bytes(2_000)}, timeout=1)
except SteleError as error:
    say(type(error).__name__)
say(table.put(b"attached", {"f:q": bytes(400 << 10)}) > 0)
db.close()
"""


def engine_of(db: Database) -> Engine:
    engine: Engine = db._backend.store.user  # type: ignore[attr-defined]
    return engine


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        threading.Event().wait(0.001)


def filling() -> MutationBatch:
    """As large as a small put, so none fits when this does not."""
    batch = MutationBatch()
    batch.put(b"x", "f", b"q", SMALL["f:q"])
    return batch


@contextmanager
def full(path: Path) -> Iterator[tuple[Database, Table, AdmissionLine]]:
    """A store without room that flushes nothing by itself."""
    options = stele.EngineOptions(flush=LIMITS, background=False)
    with stele.open(path / "db", options) as db:
        table = db.create_table("t")
        with suppress(Throttled):
            while True:
                table.core.backend.apply(filling()).wait()
        yield db, table, engine_of(db).admissions


def is_empty(line: AdmissionLine) -> bool:
    return not line.budget.waiting and not line.budget.used_bytes


class Writer(threading.Thread):
    """Puts one row, and remembers how that ended."""

    def __init__(self, table: Table, row: bytes, values: dict[str, bytes]) -> None:
        super().__init__()
        self.error: SteleError | None = None
        self._table, self._row, self._values = table, row, values
        self.start()

    def run(self) -> None:
        try:
            self._table.put(self._row, self._values)
        except SteleError as error:
            self.error = error

    def ended(self) -> SteleError | None:
        self.join()
        return self.error


def test_an_oversized_put_is_admitted_while_others_put_all_the_time(tmp_path: Path) -> None:
    over = threading.Event()
    with stele.open(tmp_path / "db", stele.EngineOptions(flush=LIMITS)) as db:
        busy, large = db.create_table("busy"), db.create_table("large")

        def write_on(writer: int) -> None:
            number = 0
            while not over.is_set():
                busy.put(b"%d-%d" % (writer, number % 1_000), SMALL)
                number += 1

        threads = [threading.Thread(target=write_on, args=(writer,)) for writer in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(3):
                large.put(b"%d" % number, OVERSIZED)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert large.scan().count() == 3
        assert is_empty(engine_of(db).admissions)


def test_threads_wait_in_turn_until_memory_goes(tmp_path: Path) -> None:
    with full(tmp_path) as (_, table, line):
        large = Writer(table, b"large", OVERSIZED)
        until(lambda: line.budget.waiting == 1)
        small = Writer(table, b"small", SMALL)
        until(lambda: line.budget.waiting == 2)
        table.flush()
        assert large.ended() is None
        assert small.is_alive(), "the large one fills all memory again"
        table.flush()
        assert small.ended() is None
        assert is_empty(line)


def test_who_waits_too_long_is_refused_and_holds_nobody_up(tmp_path: Path) -> None:
    with full(tmp_path) as (_, table, line):
        with pytest.raises(Throttled, match="not flushed yet"):
            table.put(b"large", OVERSIZED, timeout=0.05)
        assert is_empty(line)
        small = Writer(table, b"small", SMALL)
        until(lambda: line.budget.waiting == 1)
        with pytest.raises(Throttled, match="others wait already"):
            table.put(b"large", OVERSIZED, timeout=0)
        table.flush()
        assert small.ended() is None


def test_a_batch_waits_like_a_put(tmp_path: Path) -> None:
    with full(tmp_path) as (_, table, line):

        def make_room() -> None:
            until(lambda: line.budget.waiting == 1)
            table.flush()

        flusher = threading.Thread(target=make_room)
        flusher.start()
        with table.batch() as batch:
            batch.put(b"batched", SMALL)
        flusher.join()
        assert table.get(b"batched") is not None


def test_batches_that_fill_memory_faster_than_they_are_waited_for_end(tmp_path: Path) -> None:
    limits = stele.FlushLimits(memory_bytes=1 << 20, budget_bytes=4 << 20)
    with stele.open(tmp_path / "db", stele.EngineOptions(flush=limits)) as db:
        table = db.create_table("t")

        def write(writer: int) -> None:
            with table.batch() as batch:
                for number in range(4_000):
                    batch.put(b"%d-%d" % (writer, number), SMALL)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert table.scan().count() == 12_000


def test_closing_ends_all_waiting(tmp_path: Path) -> None:
    with full(tmp_path) as (db, table, line):
        waiting = [Writer(table, b"%d" % number, SMALL) for number in range(3)]
        until(lambda: line.budget.waiting == 3)
        db.close()
        assert [type(writer.ended()) for writer in waiting] == [StaleHandle] * 3


def test_an_interrupt_ends_the_waiting_and_leaves_nobody_in_the_line(tmp_path: Path) -> None:
    with full(tmp_path) as (_, table, line):

        def interrupt() -> None:
            until(lambda: line.budget.waiting == 1)
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            table.put(b"large", OVERSIZED)
        interrupting.join()
        assert is_empty(line)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        table.flush()
        table.put(b"small", SMALL)
        assert table.get(b"large") is None


async def test_coroutines_wait_without_a_thread_and_may_be_cancelled(tmp_path: Path) -> None:
    options = stele.EngineOptions(flush=LIMITS, background=False)
    async with await stele.aio.open(tmp_path / "db", options) as db:
        table = await db.create_table("t")
        await table.put(b"first", OVERSIZED)
        line = table._core.backend._engine.admissions  # type: ignore[attr-defined]
        with pytest.raises(Throttled):
            await table.put(b"late", SMALL, timeout=0.05)
        before = set(threading.enumerate())
        tasks = [asyncio.ensure_future(table.put(b"%d" % n, SMALL)) for n in range(20)]
        while line.budget.waiting < 20:
            await asyncio.sleep(0)
        assert set(threading.enumerate()) <= before, "nobody blocks a thread for it"
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        await table.flush()
        assert len(await asyncio.gather(*tasks[1:])) == 19
        assert await table.get(b"0") is None
        assert is_empty(line)


def test_an_attached_process_waits_in_the_same_line(tmp_path: Path) -> None:
    with full(tmp_path) as (_, table, line), process(ATTACHED, tmp_path / "db") as attached:
        assert attached.answer() == ["Throttled"]
        until(lambda: line.budget.waiting == 1)
        mine = Writer(table, b"mine", SMALL)
        until(lambda: line.budget.waiting == 2)
        table.flush()
        assert attached.answer() == ["True"]
        table.flush()
        assert mine.ended() is None
        assert is_empty(line)
        assert attached.end() == 0
