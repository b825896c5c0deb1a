"""Change feeds over whole stores: told again, they make the same table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.memory import MemoryClock
from stele.errors import InvalidArgument, SnapshotTooOld
from stele.model.cells import TIMESTAMP_MAX, Cell, Op, batch_to_cells
from stele.model.columns import EVERY_COLUMN
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.storage.change_lines import net_cell_lines
from stele.storage.change_reader import ChangeReader
from stele.storage.change_window import ChangeWindow
from stele.storage.read_plan import ReadPlan
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    erase_row,
    memory_world,
    open_backend,
    put,
    reopened,
    scan,
)
from tests.unit.tablet.import_support import import_cells, new_cell, row_erasure

HOUR_US = 3_600_000_000
WHOLE = CellSpec(versions=None)

Line = dict[str, Any]


def new_table(schema: Schema = TWO_GROUPS) -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", schema, [b"k5"])


def clock_of(backend: EmbeddedBackend) -> MemoryClock:
    clock = backend.store.world.clock
    assert isinstance(clock, MemoryClock)
    return clock


def reader(backend: EmbeddedBackend, plan: ReadPlan, since: int, until: int) -> ChangeReader:
    files = backend.store.world.files
    return ChangeReader(files, plan.location, since, until, plan.schema.served)


def mutations(
    backend: EmbeddedBackend, table: EmbeddedTable, since: int, until: int | None = None
) -> list[Cell]:
    """All mutations of a range, tablet by tablet, by txn in each."""
    plan = table.pin_changes(since, until, HOUR_US)
    source = reader(backend, plan, since, plan.txn)
    found = []
    for tablet in plan.tablets:
        window = ChangeWindow(cells_max=5)
        batches = source.mutations(tablet.references, tablet.rows, EVERY_COLUMN, window)
        part = [cell for batch in batches for cell in batch_to_cells(batch)]
        assert part == sorted(part, key=lambda cell: (cell.txn, cell.key()))
        found += part
    table.release_pin(plan.lease)
    return sorted(found, key=lambda cell: (cell.txn, cell.key()))


def net(
    backend: EmbeddedBackend,
    table: EmbeddedTable,
    since: int,
    until: int | None = None,
    spec: CellSpec = WHOLE,
) -> list[Line]:
    """The net changes of a range."""
    plan = table.pin_changes(since, until, HOUR_US)
    source = reader(backend, plan, since, plan.txn)
    lines = [
        line
        for tablet in plan.tablets
        for part in source.net(tablet.references, tablet.rows, spec)
        for line in net_cell_lines(part, by_version=spec.versions != 1).to_pylist()
    ]
    table.release_pin(plan.lease)
    return lines


def kinds(lines: Iterable[Line]) -> list[tuple[str, bytes, bytes]]:
    return [(line["_change_type"], line["row"], line["value"]) for line in lines]


def visible(table: EmbeddedTable, **spec: Any) -> set[tuple[Any, ...]]:
    return {
        (cell.row, cell.family, cell.qualifier, cell.timestamp, cell.value)
        for cell in scan(table, versions=None, **spec)
    }


def replay(table: EmbeddedTable, cells: Iterable[Cell]) -> None:
    """Commit mutations again, each commit by itself."""
    for _, commit in groupby(cells, key=lambda cell: cell.txn):
        batch = MutationBatch()
        for cell in commit:
            add(batch, cell)
        table.apply(batch).wait()


def add(batch: MutationBatch, cell: Cell) -> None:
    if cell.op is Op.PUT:
        batch.put(cell.row, cell.family, cell.qualifier, cell.value, cell.timestamp)
    elif cell.op is Op.ERASE_ROW:
        batch.erase_row(cell.row, cell.timestamp)
    elif cell.op is Op.ERASE_FAMILY:
        batch.erase_family(cell.row, cell.family, cell.timestamp)
    elif cell.op is Op.ERASE_COLUMN:
        batch.erase_column(cell.row, cell.family, cell.qualifier, cell.timestamp)
    else:
        batch.erase_cell(cell.row, cell.family, cell.qualifier, cell.timestamp)


def follow(replica: dict[tuple[Any, ...], bytes], lines: Iterable[Line]) -> None:
    """Apply net changes to a replica, which must fit."""
    for line in lines:
        place = (line["row"], line["family"], line["qualifier"], line["timestamp"])
        kind = line["_change_type"]
        if kind in ("delete", "update_preimage"):
            assert replica.pop(place) == line["value"]
        else:
            assert place not in replica
            replica[place] = line["value"]


def test_net_changes_have_four_types() -> None:
    backend, table = new_table()
    put(table, b"a", b"gone")
    put(table, b"b", b"old")
    put(table, b"k9", b"same")
    since = table.durable_txn()
    erase_row(table, b"a")
    last = put(table, b"b", b"new")
    put(table, b"c", b"added")
    put(table, b"d", b"passing")
    erase_row(table, b"d")
    table.flush()
    lines = net(backend, table, since, spec=CellSpec())
    assert kinds(lines) == [
        ("delete", b"a", b"gone"),
        ("update_preimage", b"b", b"old"),
        ("update_postimage", b"b", b"new"),
        ("insert", b"c", b"added"),
    ]
    assert {line["_commit_version"] for line in lines if line["row"] == b"b"} == {last}
    assert net(backend, table, table.durable_txn()) == []


def test_mutations_are_told_by_txn_with_their_erasures() -> None:
    backend, table = new_table()
    since = put(table, b"a", b"before")
    put(table, b"z", b"1")
    erase_row(table, b"a")
    put(table, b"a", b"2", family="g")
    found = mutations(backend, table, since)
    assert [(cell.row, cell.op, cell.value) for cell in found] == [
        (b"z", Op.PUT, b"1"),
        (b"a", Op.ERASE_ROW, b""),
        (b"a", Op.PUT, b"2"),
    ]
    assert mutations(backend, table, since, found[1].txn) == found[:2]


def test_an_import_is_told_at_its_txn() -> None:
    backend, table = new_table()
    since = put(table, b"a", b"old")
    txn = import_cells(backend, table, "job", [new_cell(b"a"), new_cell(b"k9", family="g")])
    put(table, b"a", b"later")
    assert mutations(backend, table, since, txn - 1) == []
    found = mutations(backend, table, since, txn)
    assert {(cell.row, cell.txn) for cell in found} == {(b"a", txn), (b"k9", txn)}
    table.compact()
    assert mutations(backend, table, since, txn) == found
    assert mutations(backend, table, txn - 1, txn) == found
    assert mutations(backend, table, txn, txn) == []


def test_what_is_below_the_horizon_is_refused_with_the_remedy() -> None:
    schema = Schema([Group("all", purge="max-history=1", block_cells=256)], history=0)
    backend, table = new_table(schema)
    first = put(table, b"a", b"one")
    put(table, b"a", b"two")
    table.flush()
    clock_of(backend).advance(HOUR_US)
    table.compact()
    with pytest.raises(SnapshotTooOld, match=r"forgotten.*begins at.*again from 0"):
        table.pin_changes(first, None, HOUR_US)
    assert [cell.value for cell in mutations(backend, table, 0)] == [b"two"]
    assert kinds(net(backend, table, 0)) == [("insert", b"a", b"two")]
    with pytest.raises(SnapshotTooOld, match="history begins at"):
        table.pin_changes(0, first, HOUR_US)


def test_a_feed_holds_history_while_it_holds_its_pin() -> None:
    backend, table = new_table(Schema([Group("all", block_cells=256)], history=0))
    since = put(table, b"a", b"one")
    plan = table.pin_changes(since, None, 2 * HOUR_US)
    put(table, b"a", b"two")
    table.flush()
    clock_of(backend).advance(HOUR_US)
    backend = reopened(backend)
    table = backend.table("t")
    put(table, b"a", b"three")
    table.compact()
    assert [cell.value for cell in mutations(backend, table, since)] == [b"two", b"three"]
    table.release_pin(plan.lease)
    table.compact()
    with pytest.raises(SnapshotTooOld):
        table.pin_changes(since, None, HOUR_US)


def test_a_pin_from_the_beginning_holds_all_that_is_left() -> None:
    backend, table = new_table(Schema([Group("all", block_cells=256)], history=HOUR_US))
    txns = [put(table, b"a", b"%d" % number) for number in range(4)]
    plan = table.pin_changes(0, None, HOUR_US)
    assert plan.first_txn == 0
    clock_of(backend).advance(3 * HOUR_US // 2)
    table.compact()
    for since, until in pairwise([0, *txns]):
        source = reader(backend, plan, since, until)
        found = [
            cell.txn
            for tablet in plan.tablets
            for batch in source.mutations(tablet.references, tablet.rows, EVERY_COLUMN)
            for cell in batch_to_cells(batch)
        ]
        assert found == [until]


def test_an_empty_range_holds_history_and_nothing_else() -> None:
    backend, table = new_table(Schema([Group("all", block_cells=256)], history=0))
    since = put(table, b"a", b"one")
    plan = table.pin_changes(since, since, 2 * HOUR_US)
    assert (plan.txn, plan.first_txn, plan.tablets) == (since, since, ())
    assert backend.store.world.files.list("fragments") == []
    put(table, b"a", b"two")
    clock_of(backend).advance(HOUR_US)
    table.compact()
    assert [cell.value for cell in mutations(backend, table, since)] == [b"two"]


def test_a_truncation_ends_a_feed() -> None:
    backend, table = new_table()
    since = put(table, b"a")
    table.truncate(RowRange(b"x"))
    with pytest.raises(SnapshotTooOld, match="forgotten"):
        table.pin_changes(since, None, HOUR_US)
    assert kinds(net(backend, table, 0)) == [("insert", b"a", b"v")]
    with pytest.raises(SnapshotTooOld):
        table.pin_changes(0, since, HOUR_US)


def test_looking_says_how_far_a_feed_reaches() -> None:
    backend, table = new_table()
    other = backend.create_table("other", TWO_GROUPS)
    txn = put(table, b"a")
    assert table.look_for_changes(txn - 1) == (txn, True)
    assert table.look_for_changes(txn) == (txn, False)
    later = put(other, b"a")
    assert table.look_for_changes(txn) == (later, False), "an idle table moves on with the rest"
    table.flush()
    assert table.look_for_changes(txn)[1] is False
    assert table.look_for_changes(txn - 1)[1] is True
    import_cells(backend, table, "job", [new_cell(b"a")])
    assert table.look_for_changes(later)[1] is True


@pytest.mark.parametrize(("since", "until"), [(-1, None), (5, 4), (1 << 64, None)])
def test_a_range_rises(since: int, until: int | None) -> None:
    _, table = new_table()
    with pytest.raises(InvalidArgument, match="rising"):
        table.pin_changes(since, until, HOUR_US)


def test_a_feed_may_begin_at_this_very_moment() -> None:
    backend, table = new_table()
    put(table, b"a")
    since = table.durable_txn() + 5
    plan = table.pin_changes(since, None, HOUR_US)
    assert plan.txn == since
    late = put(table, b"a", b"late")
    assert [cell.txn for cell in mutations(backend, table, since)] == [late]


# ---- whatever happens to a table, its feed tells the same ----------------------------------

ROW = st.integers(0, 9)
COLUMN = st.tuples(st.sampled_from("fgh"), st.sampled_from([b"", b"p", b"q"]))
TIME = st.sampled_from([10, 20, 30])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), ROW, COLUMN, st.one_of(st.none(), TIME)),
        st.tuples(
            st.sampled_from(["erase_row", "erase_family", "erase_column", "erase_cell"]),
            ROW,
            COLUMN,
            st.one_of(st.just(TIMESTAMP_MAX), TIME),
        ),
        st.tuples(
            st.sampled_from(["flush", "compact", "split", "join", "import", "mark", "regroup"]),
            ROW,
            COLUMN,
            st.just(0),
        ),
    ),
    max_size=30,
)


def act(backend: EmbeddedBackend, table: EmbeddedTable, number: int, step: tuple[Any, ...]) -> None:
    name, key, (family, qualifier), time = step
    row, value = b"k%d" % key, b"%d" % number
    batch = MutationBatch()
    if name == "put":
        batch.put(row, family, qualifier, value, time)
    elif name == "erase_row":
        batch.erase_row(row, time)
    elif name == "erase_family":
        batch.erase_family(row, family, time)
    elif name == "erase_column":
        batch.erase_column(row, family, qualifier, time)
    elif name == "erase_cell":
        batch.erase_cell(row, family, qualifier, 10 if time == TIMESTAMP_MAX else time)
    elif name == "flush":
        table.flush()
    elif name == "compact":
        table.compact(RowRange(row))
    elif name == "split":
        table.split(row)
    elif name == "join" and any(one.rows.start == row for one in table.tablets()):
        table.join(row)
    elif name == "import":
        cells = [row_erasure(row), new_cell(b"k%d" % (9 - key), value, family)]
        import_cells(backend, table, f"job{number}", cells)
    elif name == "regroup":
        version = table.schema.version + 1
        groups = [Group("all")] if number % 2 else [Group("a", ["g"]), Group("b")]
        backend.alter_table("t", Schema(groups, version=version))
    if batch:
        table.apply(batch).wait()


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_a_feed_told_again_makes_the_same_table(steps: list[tuple[Any, ...]]) -> None:
    """In ranges of any size: no gap, nothing twice; from zero, or from the middle."""
    backend, table = new_table()
    marks, told = [0], []
    replica: dict[tuple[Any, ...], bytes] = {}
    for number, step in enumerate([*steps, ("mark", 0, ("f", b"q"), 0)]):
        act(backend, table, number, step)
        if step[0] == "mark" and table.durable_txn() > marks[-1]:
            marks.append(table.durable_txn())
            told += mutations(backend, table, marks[-2], marks[-1])
            follow(replica, net(backend, table, marks[-2], marks[-1]))
    expected = visible(table)
    assert {(*place, value) for place, value in replica.items()} == expected
    assert told == mutations(backend, table, 0)
    copy = backend.create_table("copy", TWO_GROUPS, [b"k3"])
    replay(copy, told)
    assert visible(copy) == expected
    for middle in marks:
        again = {place[:4]: place[4] for place in visible(table, at=middle)} if middle else {}
        follow(again, net(backend, table, middle))
        assert {(*place, value) for place, value in again.items()} == expected


@given(STEPS)
@settings(max_examples=30, deadline=None)
def test_what_is_left_below_the_horizon_makes_the_same_table(steps: list[tuple[Any, ...]]) -> None:
    """Under the same purge policy, when both are compacted; nothing is kept for history."""
    schema = Schema([Group("all", purge="max-history=1", block_cells=256)], history=0)
    backend, table = new_table(schema)
    for number, step in enumerate(steps):
        if step[0] != "regroup":
            act(backend, table, number, step)
            clock_of(backend).advance(1_000)
    told = mutations(backend, table, 0)
    copy = backend.create_table("copy", schema)
    replay(copy, told)
    lines = net(backend, table, 0, spec=CellSpec())
    newest = {(cell.row, cell.family, cell.qualifier, cell.value) for cell in scan(table)}
    assert {(x["row"], x["family"], x["qualifier"], x["value"]) for x in lines} == newest
    for one in (table, copy):
        clock_of(backend).advance(HOUR_US)
        backend.store.user.advance_clock().wait()
        one.compact()
    assert visible(copy) == visible(table)
