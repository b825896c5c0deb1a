"""One table of an embedded store (T16, T17, T22, T26, T51, T52, T92)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count
from pathlib import Path

import pytest

from stele.cluster.embedded import EmbeddedBackend, open_embedded
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.failpoints import armed
from stele.env.memory import MemoryClock
from stele.errors import (
    AlreadyExists,
    ClockSkew,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    SnapshotTooOld,
    StaleRow,
)
from stele.model.cells import Cell
from stele.model.groups import Group
from stele.model.limits import SNAPSHOT_NAME_BYTES_MAX
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.tablet.active_reads import Hold
from stele.tablet.compaction_policy import CompactionLimits
from stele.tablet.config_writer import BEFORE_PUBLISH, BEFORE_SAVE
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.options import EngineOptions
from stele.tablet.split_policy import SizeLimits
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    config_of,
    erase_row,
    get,
    get_many,
    memory_world,
    open_backend,
    put,
    puts,
    reopened,
    scan,
    values,
)

TRUNCATIONS = 12
NO_HISTORY = Schema([Group("all", block_cells=256)], history=0)


def new_table(
    schema: Schema = TWO_GROUPS, splits: tuple[bytes, ...] = ()
) -> tuple[EmbeddedBackend, EmbeddedTable, MemoryClock]:
    clock = MemoryClock()
    backend = open_backend(memory_world(clock=clock))
    return backend, backend.create_table("t", schema, splits), clock


def fill(table: EmbeddedTable, count: int = 1_000) -> None:
    batch = MutationBatch()
    for number in range(count):
        batch.put(b"row%05d" % number, "f", b"q", b"v")
    table.apply(batch).wait()


def test_t22_a_row_transaction() -> None:
    _, table, _ = new_table()
    put(table, b"a", b"1")
    _, txn = table.read_row(b"a", ScanSpec())
    put(table, b"a", b"2")
    with pytest.raises(StaleRow):
        table.apply(puts((b"a", "f", b"3")), max_txn=txn)
    assert values(table) == {(b"a", "f"): b"2"}


# Tablets.


def test_t16_splitting_and_joining_are_invisible_to_readers() -> None:
    backend, table, _ = new_table()
    fill(table)
    table.flush()
    before = scan(table)
    table.split(b"row00500")
    table.split(b"row00500")
    table.split(b"row00250x")
    assert [info.rows.start for info in table.tablets()] == [b"", b"row00250x", b"row00500"]
    assert scan(table) == before
    table.join(b"row00500")
    table.join(b"row00250x")
    assert len(table.tablets()) == 1
    assert scan(table) == before
    table.split(b"row00100")
    assert scan(reopened(backend).table("t")) == before


def test_t16_a_split_writes_no_data() -> None:
    backend, table, _ = new_table()
    fill(table)
    table.flush()
    files = {name for info in table.tablets() for name in info.details["files"]}
    table.split(b"row00500")
    assert {name for info in table.tablets() for name in info.details["files"]} == files
    assert all(info.details["protected"] == bool(info.rows.start) for info in table.tablets())
    assert backend.status()["tablets"] == 2


@pytest.mark.parametrize("row", [b"nobody", b"row00001"])
def test_t17_only_a_border_can_be_removed(row: bytes) -> None:
    _, table, _ = new_table(splits=(b"m",))
    with pytest.raises(InvalidArgument, match="no tablet of table 't' begins at row"):
        table.join(row)


def test_bad_rows_are_refused() -> None:
    _, table, _ = new_table()
    for bad in (b"", b"x" * 100_000):
        with pytest.raises((InvalidArgument, LimitExceeded)):
            table.split(bad)
        with pytest.raises((InvalidArgument, LimitExceeded)):
            table.join(bad)


def test_sample_keys_cut_the_table_evenly() -> None:
    _, table, _ = new_table()
    assert table.sample_keys(3) == []
    fill(table, 4_000)
    table.flush()
    keys = list(table.sample_keys(3))
    assert keys == sorted(set(keys))
    assert len(keys) == 3
    assert all(key in {each.row for each in scan(table)} for key in keys)
    with pytest.raises(InvalidArgument, match="at least 1, not 0"):
        table.sample_keys(0)


# Files.


def test_t92_a_flush_takes_everything_committed() -> None:
    _, table, _ = new_table()
    pending = table.apply(puts((b"a", "f", b"1")))
    table.flush()
    assert table.durable_txn() >= pending.txn
    assert table._state.memory.oldest_txn is None
    table.flush()
    assert sum(info.fragments for info in table.tablets()) == 1


def test_a_compaction_of_some_rows_leaves_other_tablets_alone() -> None:
    _, table, _ = new_table(NO_HISTORY, (b"row00500",))
    for _ in range(2):
        fill(table)
        table.flush()
    upper = config_of(table, b"row00900")
    table.compact(RowRange(b"", b"row00001"))
    assert len(config_of(table, b"row00001").references) == 1
    assert config_of(table, b"row00900") is upper


def test_truncating_removes_rows_and_their_history_and_later_writes_stay() -> None:
    backend, table, _ = new_table()
    fill(table, 100)
    before = table.durable_txn()
    table.truncate(RowRange(b"row00010", b"row00020"))
    assert len(scan(table)) == 90
    with pytest.raises(SnapshotTooOld):
        scan(table, at=before)
    put(table, b"row00015", b"new")
    assert [each.value for each in get(table, b"row00015")] == [b"new"]
    backend = reopened(backend)
    assert len(scan(backend.table("t"))) == 91
    backend.table("t").truncate()
    assert scan(reopened(backend).table("t")) == []


@pytest.mark.parametrize("place", [BEFORE_SAVE, BEFORE_PUBLISH])
def test_a_truncation_spares_what_is_written_meanwhile(place: str) -> None:
    backend, table, _ = new_table()
    fill(table, 10)
    state = backend.store.user.table(table.id)
    written: dict[bytes, int] = {}
    seen: dict[int, list[Cell]] = {}

    def meanwhile(_name: str) -> None:
        if state.changing_layout and not written:
            row = b"row00003"
            written[row] = put(table, row, b"meanwhile")
            seen[written[row]] = scan(table)
            backend.maintenance.flush(state)

    with armed(place, meanwhile):
        table.truncate()
    assert written
    assert [(each.row, each.value) for each in scan(table)] == [(b"row00003", b"meanwhile")]
    for txn, cells in seen.items():
        assert len(cells) == 10, "the cut was not shown yet"
        with pytest.raises(SnapshotTooOld):
            scan(table, at=txn)
        with pytest.raises(SnapshotTooOld):
            scan(reopened(backend).table("t"), at=txn)
    assert scan(table, at=table.durable_txn()) == scan(table)


def test_truncations_among_writers(tmp_path: Path) -> None:
    """What was acknowledged before a truncation is gone, what came after it is there."""
    small = EngineOptions(flush=FlushLimits(memory_bytes=4_000, budget_bytes=400_000))
    backend = open_embedded(str(tmp_path), small)
    table = backend.create_table("t", TWO_GROUPS, [b"row5"])
    failures: list[object] = []

    def write(number: int) -> None:
        for step in count():
            if stop.is_set():
                return
            row = b"row%d-%d" % (number, step % 20)
            txn = put(table, row, b"%d" % step)
            try:
                found = get(table, row, at=txn)
            except SnapshotTooOld:
                continue
            if [each.txn for each in found] != [txn]:
                failures.append((row, txn, found))

    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for step in range(TRUNCATIONS):
        last = put(table, b"row9-x", b"%d" % step)
        table.truncate()
        assert all(each.txn > last for each in scan(table))
        after = put(table, b"row9-y", b"%d" % step)
        assert [each.txn for each in get(table, b"row9-y")] == [after]
    stop.set()
    for writer in writers:
        writer.join()
    assert not failures
    backend.close()


# Time.


def test_reads_below_the_horizon_are_refused_in_a_sentence() -> None:
    _, table, clock = new_table(NO_HISTORY)
    before = put(table, b"a", b"1")
    put(table, b"a", b"2")
    clock.advance(10)
    table.compact()
    reads: list[Callable[[], object]] = [
        lambda: scan(table, at=before),
        lambda: get(table, b"a", at=before),
        lambda: get_many(table, [b"a"], at=before),
    ]
    for read in reads:
        with pytest.raises(SnapshotTooOld, match="its history begins at"):
            read()
    assert values(table) == {(b"a", "f"): b"2"}


def test_t50_a_scan_that_the_horizon_overtakes_at_its_start_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between taking a txn and holding it, a commit moves a row and a compaction forgets where."""
    backend, table, clock = new_table(NO_HISTORY)
    put(table, b"a", b"1")
    begin = backend.reads.begin
    moved: list[int] = []

    def begin_late(name: str, txn: int) -> Hold | None:
        if not moved:
            batch = MutationBatch()
            batch.erase_row(b"a")
            batch.put(b"b", "f", b"q", b"1")
            moved.append(table.apply(batch).wait())
            clock.advance(10)
            table.compact()
        return begin(name, txn)

    monkeypatch.setattr(backend.reads, "begin", begin_late)
    assert values(table) == {(b"b", "f"): b"1"}
    assert backend.reads.oldest(table.id) is None


