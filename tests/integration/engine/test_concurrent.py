"""Readers and writers at once, while files and tablets change under them: only whole snapshots.

Every commit writes the same number into rows of several tablets, so a snapshot that is not one cut
through all of them shows two different numbers.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from stele.client.backend import Visibility
from stele.cluster.embedded import EmbeddedBackend, open_embedded
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.real import SystemClock
from stele.errors import Conflict, InvalidArgument, StaleRow, Throttled
from stele.model.cells import Cell, batch_to_cells
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.row import RowCells
from stele.model.schema import Schema
from stele.tablet.compaction_policy import CompactionLimits
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.options import EngineOptions
from stele.tablet.split_policy import SizeLimits

OPTIONS = EngineOptions(
    flush=FlushLimits(memory_bytes=32 << 10, budget_bytes=512 << 10, log_bytes=128 << 10),
    compaction=CompactionLimits(sources_min=3),
    sizes=SizeLimits(split_bytes=24 << 10),
    log_file_bytes=32 << 10,
    cache_bytes=1 << 20,
)
ROUNDS = int(os.environ.get("STELE_CHAOS_ROUNDS", "120"))
"""Commits of each writer; everything else goes on for as long as they do."""
SEED = int(os.environ.get("STELE_CHAOS_SEED", "1"))
ROWS = tuple(b"%02d" % number for number in range(0, 60, 4))
WRITERS = 2
INCREMENTERS = 8
INCREMENTS = max(10, ROUNDS // 6)
PADDING = b"." * 40
GROUPINGS = (
    (Group("all", block_cells=256),),
    (Group("one", ["f"], block_cells=256), Group("rest", block_cells=256)),
)
RETRY_S = 0.002
PAUSE_S = 0.01
READS_MIN = 3
LAYOUT_CHANGES = ("split", "join", "regroup")
FILE_CHANGES = ("flush", "compact", "collect")
PATIENCE_US = 120_000_000
"""How long the workers go on for every kind of change to come; at rest they all come at once."""


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[EmbeddedBackend]:
    opened = open_embedded(str(tmp_path / "data"), OPTIONS)
    opened.create_table("t", Schema(GROUPINGS[0]), [b"12", b"24", b"36", b"48"])
    yield opened
    opened.close()


class Crowd:
    """Threads that stop together: when the workers have finished, or when anyone has failed."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.counts: Counter[str] = Counter()
        self._clock = SystemClock()
        self._deadline_us = self._clock.monotonic_us() + PATIENCE_US
        self._failures: list[BaseException] = []
        self._workers: list[threading.Thread] = []
        self._others: list[threading.Thread] = []

    def work(self, job: Callable[[], None]) -> None:
        """Something that ends by itself."""
        self._workers.append(threading.Thread(target=self._guarded, args=(job,)))

    def repeat(self, name: str, job: Callable[[], None]) -> None:
        """Something that goes on until the workers have finished."""

        def again() -> None:
            while not self.over.is_set():
                job()
                self.counts[name] += 1

        self._others.append(threading.Thread(target=self._guarded, args=(again,)))

    def lacks(self) -> list[str]:
        """Kinds of changes that have not happened yet."""
        return [name for name in (*LAYOUT_CHANGES, *FILE_CHANGES) if not self.counts[name]]

    def goes_on(self) -> bool:
        """Whether a worker that has done its work does more of it, so that changes meet it."""
        in_time = self._clock.monotonic_us() < self._deadline_us
        return in_time and bool(self.lacks()) and not self.over.is_set()

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            self._failures.append(failure)
            self.over.set()

    def run(self) -> None:
        for thread in (*self._others, *self._workers):
            thread.start()
        for thread in self._workers:
            thread.join()
        self.over.set()
        for thread in self._others:
            thread.join()
        print({"seed": SEED, **self.counts})
        if self._failures:
            raise self._failures[0]


def write(table: EmbeddedTable, batch: MutationBatch, max_txn: int | None = None) -> int:
    pause = threading.Event()
    while True:
        try:
            return table.apply(batch, max_txn=max_txn).wait()
        except Throttled:
            pause.wait(RETRY_S)


