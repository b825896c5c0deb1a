"""In-memory groups are served from memory as far as it reaches (T75, T76)."""

from __future__ import annotations

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.model.cells import Cell, Op
from stele.model.column_set import ColumnSet
from stele.model.columns import ColumnSelection
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_changes import alter
from stele.storage.cache_priority import IN_MEMORY, Priority
from stele.storage.references import Reference
from stele.tablet.config import TabletConfig
from stele.tablet.in_memory import wanted_files
from stele.tablet.options import EngineOptions
from stele.tablet.range_map import RangeMap
from stele.tablet.table_state import TableLayout
from tests.unit.tablet.engine_support import (
    BY_HAND,
    cell,
    fragment,
    get,
    memory_world,
    new_store,
    open_backend,
    put,
    reopened,
    values,
)

ROWS = [b"row%04d" % number for number in range(1_500)]
BLOCK = 256
"""Cells of a block: each file has several."""


def schema(*, hot: bool = True, cold: bool = False) -> Schema:
    return Schema(
        [
            Group("hot", families=["f"], in_memory=hot, block_cells=BLOCK),
            Group("cold", in_memory=cold, block_cells=BLOCK),
        ]
    )


def filled(options: EngineOptions = BY_HAND, made: Schema | None = None) -> EmbeddedBackend:
    """A table with data of both groups in files."""
    backend = open_backend(memory_world(), options)
    fill(backend.create_table("users", made or schema()))
    return backend


def fill(table: EmbeddedTable, value: bytes = bytes(100)) -> None:
    batch = MutationBatch()
    for row in ROWS:
        batch.put(row, "f", b"q", value)
        batch.put(row, "g", b"q", value)
    table.apply(batch).wait()
    table.flush()


def blocks_from_disk(table: EmbeddedTable, family: str) -> int:
    """How many blocks a scan of one family reads from disk."""
    stream = table.scan(ScanSpec(columns=ColumnSelection.parse(f"{family}:")))
    assert sum(batch.num_rows for batch in stream) == len(ROWS)
    explained = stream.explain()
    assert explained["blocks_from_cache"] + explained["blocks_from_disk"] > 2
    return int(explained["blocks_from_disk"])


def loads(backend: EmbeddedBackend) -> int:
    """Blocks that the cache has read so far."""
    return backend.store.user.fragments.cache._loads.value


def in_memory_bytes(backend: EmbeddedBackend) -> int:
    usage = backend.store.user.fragments.cache.usage()
    return sum(usage[priority] for priority in IN_MEMORY)


def check_hot_and_cold(backend: EmbeddedBackend) -> None:
    """Neither scans nor reads of single rows need the disk for the hot group."""
    table = backend.table("users")
    assert blocks_from_disk(table, "f") == 0
    before = loads(backend)
    for row in ROWS[::37]:
        assert get(table, row, columns=ColumnSelection.parse("f:"))
    assert loads(backend) == before
    assert blocks_from_disk(table, "g") > 0


def test_t75_a_flushed_group_is_read_from_memory() -> None:
    check_hot_and_cold(filled())


def test_t75_a_table_is_loaded_into_memory_when_it_is_opened() -> None:
    check_hot_and_cold(reopened(filled()))


def test_t75_a_compaction_brings_its_output_into_memory() -> None:
    backend = filled()
    fill(backend.table("users"), b"newer")
    backend.table("users").compact()
    check_hot_and_cold(backend)
    store = backend.store.user.fragments
    wanted = wanted_files(backend.store.user.tables()[0].layout).values()
    sizes = [sum(store.open(references[0].file).blocks.sizes) for _, references in wanted]
    assert in_memory_bytes(backend) == sum(sizes), "the inputs have gone"


def test_t75_splits_change_nothing() -> None:
    backend = filled()
    backend.table("users").split(ROWS[700])
    check_hot_and_cold(backend)


def test_t76_altering_a_group_changes_what_is_kept() -> None:
    backend = filled(made=schema(hot=False))
    assert in_memory_bytes(backend) == 0
    assert blocks_from_disk(backend.table("users"), "f") > 0
    table = backend.table("users")
    backend.alter_table("users", alter(table.schema, schema(hot=True)))
    check_hot_and_cold(backend)
    backend.alter_table("users", alter(table.schema, schema(hot=False)))
    assert in_memory_bytes(backend) == 0
    backend.store.user.fragments.cache.check_invariants()