def test_t52_a_read_in_the_near_future_is_complete_for_ever() -> None:
    _, table, clock = new_table()
    put(table, b"a", b"1")
    moment = clock.now_us() + 1_000
    assert values(table, at=moment) == {(b"a", "f"): b"1"}
    assert put(table, b"a", b"2") > moment
    assert values(table, at=moment) == {(b"a", "f"): b"1"}
    with pytest.raises(ClockSkew):
        values(table, at=moment + 3_600_000_000_000)


def test_a_snapshot_keeps_the_past_across_compactions_and_restarts() -> None:
    backend, table, clock = new_table(NO_HISTORY)
    put(table, b"a", b"1")
    txn = table.snapshot("before")
    assert table.snapshots() == {"before": txn}
    with pytest.raises(AlreadyExists, match="table 't' has a snapshot 'before' already"):
        table.snapshot("before")
    erase_row(table, b"a")
    clock.advance(10)
    table.compact()
    backend = reopened(backend)
    table = backend.table("t")
    assert table.snapshots() == {"before": txn}
    assert values(table, at=txn) == {(b"a", "f"): b"1"}
    table.drop_snapshot("before")
    clock.advance(10)
    table.compact()
    with pytest.raises(SnapshotTooOld):
        values(table, at=txn)
    with pytest.raises(NotFound, match="no snapshot 'before'"):
        table.drop_snapshot("before")


