"""What is asked of a tablet engine as a whole, each by its number, on a store in memory.

Most requirements have tests beside the module that meets them; here are those that only the parts
together meet. ``tests/style/test_requirement_numbers.py`` knows which there are.
"""

from __future__ import annotations

import io
import random
from collections import Counter

import pyarrow.parquet as pq
import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.failpoints import counting
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import (
    Conflict,
    Corruption,
    InvalidSchema,
    SteleError,
    TableNotFound,
)
from stele.kernels.order import first_disorder
from stele.model.groups import Group
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.storage.log_writer import AFTER_SYNC
from stele.tablet.options import EngineOptions
from tests.unit.tablet.engine_support import (
    BY_HAND,
    ONE_GROUP,
    TWO_GROUPS,
    config_of,
    erase_row,
    memory_world,
    open_backend,
    put,
    puts,
    reopened,
    scan,
    values,
)

ROWS = [b"row%03d" % number for number in range(40)]
RANDOM_STEPS = 120


def new_table(
    schema: Schema = TWO_GROUPS, options: EngineOptions = BY_HAND
) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world(), options)
    return backend, backend.create_table("t", schema)


def files_of(backend: EmbeddedBackend) -> MemoryFileSystem:
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    return files


def fragment_bytes(backend: EmbeddedBackend, table: EmbeddedTable) -> dict[str, bytes]:
    store = backend.store.user.fragments
    names = {name for info in table.tablets() for name in info.details["files"]}
    return {name: files_of(backend).read_all(store.path(name)) for name in names}


# Tablets.


def test_t2_what_can_be_done_with_the_files_of_a_tablet() -> None:
    """List, measure, add, find the middle, share in a split, replace in a compaction."""
    backend, table = new_table(ONE_GROUP)
    for _ in range(2):
        for row in ROWS:
            put(table, row)
        table.flush()
    (whole,) = table.tablets()
    assert whole.fragments == len(whole.details["files"]) == 2
    assert whole.size_bytes == sum(map(len, fragment_bytes(backend, table).values()))
    assert ROWS[0] <= table.sample_keys(1)[0] <= ROWS[-1]
    table.split(ROWS[20])
    lower, upper = table.tablets()
    assert lower.details["files"] == upper.details["files"] == whole.details["files"]
    table.compact(RowRange(b"", ROWS[20]))
    lower, upper = table.tablets()
    assert not set(lower.details["files"]) & set(upper.details["files"])
    assert upper.details["files"] == whole.details["files"]


def test_t19_a_table_is_found_by_its_name() -> None:
    backend, table = new_table()
    assert backend.table("t").id == table.id
    with pytest.raises(TableNotFound, match="did you mean 't'"):
        backend.table("tt")


def test_t78_a_loaded_table_is_what_meta_and_the_catalog_say() -> None:
    backend, table = new_table(Schema([Group("a", ["f"], compression="lz4"), Group("b")]))
    for row in ROWS:
        put(table, row)
    table.flush()
    table.split(ROWS[7])
    expected = [(info.rows, info.details["files"]) for info in table.tablets()]
    again = reopened(backend).table("t")
    assert again.schema == table.schema
    assert [(info.rows, info.details["files"]) for info in again.tablets()] == expected


def test_t80_the_files_of_every_group_are_there_after_opening() -> None:
    backend, table = new_table()
    for _ in range(2):
        for family in ("f", "g", "h"):
            put(table, b"a", family.encode(), family)
        table.flush()
    again = reopened(backend).table("t")
    schema = again.schema
    for group in schema.groups:
        columns = schema.column_set(group)
        held = [r for r in config_of(again, b"a").references if columns.covers(r.columns)]
        assert len(held) == 2, group.name
    assert values(again) == {(b"a", family): family.encode() for family in ("f", "g", "h")}


def test_t84_a_table_is_unknown_or_active() -> None:
    backend, table = new_table()
    put(table, b"a")
    backend.drop_table("t")
    for call in (lambda: backend.table("t"), lambda: put(table, b"b")):
        with pytest.raises(TableNotFound):
            call()
    assert {info.state for info in backend.undrop_table("t").tablets()} == {"active"}


