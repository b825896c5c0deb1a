"""Memory tables against a plain list of cells: read, merge, flush and drop in any order."""

from __future__ import annotations

import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stele.kernels.block import Block
from stele.model.cells import Cell, batch_to_cells, cells_to_batch
from stele.storage import memory_table
from stele.storage.memory_policy import TierLimits
from stele.storage.memory_table import (
    FlushSet,
    MemoryFragment,
    MemoryTable,
    MemoryVersion,
    MergePlan,
)
from tests.unit.storage.log_support import cell, record

ROWS = [b"a", b"b", b"c", b"\xff"]
SMALL_TIERS = TierLimits(fan_in=2, first_tier_bytes=10, merged_bytes_max=1 << 20)


def cells_of(blocks: list[Block], txn: int) -> list[Cell]:
    """All cells up to a txn, sorted; each must be there once."""
    cells = [each for block in blocks for each in batch_to_cells(block.batch) if each.txn <= txn]
    assert len(cells) == len(set(cells)), "a cell is there twice"
    return sorted(cells, key=Cell.key)


def block_of(cells: list[Cell]) -> Block:
    return Block.from_batch(cells_to_batch(sorted(cells, key=Cell.key)))


def add_rows(table: MemoryTable, cells: list[Cell]) -> None:
    rows, records = [each.row for each in cells], [record(each) for each in cells]
    table.add_records(cells[0].txn, rows, records)


