"""Files as facts: what holds the log, what is dead, and that only dead files go."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from stele.env.memory_fs import MemoryFileSystem
from stele.storage.log_format import file_name
from stele.storage.log_parts import Span
from stele.storage.log_segments import (
    FileFacts,
    FileLedger,
    Written,
    bytes_by_table,
    bytes_held,
    dead_files,
    first_needed_file,
    list_files,
    released_files,
)


def facts(sequence: int, spans: Mapping[str, int], *, closed: bool = True) -> FileFacts:
    """A file whose tables reach up to these txns."""
    by_table = {table: Span(table, 1, txn, 10) for table, txn in spans.items()}
    txn_max = max(spans.values(), default=0)
    return FileFacts(sequence, 100 * sequence, 1, txn_max, by_table, closed)


def test_a_file_is_dead_when_every_table_is_saved_past_it() -> None:
    files = [facts(1, {"a": 10, "b": 5}), facts(2, {"a": 20}), facts(3, {"b": 30}, closed=False)]
    assert dead_files(files, {"a": 10, "b": 4}) == []
    assert dead_files(files, {"a": 10, "b": 5}) == files[:1]
    assert dead_files(files, {"a": 20, "b": 5}) == files[:2]
    assert dead_files(files, {"a": 99, "b": 99}) == files[:2]


def test_a_table_nobody_speaks_for_is_kept() -> None:
    assert dead_files([facts(1, {"a": 10, "b": 5})], {"a": 10}) == []


def test_a_file_between_two_that_stay_is_kept() -> None:
    files = [facts(1, {"slow": 1}), facts(2, {"a": 5}), facts(3, {"slow": 9})]
    assert dead_files(files, {"a": 5, "slow": 0}) == []


def test_a_file_without_cells_is_dead_once_closed() -> None:
    assert first_needed_file([facts(4, {})], {}) == 5
    assert first_needed_file([facts(4, {}, closed=False)], {}) == 4


def test_without_files_the_first_is_needed() -> None:
    assert first_needed_file([], {}) == 1


def test_log_size_is_who_holds_it_and_who_fills_it() -> None:
    files = [facts(1, {"a": 10}), facts(2, {"a": 20, "b": 15}), facts(3, {"b": 30})]
    assert bytes_held(files, 15) == 200 + 300
    assert bytes_held(files, 1) == 600
    assert bytes_held(files, 31) == 0
    assert bytes_by_table(files) == {"a": 20, "b": 20}


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)), max_size=5),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)),
)
def test_nothing_unsaved_is_ever_dead(spans: list[dict[str, int]], saved: dict[str, int]) -> None:
    files = [facts(number, each) for number, each in enumerate(spans, start=1)]
    dead = dead_files(files, saved)
    assert dead == files[: len(dead)]
    for file in dead:
        assert all(span.txn_max <= saved[table] for table, span in file.spans.items())
    if len(dead) < len(files):
        assert any(
            span.txn_max > saved.get(table, 0) for table, span in files[len(dead)].spans.items()
        )


def test_the_ledger_keeps_up() -> None:
    ledger = FileLedger()
    assert not ledger.files
    ledger.record(Written(1, 300, (1, 2), (Span("a", 1, 1, 10), Span("b", 2, 2, 20)), False))
    ledger.record(Written(1, 500, (3, 4), (Span("a", 3, 4, 30),), True))
    ledger.record(Written(2, 200, (5, 5), (), False))
    first, second = ledger.files
    assert first == FileFacts(
        1, 500, 1, 4, {"a": Span("a", 1, 4, 40), "b": Span("b", 2, 2, 20)}, True
    )
    assert (second.sequence, second.size_bytes, second.txn_min, second.closed) == (2, 200, 5, False)
    ledger.forget(2)
    assert ledger.files == (second,)
    ledger.forget(3)
    assert len(ledger.files) == 0


def test_facts_do_not_change_once_handed_out() -> None:
    ledger = FileLedger()
    ledger.record(Written(1, 300, (1, 1), (Span("a", 1, 1, 10),), False))
    (before,) = ledger.files
    ledger.record(Written(1, 400, (2, 2), (Span("a", 2, 2, 10),), False))
    assert before.spans["a"].txn_max == 1


def directory(*names: str) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.mkdir("log")
    for name in names:
        fs.create(f"log/{name}").close()
    return fs


def test_files_are_listed_in_order_of_their_numbers() -> None:
    fs = directory("99999999.log", "100000000.log", "00000002.log", "SEALED", "x.tmp", "3.log")
    assert list_files(fs, "log") == [2, 99_999_999, 100_000_000]


def test_released_are_the_files_below() -> None:
    fs = directory(*(file_name(number) for number in range(1, 5)), "other", "00000001.spare")
    assert released_files(fs, "log", 3) == [1, 2]
    assert released_files(fs, "log", 1) == []