def test_the_name_of_a_snapshot_is_limited_whatever_it_is_made_of() -> None:
    _, table, _ = new_table()
    for letter in ("a", "%", "é"):
        longest = letter * (SNAPSHOT_NAME_BYTES_MAX // len(letter.encode()))
        table.snapshot(longest)
        with pytest.raises(LimitExceeded, match=f"snapshot, beginning '{letter}+', has 25[78] by"):
            table.snapshot(longest + letter)
    assert len(table.snapshots()) == 3


def test_snapshots_of_tables_do_not_mix() -> None:
    backend, table, _ = new_table()
    other = backend.create_table("u", TWO_GROUPS)
    table.snapshot("s")
    assert other.snapshots() == {}
    with pytest.raises(NotFound):
        other.drop_snapshot("s")
    other.snapshot("s")


# Threads.


BUSY = EngineOptions(
    flush=FlushLimits(memory_bytes=20_000, budget_bytes=400_000),
    compaction=CompactionLimits(sources_min=3),
    sizes=SizeLimits(split_bytes=1 << 40, join_ratio=0.0),
    log_file_bytes=16_384,
)


def test_readers_see_whole_commits_while_everything_else_goes_on(tmp_path: Path) -> None:
    """Every commit writes one number into all rows: a scan finds one, and never goes back."""
    backend = open_embedded(str(tmp_path / "data"), BUSY)
    table = backend.create_table("t", NO_HISTORY, [b"row00050"])
    rows = [b"row%05d" % number for number in range(100)]
    over = threading.Event()

    def write() -> None:
        for number in range(60):
            batch = MutationBatch()
            for row in rows:
                batch.put(row, "f", b"q", b"%08d" % number)
            table.apply(batch).wait()

    def read() -> None:
        last = b""
        while not over.is_set():
            found = scan(table)
            seen = {each.value for each in found}
            assert len(seen) <= 1, f"a torn scan: {seen}"
            assert len(found) in (0, 100)
            assert max(seen, default=b"") >= last, "time goes back"
            last = max(seen, default=b"")
            many = {each.value for each in get_many(table, [rows[0], rows[60], rows[99]])}
            assert len(many) <= 1

    def change() -> None:
        for number in range(6):
            table.split(rows[10 + 10 * number])
            table.flush()
            table.compact()
            table.join(rows[10 + 10 * number])
            backend.store.collect_garbage()
            schema = table.schema
            groups = [Group("f", ["f"]), Group("rest")] if number % 2 else [Group("all")]
            new = schema.replace(groups=groups, version=schema.version + 1)
            backend.alter_table("t", new)

    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(read) for _ in range(2)]
        writers = [pool.submit(write), pool.submit(change)]
        wait(writers)
        over.set()
        for job in (*readers, *writers):
            job.result()
    assert {each.value for each in scan(table)} == {b"%08d" % 59}
    backend.close()