class MemoryMachine(RuleBasedStateMachine):
    """Commits get durable, get merged, get flushed or get dropped; readers look all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.table = MemoryTable(SMALL_TIERS)
        self.cells: list[Cell] = []
        self.txn = 0
        self.durable = 0
        self.flushed_txn = 0
        self.plan: MergePlan | None = None
        self.merged: MemoryFragment | None = None
        self.flush: FlushSet | None = None
        self.old: list[tuple[MemoryVersion, int, list[Cell]]] = []

    def _commit(self, rows: list[bytes]) -> list[Cell]:
        self.txn += 1
        cells = [cell(self.txn, row) for row in rows]
        self.cells += cells
        return cells

    @rule(rows=st.lists(st.sampled_from(ROWS), min_size=1, max_size=3, unique=True))
    def small_commit(self, rows: list[bytes]) -> None:
        add_rows(self.table, self._commit(rows))

    @rule(rows=st.lists(st.sampled_from(ROWS), min_size=1, unique=True))
    def batch_commit(self, rows: list[bytes]) -> None:
        cells = self._commit(rows)
        self.table.add_block(self.txn, block_of(cells))

    @rule()
    def seal(self) -> None:
        self.table.seal()

    @rule(part=st.floats(0, 1))
    def get_durable(self, part: float) -> None:
        self.durable += round((self.txn - self.durable) * part)

    @rule()
    def refuse(self) -> None:
        self.table.drop_above(self.durable)
        self.cells = [each for each in self.cells if each.txn <= self.durable]

    @precondition(lambda self: self.plan is None)
    @rule()
    def plan_merge(self) -> None:
        self.plan = self.table.plan_merge(self.durable)
        assert self.plan is None or all(run.txn_max <= self.durable for run in self.plan.inputs)

    @precondition(lambda self: self.plan is not None)
    @rule(gives_up=st.booleans())
    def finish_merge(self, gives_up: bool) -> None:
        assert self.plan is not None
        self.table.install(self.plan, None if gives_up else self.plan.run())
        self.plan = None

    @precondition(lambda self: self.flush is None)
    @rule()
    def begin_flush(self) -> None:
        self.flush = self.table.begin_flush(self.durable)
        if self.flush is None:
            return
        assert self.flush.txn <= self.durable
        expected = [each for each in self.cells if each.txn <= self.flush.txn]
        assert cells_of(self.flush.blocks(), self.txn) == sorted(expected, key=Cell.key)

    @precondition(lambda self: self.flush is not None)
    @rule(gives_up=st.booleans())
    def finish_flush(self, gives_up: bool) -> None:
        assert self.flush is not None
        if gives_up:
            self.table.abandon_flush(self.flush)
        else:
            self.table.finish_flush(self.flush)
            self.cells = [each for each in self.cells if each.txn > self.flush.txn]
        self.flush = None

    @invariant()
    def readers_see_every_cell_once(self) -> None:
        version = self.table.version
        for txn in {self.durable, self.txn}:
            expected = sorted((each for each in self.cells if each.txn <= txn), key=Cell.key)
            assert cells_of(version.blocks(txn), txn) == expected
            for row in (*ROWS, b"never"):
                found = cells_of(version.row_blocks(row, txn), txn)
                assert [each for each in found if each.row == row] == [
                    each for each in expected if each.row == row
                ]

    @invariant()
    def readers_that_began_earlier_see_what_they_saw(self) -> None:
        for version, txn, expected in self.old:
            assert cells_of(version.blocks(txn), txn) == expected
        version = self.table.version
        seen = cells_of(version.blocks(self.durable), self.durable)
        self.old = [*self.old[-4:], (version, self.durable, seen)]

    @invariant()
    def the_accounts_are_right(self) -> None:
        runs = self.table.version.runs()
        assert self.table.size_bytes == sum(run.size_bytes for run in runs)
        oldest = min((each.txn for each in self.cells), default=None)
        assert self.table.oldest_txn == oldest


MemoryMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestMemoryMachine = MemoryMachine.TestCase


def test_a_flush_takes_no_part_of_a_commit_that_is_not_durable() -> None:
    table = MemoryTable()
    for txn in range(1, 7):
        add_rows(table, [cell(txn)])
    assert table.begin_flush(3) is None  # one buffer holds all six
    add_rows(table, [cell(7)])
    flush = table.begin_flush(6)
    assert flush is not None
    assert flush.txn == 6
    assert {each.txn for each in cells_of(flush.blocks(), 99)} == {1, 2, 3, 4, 5, 6}
    table.finish_flush(flush)
    assert table.oldest_txn == 7


def test_a_flush_ends_where_a_run_straddles_what_is_durable() -> None:
    table = MemoryTable()
    add_rows(table, [cell(1)])
    table.seal()
    add_rows(table, [cell(2)])
    table.add_block(3, block_of([cell(3)]))
    add_rows(table, [cell(4)])
    flush = table.begin_flush(3)
    assert flush is not None
    assert flush.txn == 1
    table.abandon_flush(flush)
    flush = table.begin_flush(4)
    assert flush is not None
    assert flush.txn == 4
    assert len(flush.runs) == 3


def test_a_merge_gives_way_to_a_flush() -> None:
    table = MemoryTable(SMALL_TIERS)
    for txn in (1, 2):
        table.add_block(txn, block_of([cell(txn)]))
    plan = table.plan_merge(2)
    assert plan is not None
    assert table.plan_merge(2) is None
    flush = table.begin_flush(2)
    assert flush is not None
    assert not table.install(plan, plan.run())
    table.finish_flush(flush)
    assert table.version.runs() == []
    assert table.size_bytes == 0


def test_what_is_merged_is_not_flushed_twice() -> None:
    table = MemoryTable(SMALL_TIERS)
    for txn in (1, 2):
        table.add_block(txn, block_of([cell(txn)]))
    plan = table.plan_merge(2)
    assert plan is not None
    assert table.install(plan, plan.run())
    (run,) = table.version.runs()
    assert (run.txn_min, run.txn_max, run.block.count) == (1, 2, 2)


def test_what_is_not_durable_is_not_merged() -> None:
    table = MemoryTable(SMALL_TIERS)
    for txn in (1, 2, 3):
        table.add_block(txn, block_of([cell(txn)]))
    assert table.plan_merge(1) is None


def test_a_full_buffer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stele.storage.memory_records.RECORDS_MAX", 3)
    table = MemoryTable()
    for txn in range(1, 8):
        add_rows(table, [cell(txn)])
    assert [run.txn_max for run in table.version.runs()] == [3, 6, 7]


def test_many_batches_move_to_the_settled_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_table, "RECENT_MAX", 3)
    table = MemoryTable()
    for txn in range(1, 6):
        table.add_block(txn, block_of([cell(txn)]))
    assert (len(table.version.settled), len(table.version.recent)) == (3, 2)


def test_an_empty_commit_leaves_no_trace() -> None:
    table = MemoryTable()
    table.add_block(1, block_of([]))
    assert (table.version.runs(), table.oldest_txn) == ([], None)


def test_readers_need_no_lock() -> None:
    """One thread commits, merges and flushes while others read at what is durable."""
    table = MemoryTable(SMALL_TIERS)
    kept = threading.Lock()
    state = {"durable": 0, "flushed": 0}
    wrong: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.wait(0.001):
            with kept:
                version, durable, flushed = table.version, state["durable"], state["flushed"]
            txns = sorted(each.txn for each in cells_of(version.blocks(durable), durable))
            if txns != list(range(flushed + 1, durable + 1)):
                wrong.append(f"{flushed} to {durable}: {txns}")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    for txn in range(1, 400):
        if txn % 3:
            add_rows(table, [cell(txn)])
        else:
            table.add_block(txn, block_of([cell(txn)]))
        with kept:
            state["durable"] = txn
        plan = table.plan_merge(txn)
        if plan is not None:
            table.install(plan, plan.run())
        if txn % 50 == 0:
            flush = table.begin_flush(txn)
            assert flush is not None
            with kept:
                table.finish_flush(flush)
                state["flushed"] = flush.txn
    done.set()
    for thread in readers:
        thread.join(60)
    assert wrong == []
