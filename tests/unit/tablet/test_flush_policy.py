"""Which table to flush (T46, T93)."""

from stele.tablet.flush_policy import (
    FlushLimits,
    LogFileFacts,
    TableMemory,
    choose_flush,
    log_bytes_held,
)

LIMITS = FlushLimits(memory_bytes=100, budget_bytes=1_000, log_bytes=10_000, log_weight=0.1)


def test_t93_a_tables_log_is_every_file_that_reaches_its_oldest_commit() -> None:
    log = [LogFileFacts(10, 5), LogFileFacts(20, 9), LogFileFacts(40, 12)]
    assert log_bytes_held(TableMemory("t", 1, oldest_txn=9), log) == 60


def test_nothing_is_flushed_without_need() -> None:
    assert choose_flush([TableMemory("t", 99, 1)], [], LIMITS) is None
    assert choose_flush([TableMemory("t", 0, 1)], [LogFileFacts(20_000, 9)], LIMITS) is None
    assert choose_flush([], [], LIMITS) is None


def test_the_largest_goes_first() -> None:
    tables = [TableMemory("a", 120, 1), TableMemory("b", 300, 1)]
    assert choose_flush(tables, [], LIMITS) == "b"


def test_t46_pressure_on_the_budget_flushes_even_small_tables() -> None:
    tables = [TableMemory(f"t{i}", 90, 1) for i in range(9)]
    assert choose_flush(tables, [], LIMITS) is not None


def test_t93_a_small_table_with_an_old_commit_goes_when_the_log_is_long() -> None:
    log = [LogFileFacts(9_000, 10), LogFileFacts(9_000, 20)]
    old = TableMemory("old", 10, oldest_txn=1)
    young = TableMemory("young", 500, oldest_txn=19)
    assert choose_flush([old, young], log, LIMITS) == "old"


def test_who_is_pressed_flushes_the_best_however_small() -> None:
    tables = [TableMemory("a", 2, 1), TableMemory("b", 3, 1)]
    assert choose_flush(tables, [], LIMITS) is None
    assert choose_flush(tables, [], LIMITS, pressed=True) == "b"
    assert choose_flush([TableMemory("a", 0, 1)], [], LIMITS, pressed=True) is None
