"""Tables whose compactions write the columns layout answer like tables that have only cells.

Two stores with one clock take the same steps, so that even txns are the same; only one of them has
declared columns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from stele import filters
from stele.cluster.check import check_store
from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.model.cells import Cell, batch_to_cells
from stele.model.columns import ColumnSelection
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_changes import alter
from stele.storage import fragment_columns_writer
from stele.storage.fragment_format import CELLS_LAYOUT, COLUMNS_LAYOUT
from stele.storage.references import Reference, file_references
from stele.tablet.check.findings import Kind
from tests.unit.tablet.engine_support import memory_world, open_backend, reopened

TYPES = {"f:age": "int64", "f:name": "string", "g:flag": "bool", "g:small": "int32"}
TOGETHER = (Group("all", block_cells=256),)
APART = (Group("f", families=["f"], block_cells=256), Group("rest", block_cells=256))
ROWS = [b"row%03d" % number for number in range(60)]


def encoded(name: str, number: int) -> bytes:
    """A value of a column; now and then one that is none of its type."""
    if number % 13 == 0:
        return b"odd %d" % number
    values = {
        "f:age": number.to_bytes(8, "big"),
        "f:name": b"name %d" % number,
        "g:flag": bytes([number % 2]),
        "g:small": number.to_bytes(4, "big"),
    }
    return values.get(name, b"undeclared")


@dataclass
class Pair:
    """The two stores."""

    typed: EmbeddedBackend
    plain: EmbeddedBackend
    moments: list[int]

    def both(self, name: str = "t") -> Iterator[EmbeddedTable]:
        yield self.typed.table(name)
        yield self.plain.table(name)

    def each(self, action: Callable[[EmbeddedTable], object]) -> None:
        for table in self.both():
            action(table)

    def commit(self, build: Callable[[MutationBatch], None]) -> None:
        txns = []
        for table in self.both():
            batch = MutationBatch()
            build(batch)
            txns.append(table.apply(batch).wait())
        assert txns[0] == txns[1]
        self.moments.append(txns[0])

    def compare(self, name: str = "t") -> None:
        """Every way to read gives the same."""
        typed, plain = self.both(name)
        for spec in SCANS:
            assert cells(typed, spec) == cells(plain, spec), spec
        for at in self.moments[-3:]:
            spec = ScanSpec(at=at, versions=None)
            assert cells(typed, spec) == cells(plain, spec)
        for row in (*ROWS[::11], b"nothing"):
            for one in (CellSpec(), CellSpec(versions=None, at=self.moments[-1])):
                assert read_row(typed, row, one) == read_row(plain, row, one)
        many = ReadSpec(rows=tuple(ROWS[::7]), versions=2)
        assert batch_to_cells(typed.read_rows(many)[0]) == batch_to_cells(plain.read_rows(many)[0])


SCANS = (
    ScanSpec(versions=None),
    ScanSpec(),
    ScanSpec(reverse=True, versions=None),
    ScanSpec(columns=ColumnSelection.parse(["f:age"])),
    ScanSpec(columns=ColumnSelection.parse(["g:", "f:name"]), reverse=True),
    ScanSpec(ranges=(RowRange(b"row010", b"row020"), RowRange(b"row050"))),
    ScanSpec(limit=7, cells_per_row=2),
    ScanSpec(filters=(filters.prefix("value", b"name"),)),
    ScanSpec(time_start=3, time_end=40, versions=None),
)


def cells(table: EmbeddedTable, spec: ScanSpec) -> list[Cell]:
    return [cell for batch in table.scan(spec) for cell in batch_to_cells(batch)]


def read_row(table: EmbeddedTable, row: bytes, spec: CellSpec) -> list[Cell]:
    found, _ = table.read_row(row, spec)
    if found is None:
        return []
    return list(found.cells()) if hasattr(found, "cells") else batch_to_cells(found)


def references(backend: EmbeddedBackend) -> list[Reference]:
    state = backend.store.user.table(backend.table("t").id)
    return [one for config in state.layout.tablets for one in config.references]


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setattr(fragment_columns_writer, "NATIVE_SHARE_MIN", 0)
    typed, plain = (open_backend(memory_world(clock=MemoryClock())) for _ in range(2))
    typed.create_table("t", Schema(TOGETHER, TYPES, history="1h"))
    plain.create_table("t", Schema(TOGETHER, history="1h"))
    return Pair(typed, plain, [])


def fill(pair: Pair, seed: int, rows: list[bytes] = ROWS) -> None:
    dice = random.Random(seed)
    for row in rows:
        number = dice.randrange(1_000)

        def build(batch: MutationBatch, row: bytes = row, number: int = number) -> None:
            own = random.Random(number)
            for name in (*TYPES, "f:other"):
                if own.random() < 0.7:
                    family, _, qualifier = name.partition(":")
                    time = own.choice([None, 5, 50])
                    value = encoded(name, own.randrange(1_000))
                    batch.put(row, family, qualifier.encode(), value, time)
            batch.put(row, "f", b"always", b"")

        pair.commit(build)


def erase(pair: Pair, seed: int) -> None:
    dice = random.Random(seed)
    row, column = dice.choice(ROWS), dice.choice(["age", "name"]).encode()
    pair.commit(lambda batch: batch.erase_column(row, "f", column))
    pair.commit(lambda batch: batch.erase_row(dice.choice(ROWS[:1]), 5))
    pair.commit(lambda batch: batch.erase_family(ROWS[seed % 60], "g"))


def settle(pair: Pair) -> None:
    pair.each(EmbeddedTable.flush)
    pair.each(EmbeddedTable.compact)


def test_flushes_write_cells_and_compactions_columns(pair: Pair) -> None:
    fill(pair, 1)
    pair.each(EmbeddedTable.flush)
    assert {one.file.layout for one in references(pair.typed)} == {CELLS_LAYOUT}
    pair.compare()
    pair.each(EmbeddedTable.compact)
    assert COLUMNS_LAYOUT in {one.file.layout for one in references(pair.typed)}
    assert {one.file.layout for one in references(pair.plain)} == {CELLS_LAYOUT}
    pair.compare()


def test_layouts_are_merged_with_each_other_and_with_memory(pair: Pair) -> None:
    for seed in range(4):
        fill(pair, seed, ROWS[seed::2])
        erase(pair, seed)
        pair.each(EmbeddedTable.flush)
        if seed != 2:
            pair.each(EmbeddedTable.compact)
        pair.compare()
    fill(pair, 9, ROWS[::5])
    pair.compare()
    settle(pair)
    pair.compare()


def test_what_moves_references_moves_companions(pair: Pair) -> None:
    """Split, join, regroup and clone change fences and column sets, never files."""
    fill(pair, 3)
    erase(pair, 3)
    settle(pair)
    assert any(one.file.companion for one in references(pair.typed))
    before = {one.file.name for one in file_references(references(pair.typed))}
    pair.each(lambda table: table.split(b"row020"))
    pair.each(lambda table: table.split(b"row040"))
    pair.compare()
    pair.each(lambda table: table.join(b"row020"))
    pair.compare()
    for backend in (pair.typed, pair.plain):
        schema = backend.table("t").schema
        backend.alter_table("t", alter(schema, schema.replace(groups=APART)))
    pair.compare()
    for backend in (pair.typed, pair.plain):
        backend.clone_table("t", "copy")
    pair.compare("copy")
    assert {one.file.name for one in file_references(references(pair.typed))} == before
    pair.typed.store.collect_garbage()
    pair.typed.store.collect_garbage()
    pair.compare()
    settle(pair)
    pair.compare()
    pair.compare("copy")


@pytest.mark.parametrize(
    "types",
    [
        {**TYPES, "f:other": "binary"},
        {"f:age": "int64", "f:name": "string"},
        {**TYPES, "g:small": "int64", "f:name": "binary"},
        {},
    ],
    ids=["add", "drop", "widen", "drop all"],
)
def test_columns_that_change_change_no_cell(pair: Pair, types: dict[str, str]) -> None:
    fill(pair, 5)
    settle(pair)
    schema = pair.typed.table("t").schema
    wanted = Schema(TOGETHER, types, history="1h")
    pair.typed.alter_table("t", alter(schema, wanted))
    pair.compare()
    fill(pair, 6, ROWS[::3])
    pair.compare()
    settle(pair)
    pair.compare()


def test_a_killed_process_finds_everything_again(pair: Pair) -> None:
    fill(pair, 7)
    settle(pair)
    fill(pair, 8, ROWS[::4])
    pair.typed, pair.plain = reopened(pair.typed), reopened(pair.plain)
    pair.compare()


def test_check_understands_companions(pair: Pair) -> None:
    fill(pair, 2)
    erase(pair, 2)
    settle(pair)
    (companion,) = {one.file.companion for one in references(pair.typed)} - {None}
    assert companion is not None
    pair.typed.close()
    world = pair.typed.store.world
    files = world.files
    assert isinstance(files, MemoryFileSystem)
    assert not check_store(world, deep=True).is_damaged
    path = f"fragments/{companion.name}"
    data = files.read_all(path)
    files.write_atomic(path, data[:30] + bytes([data[30] ^ 1]) + data[31:])
    kinds = [finding.kind for finding in check_store(world, deep=True).findings]
    assert Kind.DAMAGED_FILE in kinds
    files.delete(path)
    found = [one for one in check_store(world).findings if one.kind is not Kind.ORPHAN_FILE]
    assert [(one.kind, one.subject) for one in found] == [(Kind.MISSING_FILE, companion.name)]


def test_sizes_count_companions(pair: Pair) -> None:
    fill(pair, 2)
    settle(pair)
    table = pair.typed.table("t")
    sizes = {one.file.total_bytes for one in references(pair.typed)}
    assert sum(info.size_bytes for info in table.tablets()) == sum(sizes)