def same_everywhere(
    cells: list[Cell], rows: tuple[bytes, ...] = ROWS
) -> dict[tuple[str, bytes], int]:
    """What each column holds; all rows have to agree, and to be there if one is."""
    found: dict[tuple[str, bytes], dict[bytes, int]] = {}
    for cell in cells:
        number = int(cell.value.partition(b" ")[0])
        found.setdefault((cell.family, cell.qualifier), {})[cell.row] = number
    for column, numbers in found.items():
        assert sorted(numbers) == sorted(rows), f"{column} is in {sorted(numbers)} only"
        assert len(set(numbers.values())) == 1, f"{column} is torn: {numbers}"
    return {column: next(iter(numbers.values())) for column, numbers in found.items()}


def row_cells(found: RowCells | None) -> list[Cell]:
    if found is None:
        return []
    return batch_to_cells(found) if isinstance(found, pa.RecordBatch) else list(found.cells())


def scanned(table: EmbeddedTable, **spec: object) -> list[Cell]:
    stream = table.scan(ScanSpec(**spec))  # type: ignore[arg-type]
    return [cell for batch in stream for cell in batch_to_cells(batch)]


class Writer:
    """Writes one number after the other into all rows, an erasure of the last one before it."""

    def __init__(self, crowd: Crowd, table: EmbeddedTable, qualifier: bytes):
        self._crowd = crowd
        self._table = table
        self.qualifier = qualifier
        self.acknowledged: list[tuple[int, int]] = []
        """Txns and numbers."""

    def run(self) -> None:
        while len(self.acknowledged) < ROUNDS or self._crowd.goes_on():
            number = len(self.acknowledged) + 1
            batch = MutationBatch()
            for row in ROWS:
                for family in ("f", "g"):
                    batch.erase_column(row, family, self.qualifier)
                    batch.put(row, family, self.qualifier, b"%d " % number + PADDING)
            self.acknowledged.append((write(self._table, batch), number))

    def at(self, txn: int) -> int:
        """What was written last by some txn, of what is acknowledged now."""
        return max((number for when, number in self.acknowledged if when <= txn), default=0)


def add_maintenance(crowd: Crowd, backend: EmbeddedBackend, table: EmbeddedTable) -> None:
    """Two operators who change everything that can be changed without changing a cell."""

    def maintain(dice: random.Random, names: tuple[str, ...]) -> None:
        row = b"%02d" % dice.randrange(60)
        actions: dict[str, Callable[[], object]] = {
            "flush": table.flush,
            "compact": table.compact,
            "split": lambda: table.split(row),
            "join": lambda: table.join(dice.choice([t.rows.start for t in table.tablets()][1:])),
            "regroup": lambda: regroup(backend, table),
            "collect": backend.store.collect_garbage,
        }
        name = dice.choice([name for name in names if name in crowd.lacks()] or names)
        try:
            actions[name]()
            crowd.counts[name] += 1
        except (Conflict, InvalidArgument, IndexError):
            crowd.counts["collisions"] += 1  # the border was changed by somebody else meanwhile

    first, second = random.Random(SEED), random.Random(SEED + 1)
    crowd.repeat("layout changes", lambda: maintain(first, LAYOUT_CHANGES))
    crowd.repeat("file changes", lambda: maintain(second, FILE_CHANGES))


def regroup(backend: EmbeddedBackend, table: EmbeddedTable) -> None:
    schema = table.schema
    groups = GROUPINGS[len(schema.groups) % len(GROUPINGS)]
    backend.alter_table("t", schema.replace(groups=groups, version=schema.version + 1))


class Checker:
    """Judges the answers of readers: whole cuts, which never go back for one reader."""

    def __init__(self, writers: list[Writer]):
        self._writers = writers
        self._local = threading.local()

    def check(self, cells: list[Cell], txn: int) -> None:
        columns = same_everywhere(cells)
        last: dict[tuple[str, bytes], int] = getattr(self._local, "columns", {})
        assert not last.keys() - columns.keys(), "a column was there and is gone"
        for column, number in columns.items():
            assert number >= last.get(column, 0), "a read went back in time"
        self._local.columns = columns
        for writer in self._writers:
            number = columns.get(("f", writer.qualifier), 0)
            assert columns.get(("g", writer.qualifier), 0) == number, "half a commit"
            assert number >= writer.at(txn), "an acknowledged commit is not in the snapshot"


