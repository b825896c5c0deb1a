"""Reads of single rows and of many (T54): always what a scan of the rows would give."""

from __future__ import annotations

import random
import weakref

import pytest

from stele.client.backend import Visibility
from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.errors import LimitExceeded
from stele.model.cells import Cell
from stele.model.columns import ColumnSelection
from stele.model.filters import Filter
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.tablet import fragment_store, point_reads
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
    scan,
)


def new_table(*borders: bytes) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", TWO_GROUPS, borders)


def scanned(table: EmbeddedTable, row: bytes, **spec: object) -> list[Cell]:
    return scan(table, ranges=(RowRange.row(row),), **spec)


def test_a_row_is_found_in_memory_in_fragments_and_in_both() -> None:
    _, table = new_table(b"m")
    assert get(table, b"a") == []
    put(table, b"a", b"1")
    assert [each.value for each in get(table, b"a")] == [b"1"]
    table.flush()
    assert [each.value for each in get(table, b"a")] == [b"1"]
    put(table, b"a", b"2")
    put(table, b"a", b"3", "g")
    assert [each.value for each in get(table, b"a")] == [b"2", b"3"]
    assert [each.value for each in get(table, b"a", versions=None)] == [b"2", b"1", b"3"]
    assert get(table, b"z") == []


def test_a_row_that_was_erased_is_none_and_its_past_is_there() -> None:
    _, table = new_table()
    txn = put(table, b"a", b"1")
    table.flush()
    erase_row(table, b"a")
    for _ in range(2):
        found, at = table.read_row(b"a", CellSpec())
        assert found is None
        assert at == table.durable_txn()
        assert [each.value for each in get(table, b"a", at=txn)] == [b"1"]
        table.flush()


def test_an_index_is_made_again_when_something_has_changed() -> None:
    backend, table = new_table()
    batch = MutationBatch()
    for number in range(300):
        batch.put(b"row%03d" % number, "f", b"q", b"1")
    table.apply(batch).wait()
    for change in (
        lambda: None,
        table.flush,
        lambda: table.split(b"row100"),
        lambda: put(table, b"row000"),
        table.compact,
        lambda: table.join(b"row100"),
        lambda: backend.alter_table("t", table.schema.replace(groups=[Group("one")], version=2)),
        table.compact,
    ):
        change()
        for row in (b"row050", b"row100", b"row299"):
            assert [each.value for each in get(table, row)] == [b"1"]


def test_t71_a_removed_family_is_not_read() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("t", Schema([Group("f", ["f"]), Group("g", ["g"])]))
    put(table, b"a", family="f")
    put(table, b"a", family="g")
    backend.alter_table("t", Schema([Group("f", ["f"])], version=2))
    for _ in range(2):
        assert [each.family for each in get(table, b"a")] == ["f"]
        assert [each.family for each in get_many(table, [b"a"])] == ["f"]
        assert get(table, b"a", columns=ColumnSelection.parse("g:")) == []
        table.flush()


def test_t43_t44_the_latest_read_sees_what_is_not_durable_yet() -> None:
    backend = open_backend(memory_world(inline=False))
    table = backend.create_table("t", TWO_GROUPS)
    pending = table.apply(puts((b"a", "f", b"1")))
    assert get(table, b"a") == []
    found, txn = table.read_row(b"a", CellSpec(), Visibility.LATEST)
    assert found is not None
    assert txn == pending.txn
    pending.wait()
    assert [each.value for each in get(table, b"a")] == [b"1"]


def test_many_rows_come_in_key_order_each_once() -> None:
    _, table = new_table(b"m")
    for row in (b"z", b"a", b"k"):
        put(table, row)
        table.flush()
    put(table, b"n")
    found = get_many(table, [b"z", b"n", b"a", b"z", b"nobody"])
    assert [each.row for each in found] == [b"a", b"n", b"z"]
    assert get_many(table, [b"nobody"]) == []