# The log.


def test_t30_t31_t32_many_commits_share_one_sync_and_all_hear_of_it() -> None:
    backend, table = new_table()
    other = backend.create_table("u", TWO_GROUPS)
    with counting() as passes:
        pending = [t.apply(puts((row, "f", b"v"))) for row in ROWS for t in (table, other)]
        heard: list[SteleError | None] = []
        pending[-1].wait()
        for one in pending:
            one.then(heard.append)
    assert passes[AFTER_SYNC] == 1
    assert heard == [None] * len(pending)
    assert table.durable_txn() >= max(one.txn for one in pending)


def test_t33_a_log_file_ends_at_its_size_and_goes_when_all_of_it_is_in_fragments() -> None:
    backend, table = new_table(options=EngineOptions(background=False, log_file_bytes=2_000))
    for row in ROWS:
        put(table, row, b"v" * 200)
    log = backend.store.user.log
    many = len(log.files)
    assert many > 3
    assert all(file.size_bytes < 4_000 for file in log.files)
    table.flush()
    put(table, b"a")
    assert len(log.files) < many


def test_t36_whoever_waits_for_a_commit_is_called_when_it_is_durable() -> None:
    backend, table = new_table()
    heard: list[int] = []
    pending = table.apply(puts((b"a", "f", b"v")))
    pending.then(lambda _error: heard.append(backend.store.user.durable_txn))
    pending.wait()
    assert heard
    assert heard[0] >= pending.txn