def test_readers_see_one_cut_through_all_tablets(backend: EmbeddedBackend) -> None:
    table = backend.table("t")
    crowd = Crowd()
    writers = [Writer(crowd, table, b"w%d" % number) for number in range(WRITERS)]
    for writer in writers:
        crowd.work(writer.run)
    add_maintenance(crowd, backend, table)
    checker = Checker(writers)

    def by_scan(*, reverse: bool) -> None:
        stream = table.scan(ScanSpec(reverse=reverse))
        checker.check([cell for batch in stream for cell in batch_to_cells(batch)], stream.txn)

    def by_many() -> None:
        batch, txn = table.read_rows(ReadSpec(rows=ROWS))
        checker.check(batch_to_cells(batch), txn)

    def by_gets() -> None:
        txn = table.durable_txn()
        found = [table.read_row(row, CellSpec(at=txn))[0] for row in ROWS]
        checker.check([cell for row in found for cell in row_cells(row)], txn)

    crowd.repeat("scans", lambda: by_scan(reverse=False))
    crowd.repeat("reverse scans", lambda: by_scan(reverse=True))
    crowd.repeat("multi-gets", by_many)
    crowd.repeat("gets", by_gets)
    crowd.run()
    assert same_everywhere(scanned(table)) == {
        (family, writer.qualifier): len(writer.acknowledged)
        for family in ("f", "g")
        for writer in writers
    }
    for name in ("scans", "reverse scans", "multi-gets", "gets"):
        assert crowd.counts[name] >= READS_MIN
    check_maintained(crowd)


def check_maintained(crowd: Crowd) -> None:
    """It would be easy to be right if nothing had happened meanwhile."""
    assert not crowd.lacks(), f"these never happened: {crowd.lacks()}, only {crowd.counts}"


def test_a_scan_left_open_gives_exactly_its_snapshot(backend: EmbeddedBackend) -> None:
    table = backend.table("t")
    crowd = Crowd()
    writer = Writer(crowd, table, b"w")
    crowd.work(writer.run)
    add_maintenance(crowd, backend, table)
    dice = random.Random(SEED)
    pause = threading.Event()

    def dawdle() -> None:
        """Take a long time over a scan, then ask for the same moment in another way."""
        stream = table.scan(ScanSpec(versions=None, reverse=dice.random() < 0.5))
        given: list[Cell] = []
        for batch in stream:
            given += batch_to_cells(batch)
            pause.wait(dice.random() * PAUSE_S)
        same_everywhere(given)
        again, _ = table.read_rows(ReadSpec(rows=ROWS, at=stream.txn, versions=None))
        assert sorted(given, key=Cell.key) == batch_to_cells(again)

    crowd.repeat("slow scans", dawdle)
    crowd.repeat("slow scans of another", dawdle)
    crowd.run()
    assert crowd.counts["slow scans"] >= 2
    check_maintained(crowd)


def test_increments_from_many_threads_lose_nothing(backend: EmbeddedBackend) -> None:
    table = backend.table("t")
    crowd = Crowd()

    def increment() -> None:
        """Read the latest state, write on condition that it is still the latest."""
        while True:
            found, read_at = table.read_row(b"24", CellSpec(), Visibility.LATEST)
            cells = [cell for cell in row_cells(found) if cell.qualifier == b"n"]
            batch = MutationBatch()
            batch.put(b"24", "f", b"n", b"%d" % (int(cells[0].value) + 1 if cells else 1))
            try:
                write(table, batch, max_txn=read_at)
                return
            except StaleRow:
                crowd.counts["conflicts"] += 1

    done: list[int] = []

    def work() -> None:
        mine = 0
        while mine < INCREMENTS or crowd.goes_on():
            increment()
            mine += 1
        done.append(mine)

    for _ in range(INCREMENTERS):
        crowd.work(work)
    add_maintenance(crowd, backend, table)
    crowd.run()
    (counter,) = scanned(table)
    assert int(counter.value) == sum(done)
    history = scanned(table, versions=None)
    assert [int(cell.value) for cell in history] == list(range(sum(done), 0, -1))
    check_maintained(crowd)
