"""A stream of changes without Spark around it: offsets, pins, limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele.client.table import Table
from stele.env.memory import MemoryClock, MemoryTasks
from stele.errors import Conflict, SnapshotTooOld
from stele.spark.change_options import ChangeOptions
from stele.spark.change_stream import IDLE_STEP_US, LOOK_PERIOD_US, ChangeStream
from stele.spark.change_tasks import make_change_tasks, run_change_task
from stele.spark.pinning import PinKeeper
from stele.storage.change_counts import ChangeLimits

NO_LIMITS = ChangeLimits()


class Run:
    """One run of a stream, and what it was made of."""

    def __init__(self, path: str, **options: str):
        given = {"db": path, "table": "t", "changes": "all", **options}
        self.options = ChangeOptions.parse(given, streaming=True)
        self.clock = MemoryClock()
        self.tasks = MemoryTasks(self.clock)
        self.keeper = PinKeeper(self.tasks)
        self.paused: list[int] = []
        self.stream = ChangeStream(self.options, self.keeper, self.clock, self.pause)

    def pause(self, time_us: int) -> None:
        self.paused.append(time_us)
        self.clock.advance(time_us)

    def told(self, start: int, end: int) -> list[int]:
        """The txns that the tasks of a batch tell."""
        plan = self.stream.plan(start, end)
        return [
            line["_commit_version"]
            for task in make_change_tasks(plan, start, end, self.options.request(), 2)
            for batch in run_change_task(task)
            for line in batch.to_pylist()
        ]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db")


@pytest.fixture
def table(path: str) -> Iterator[Table]:
    with stele.open(path) as db:
        yield db.create_table("t", stele.Schema(history=0))


def put(table: Table, value: bytes = b"v", row: bytes = b"a") -> int:
    return table.put(row, {"f:q": value})


def held_txns(table: Table) -> list[int]:
    backend: Any = table.core.backend
    return sorted(lease.txn for lease in backend._backend.store.coordination.leases(table.id))


def test_batches_follow_each_other_without_a_gap(path: str, table: Table) -> None:
    run = Run(path)
    txns = [put(table) for _ in range(3)]
    start = run.stream.initial()
    assert start == 0
    end = run.stream.next(start, NO_LIMITS)
    assert run.told(start, end) == txns
    assert run.stream.next(end, NO_LIMITS) == end
    more = [put(table) for _ in range(2)]
    last = run.stream.next(end, NO_LIMITS)
    assert run.told(end, last) == more


def test_the_beginning_is_asked_for_twice_and_is_the_same(path: str, table: Table) -> None:
    put(table)
    run = Run(path, startingVersion="latest")
    first = run.stream.initial()
    later = put(table)
    assert run.stream.initial() == first
    end = run.stream.next(first, NO_LIMITS)
    assert run.told(first, end) == [later]


def test_a_fresh_object_tells_a_batch_again(path: str, table: Table) -> None:
    txns = [put(table) for _ in range(4)]
    run = Run(path)
    end = run.stream.next(0, ChangeLimits(mutations=2))
    assert end == txns[1]
    table.compact()
    again = Run(path)
    assert again.told(0, end) == txns[:2]
    assert again.told(end, txns[3]) == txns[2:]


def test_limits_cut_a_range_that_is_pinned_once(path: str, table: Table) -> None:
    txns = [put(table) for _ in range(5)]
    run, start, found = Run(path), 0, []
    while (end := run.stream.next(start, ChangeLimits(mutations=2))) != start:
        found.append(run.told(start, end))
        assert len(run.keeper.leases()) == 1
        start = end
    assert found == [txns[:2], txns[2:4], txns[4:]]
    assert run.stream.next(0, NO_LIMITS) == txns[4]


def test_a_commit_is_never_cut(path: str, table: Table) -> None:
    with table.batch() as batch:
        for number in range(20):
            batch.put(b"%02d" % number, {"f:q": b"v"})
    run = Run(path)
    end = run.stream.next(0, ChangeLimits(mutations=3))
    assert len(run.told(0, end)) == 20
    assert run.stream.next(0, ChangeLimits(size_bytes=1)) == end


def test_what_is_forgotten_is_told_in_one_batch(path: str, table: Table) -> None:
    txns = [put(table) for _ in range(4)]
    backend: Any = table.core.backend
    backend._backend.store.coordination.advance_horizon(table.id, txns[2])
    run = Run(path)
    end = run.stream.next(0, ChangeLimits(mutations=1))
    assert end == txns[2]
    assert run.stream.next(end, ChangeLimits(mutations=1)) == txns[3]
    with pytest.raises(SnapshotTooOld, match="forgotten"):
        Run(path, startingVersion=str(txns[1])).stream.next(txns[0], NO_LIMITS)


def test_history_is_held_from_the_committed_offset_on(path: str, table: Table) -> None:
    start = put(table)
    run = Run(path, startingVersion=str(start + 1), lease="1h")
    assert run.stream.initial() == start
    second = put(table)
    assert run.stream.next(start, NO_LIMITS) == second
    third = put(table)
    assert run.stream.next(second, NO_LIMITS) == third
    assert held_txns(table) == [start, second], "nobody has said that the first was committed"
    run.stream.commit(second)
    fourth = put(table)
    assert run.stream.next(third, NO_LIMITS) == fourth
    assert held_txns(table) == [second, third]
    assert run.stream.next(fourth, NO_LIMITS) == fourth, "it asks for more: all is committed"
    assert held_txns(table) == [fourth]


def test_a_stream_that_ended_goes_on_while_its_lease_lasts(path: str, table: Table) -> None:
    run = Run(path, lease="1h")
    put(table)
    end = run.stream.next(0, NO_LIMITS)
    run.stream.stop()
    assert run.keeper.leases() == ()
    later = put(table, b"1")
    table.compact()
    again = Run(path)
    assert again.told(end, again.stream.next(end, NO_LIMITS)) == [later]


def test_pins_are_renewed_while_the_stream_runs(path: str, table: Table) -> None:
    run = Run(path, lease="1h")
    put(table)
    run.stream.next(0, NO_LIMITS)
    backend: Any = table.core.backend
    (before,) = backend._backend.store.coordination.leases(table.id)
    run.tasks.advance(3_600_000_000 // 3 + 1)
    (after,) = backend._backend.store.coordination.leases(table.id)
    assert after.expires_us > before.expires_us


def test_an_idle_table_moves_on_now_and_then(path: str, table: Table) -> None:
    run = Run(path)
    txn = put(table)
    end = run.stream.next(0, NO_LIMITS)
    assert end == txn
    backend: Any = table.core.backend
    engine = backend._backend.store.user
    engine.advance_clock().wait()
    assert run.stream.next(end, NO_LIMITS) == end, "nothing to tell, so no batch"
    assert run.stream.reached > end
    engine.observe(end + IDLE_STEP_US)
    engine.advance_clock().wait()
    moved = run.stream.next(end, NO_LIMITS)
    assert moved >= end + IDLE_STEP_US
    assert run.told(end, moved) == []


def test_looking_in_vain_is_not_done_all_the_time(path: str, table: Table) -> None:
    run = Run(path)
    put(table)
    end = run.stream.next(0, NO_LIMITS)
    for _ in range(3):
        assert run.stream.next(end, NO_LIMITS) == end
    assert run.paused == [LOOK_PERIOD_US] * 2
    put(table)
    assert run.stream.next(end, NO_LIMITS) > end, "what came while it waited is seen"


def test_a_run_up_to_now_ends(path: str, table: Table) -> None:
    run = Run(path)
    txns = [put(table) for _ in range(3)]
    run.stream.stop_at_present()
    put(table)
    start = 0
    for expected in (txns[0], txns[1], txns[2], txns[2]):
        start = run.stream.next(start, ChangeLimits(mutations=1))
        assert start == expected


def test_a_stream_follows_one_table(path: str, table: Table) -> None:
    run = Run(path)
    put(table)
    run.stream.next(0, NO_LIMITS)
    assert run.stream.table == table.id
    run.stream.follow(table.id)
    with pytest.raises(Conflict, match="'t' is another table"):
        run.stream.follow("t99")