@pytest.mark.parametrize("seed", range(4))
def test_point_reads_agree_with_scans(seed: int) -> None:
    dice = random.Random(seed)
    backend, table = new_table(b"r4")
    rows = [b"r%d" % number for number in range(8)]
    txns = [table.durable_txn()]
    for step in range(40):
        batch = MutationBatch()
        row, family = dice.choice(rows), dice.choice(["f", "g", "h"])
        match dice.randrange(8):
            case 0:
                batch.erase_row(row)
            case 1:
                batch.erase_family(row, family)
            case 2:
                batch.erase_column(row, family, b"q")
            case 3:
                table.flush()
            case 4 if step % 3 == 0:
                table.compact()
        batch.put(row, family, dice.choice([b"", b"q"]), b"%d" % step)
        txns.append(table.apply(batch).wait())
        spec: dict[str, object] = {
            "at": dice.choice(txns[-10:]),
            "versions": dice.choice([1, 2, None]),
        }
        if dice.random() < 0.3:
            spec["filters"] = (
                dice.choice([Filter("value", regex="1"), Filter("qualifier", regex="q")]),
            )
        if dice.random() < 0.3:
            spec["columns"] = ColumnSelection.parse(dice.choice(["f:", "g:q", "h:"]))
        asked = dice.sample(rows, 3)
        for wanted in asked:
            assert get(table, wanted, **spec) == scanned(table, wanted, **spec), (step, spec)
        expected = [each for each in scan(table, **spec) if each.row in asked]
        assert get_many(table, asked, **spec) == expected, (step, spec)
    assert backend.reads.oldest(table.id) is None


def rows_of(number: int, size: int) -> MutationBatch:
    batch = MutationBatch()
    for each in range(number):
        batch.put(b"row%03d" % each, "f", b"q", b"%d" % each * size)
    return batch


def test_files_that_were_closed_because_there_are_many_are_cached_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fragment_store, "OPEN_FRAGMENTS_MAX", 2)
    backend, table = new_table(*(b"row%03d" % number for number in range(10, 80, 10)))
    table.apply(rows_of(80, 1)).wait()
    table.flush()
    keys = [b"row%03d" % number for number in range(5, 80, 10)]
    cache = backend.store.user.fragments.cache
    for key in keys:
        get(table, key)
    for _ in range(2):
        get(table, keys[0])
    before = cache._loads.value
    get(table, keys[0])
    assert cache._loads.value == before, "it stays in memory"
    get_many(table, keys)
    for _ in range(2):
        get_many(table, keys[:1])
    before = cache._loads.value
    get_many(table, keys[:1])
    assert cache._loads.value == before


def test_a_read_of_many_rows_holds_few_blocks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, table = new_table()
    table.apply(rows_of(200, 100)).wait()
    table.flush()
    table.apply(rows_of(3, 1)).wait()
    keys = [b"row%03d" % number for number in range(0, 200, 3)]
    expected = get_many(table, keys)
    assert len(expected) == len(keys)
    backend.store.user.fragments.cache.resize(1)
    monkeypatch.setattr(point_reads, "LOADED_BYTES_MAX", 1)
    assert get_many(table, keys) == expected
    wanted = ColumnSelection.parse("f:q")
    assert get_many(table, keys, columns=wanted) == expected


def test_who_has_read_once_keeps_no_files_and_no_memory_alive() -> None:
    backend, table = new_table()
    put(table, b"a")
    table.flush()
    table.apply(rows_of(100, 10)).wait()
    owner = table._state.memory.version.recent[0].block.owner
    assert isinstance(owner, tuple)
    run = weakref.ref(owner[0])
    del owner
    (reference,) = config_of(table, b"a").references[:1]
    reader = weakref.ref(backend.store.user.fragments.open(reference.file).reader)
    assert get(table, b"a")
    assert get_many(table, [b"a"])
    assert run() is not None
    assert reader() is not None
    table.compact()
    assert run() is None
    assert reader() is None


def test_more_than_one_batch_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = new_table(b"row100")
    table.apply(rows_of(200, 1)).wait()
    assert len(get_many(table, [b"row001", b"row150"])) == 2
    monkeypatch.setattr(point_reads, "COLUMN_BYTES_MAX", 3)
    with pytest.raises(LimitExceeded, match="have 4 bytes, more than one batch can hold"):
        get_many(table, [b"row001", b"row150"])