def test_a_dropped_table_gives_its_memory_back() -> None:
    backend = filled()
    assert in_memory_bytes(backend) > 0
    backend.drop_table("users")
    assert in_memory_bytes(backend) == 0
    backend.undrop_table("users")
    check_hot_and_cold(backend)


def test_a_clone_shares_what_is_in_memory() -> None:
    backend = filled()
    before = in_memory_bytes(backend)
    backend.clone_table("users", "copy")
    assert in_memory_bytes(backend) == before
    assert blocks_from_disk(backend.table("copy"), "f") == 0
    backend.drop_table("users")
    assert blocks_from_disk(backend.table("copy"), "f") == 0


def test_t75_more_data_than_memory_is_read_all_the_same() -> None:
    small = EngineOptions(background=False, cache_bytes=100_000)
    backend = filled(small)
    table = backend.table("users")
    cache = backend.store.user.fragments.cache
    assert 0 < in_memory_bytes(backend) <= cache.capacity_bytes
    for _ in range(2):
        assert blocks_from_disk(table, "f") > 0
        assert len(values(table)) == 2 * len(ROWS)
        for row in ROWS[::61]:
            assert get(table, row)
        cache.check_invariants()
        assert cache.used_bytes <= cache.capacity_bytes
    assert in_memory_bytes(backend) > 0


def test_a_damaged_file_does_not_keep_others_out_of_memory() -> None:
    backend = filled()
    put(backend.table("users"), b"zz")
    backend.table("users").flush()
    state = backend.store.user.tables()[0]
    damaged, *others = sorted(wanted_files(state.layout))
    assert others
    files = backend.store.world.files
    files.write_atomic(f"fragments/{damaged}", b"short")
    backend.store.user.fragments.forget([damaged, *others])
    backend.store.user.in_memory.shown(state.id, state.layout)
    assert in_memory_bytes(backend) > 0


def layout(made: Schema, *references: Reference) -> TableLayout:
    config = TabletConfig("t.1", "t", RowRange(), references=references)
    return TableLayout(made, RangeMap([config]))


def test_t76_the_four_priorities() -> None:
    store = new_store()
    both = fragment(store, [cell(b"a", "f"), cell(b"b", "g")])
    only_f = fragment(store, [cell(b"a", "f")])
    only_x = fragment(store, [cell(b"a", "x")])
    made = Schema(
        [
            Group("one", families=["f"], in_memory=True),
            Group("two", families=["g"], in_memory=True),
            Group("rest"),
        ]
    )
    f, g = ColumnSet.of(["f"]), ColumnSet.of(["g"])

    def priorities(*references: Reference) -> list[Priority]:
        return [priority for priority, _ in wanted_files(layout(made, *references)).values()]

    assert priorities(Reference(only_f, columns=f)) == [Priority.ONE_GROUP]
    assert priorities(Reference(both, columns=f)) == [Priority.ONE_GROUP]
    assert priorities(Reference(both, columns=f), Reference(both, columns=g)) == [
        Priority.SEVERAL_GROUPS
    ]
    assert priorities(Reference(only_x, columns=made.column_set("rest"))) == []
    some = Schema([Group("one", families=["f"], in_memory=True), Group("rest")])
    shown = layout(
        some, Reference(both, columns=f), Reference(both, columns=some.column_set("rest"))
    )
    ((priority, references),) = wanted_files(shown).values()
    assert priority is Priority.SOME_COLUMNS
    assert [reference.columns for reference in references] == [f]


def test_a_file_of_row_erasures_is_kept_only_for_groups_that_read_it() -> None:
    store = new_store()
    erasures = fragment(store, [Cell(b"a", "", b"", 1, b"", op=Op.ERASE_ROW, txn=1)])
    made = schema()
    hot, cold = made.column_set("hot"), made.column_set("cold")
    assert not wanted_files(layout(made, Reference(erasures, columns=cold)))
    assert wanted_files(layout(made, Reference(erasures, columns=hot)))