def test_t90_a_damaged_log_is_noticed_by_its_checksum() -> None:
    backend, table = new_table()
    for row in ROWS:
        put(table, row, b"v" * 100)
    files = files_of(backend).restarted()
    directory = backend.store.user.log_directory
    (name,) = [one for one in files.list(directory) if not one.isupper()]
    path = f"{directory}/{name}"
    data = bytearray(files.read_all(path))
    data[len(data.rstrip(b"\x00")) // 2] ^= 1  # behind its entries a file may be reserved
    files.delete(path)
    files.create_exclusive(path, bytes(data))
    with pytest.raises(Corruption, match=name):
        open_backend(memory_world(files))


# Fragments.


def test_t55_t66_a_fragment_is_sorted_unique_unchanging_and_of_one_group() -> None:
    backend, table = new_table()
    for row in reversed(ROWS):
        put(table, row, family="f")
        put(table, row, family="g")
    table.flush()
    before = fragment_bytes(backend, table)
    families = Counter(
        reference.file.summary.families for reference in config_of(table, b"a").references
    )
    assert families == {("f",): 1, ("g",): 1}
    for reference in config_of(table, b"a").references:
        reader = backend.store.user.fragments.open(reference.file).reader
        for block in reader.blocks(RowRange()):
            assert first_disorder(block.batch) == -1
    erase_row(table, ROWS[0])
    table.flush()
    table.split(ROWS[9])
    table.compact(RowRange(b"", ROWS[9]))
    after = fragment_bytes(backend, table)
    assert {name: after[name] for name in before} == before


def test_t56_a_fragment_knows_the_largest_txn_in_it() -> None:
    _, table = new_table(ONE_GROUP)
    for row in ROWS:
        put(table, row)
    last = table.durable_txn()
    table.flush()
    put(table, b"later")
    table.flush()
    first, second = config_of(table, b"a").references
    assert first.file.summary.txn_max == last < second.file.summary.txn_min
    table.compact()
    (merged,) = config_of(table, b"a").references
    assert merged.file.summary.txn_max == second.file.summary.txn_max


@pytest.mark.parametrize("compression", ["none", "zstd:3", "lz4", "snappy"])
def test_t58_t91_files_are_kept_as_their_group_says(compression: str) -> None:
    group = Group(
        "a", ["f"], purge="max-history=2", compression=compression, block_cells=256, in_memory=True
    )
    backend, table = new_table(Schema([group, Group("b")]))
    for number in range(600):
        put(table, b"row%04d" % number)
    table.flush()
    (data,) = fragment_bytes(backend, table).values()
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    assert metadata.num_row_groups == 3
    codec = metadata.row_group(0).column(0).compression
    assert (
        codec.lower()
        .removeprefix("un")
        .startswith({"none": "compressed"}.get(compression, compression.partition(":")[0]))
    )
    assert reopened(backend).table("t").schema.group("a") == group
    stream = table.scan(ScanSpec(ranges=(RowRange.row(b"row0300"),)))
    assert sum(batch.num_rows for batch in stream) == 1
    told = stream.explain()
    assert told["blocks_from_disk"] + told["blocks_from_cache"] == 1, "a row is found by seeking"


# Schemas.


def test_t68_t73_a_family_has_one_group_and_at_most_one_group_takes_the_rest() -> None:
    with pytest.raises(InvalidSchema, match="'f'"):
        Schema([Group("a", ["f"]), Group("b", ["f"])])
    with pytest.raises(InvalidSchema):
        Schema([Group("a"), Group("b")])
    assert Schema([Group("a", ["f"])]).allows("f")
    assert not Schema([Group("a", ["f"])]).allows("g")
    assert Schema([Group("a", ["f"]), Group("b")]).allows("g")


def test_t72_of_two_changes_made_from_one_schema_one_fails() -> None:
    backend, table = new_table()
    schema = table.schema
    backend.alter_table("t", schema.replace(groups=[Group("one")], version=schema.version + 1))
    with pytest.raises(Conflict, match="current schema"):
        backend.alter_table("t", schema.replace(groups=[Group("two")], version=schema.version + 1))
    assert [group.name for group in table.schema.groups] == ["one"]


def test_t74_an_invalid_schema_leaves_the_last_valid_one_in_force() -> None:
    backend, table = new_table()
    put(table, b"a")
    with pytest.raises(InvalidSchema):
        table.schema.replace(groups=[Group("a", ["f"]), Group("b", ["f"])], version=2)
    assert table.schema == TWO_GROUPS
    assert values(reopened(backend).table("t")) == {(b"a", "f"): b"v"}


GROUPINGS = (
    [Group("all")],
    [Group("a", ["f"]), Group("b")],
    [Group("a", ["g", "f"]), Group("b", ["h"]), Group("c")],
    [Group("b", ["f"]), Group("a", ["g"]), Group("c")],
)


def change_something(backend: EmbeddedBackend, table: EmbeddedTable, dice: random.Random) -> str:
    """Do something that must not change what is read; its name."""
    borders = [info.rows.start for info in table.tablets()][1:]
    name = dice.choice(["flush", "compact", "split", "regroup", *(["join"] if borders else [])])
    if name == "split":
        table.split(dice.choice(ROWS))
    elif name == "join":
        table.join(dice.choice(borders))
    elif name == "regroup":
        schema = table.schema
        new = schema.replace(groups=dice.choice(GROUPINGS), version=schema.version + 1)
        backend.alter_table("t", new)
    else:
        getattr(table, name)()
    return name


def test_t103_every_operation_is_defined_while_groups_change() -> None:
    """Flush, compact, scan, load, split, join and regroup in any order give the same cells."""
    dice = random.Random(103)
    backend, table = new_table()
    expected: dict[tuple[bytes, str], bytes] = {}
    done: Counter[str] = Counter()
    for step in range(RANDOM_STEPS):
        row, family = dice.choice(ROWS), dice.choice("fgh")
        if dice.random() < 0.5:
            expected[row, family] = b"%d" % step
            put(table, row, b"%d" % step, family)
        elif dice.random() < 0.2:
            erase_row(table, row)
            expected = {place: value for place, value in expected.items() if place[0] != row}
        elif dice.random() < 0.1:
            backend = reopened(backend)
            table = backend.table("t")
            done["load"] += 1
        else:
            done[change_something(backend, table, dice)] += 1
        assert values(table) == expected, step
    assert done.keys() == {"flush", "compact", "split", "join", "regroup", "load"}
    assert len(scan(table)) == len(expected)
