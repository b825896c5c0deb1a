"""Building batches, and what a commit makes of them, against plain cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model import limits
from stele.model.cells import (
    CELLS,
    MUTATIONS,
    TIMESTAMP_MAX,
    TIMESTAMP_MIN,
    Cell,
    Op,
    batch_to_cells,
)
from stele.model.mutations import MutationBatch, stamp
from stele.model.schema import Schema
from stele.model.validation import validate_cells, validate_mutations
from tests.unit.model.strategies import distinct_mutations, mutations


def add(batch: MutationBatch, cell: Cell) -> None:
    bound = None if cell.timestamp == TIMESTAMP_MAX else cell.timestamp
    match cell.op:
        case Op.PUT:
            batch.put(cell.row, cell.family, cell.qualifier, cell.value, bound)
        case Op.ERASE_CELL:
            batch.erase_cell(cell.row, cell.family, cell.qualifier, cell.timestamp)
        case Op.ERASE_COLUMN:
            batch.erase_column(cell.row, cell.family, cell.qualifier, bound)
        case Op.ERASE_FAMILY:
            batch.erase_family(cell.row, cell.family, bound)
        case Op.ERASE_ROW:
            batch.erase_row(cell.row, bound)


def build(cells: list[Cell]) -> MutationBatch:
    batch = MutationBatch()
    for cell in cells:
        add(batch, cell)
    return batch


@given(distinct_mutations)
def test_a_batch_is_sorted_and_legal(cells: list[Cell]) -> None:
    batch = build(cells)
    arrow = batch.to_arrow()
    assert arrow.schema.equals(MUTATIONS)
    validate_mutations(arrow, Schema())
    expected = sorted(cells, key=Cell.key)
    assert batch_to_cells(arrow) == list(batch.cells()) == expected
    assert len(batch) == len(cells)
    assert batch.size_bytes == sum(len(c.row + c.qualifier + c.value) for c in cells)


@given(st.lists(mutations(), min_size=1, max_size=10), st.data())
def test_duplicates_are_refused_by_name(cells: list[Cell], data: st.DataObject) -> None:
    twice = data.draw(st.sampled_from(cells))
    batch = build([*cells, twice])
    with pytest.raises(InvalidCells, match="is twice in one batch"):
        batch.to_arrow()


def test_the_error_names_row_and_column() -> None:
    batch = MutationBatch()
    batch.put(b"ada", "info", b"age", b"1", timestamp=7)
    batch.put(b"ada", "info", b"age", b"2", timestamp=7)
    with pytest.raises(InvalidCells, match="put of row b'ada', column 'info:age' at 7 is twice"):
        batch.records()


def test_erasures_precede_puts() -> None:
    batch = MutationBatch()
    batch.put(b"r", "f", b"q", b"v", timestamp=9)
    batch.erase_cell(b"r", "f", b"q", 9)
    batch.erase_column(b"r", "f", b"q", 9)
    batch.erase_family(b"r", "f")
    batch.erase_row(b"r")
    ops = [cell.op for cell in batch.cells()]
    assert ops == [Op.ERASE_ROW, Op.ERASE_FAMILY, Op.ERASE_COLUMN, Op.ERASE_CELL, Op.PUT]


def test_an_unbounded_erasure_may_say_so() -> None:
    batch = MutationBatch()
    batch.erase_row(b"r", TIMESTAMP_MAX)
    assert next(batch.cells()).timestamp == TIMESTAMP_MAX


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("text", "f", b"q", b"v"), "str"),
        ((b"", "f", b"q", b"v"), "at least one byte"),
        ((b"r", "", b"q", b"v"), "at least one character"),
        ((b"r", "_retry", b"q", b"v"), "reserved"),
        ((b"r", "f", "q", b"v"), "qualifier is bytes"),
        ((b"r", "f", b"q", "v"), "value is bytes"),
        ((b"r", "f", b"q", b"v", 1.5), "whole number"),
        ((b"r", "f", b"q", b"v", True), "whole number"),
        ((b"r", "f", b"q", b"v", TIMESTAMP_MAX), str(TIMESTAMP_MAX)),
        ((b"r", "f", b"q", b"v", TIMESTAMP_MIN - 1), "not within"),
        ((b"r" * (limits.ROW_BYTES_MAX + 1), "f", b"q", b"v"), "over the limit"),
        ((b"r", "f", b"q" * (limits.QUALIFIER_BYTES_MAX + 1), b"v"), "over the limit"),
        ((b"r", "f", b"q", bytes(limits.VALUE_BYTES_MAX + 1)), "over the limit"),
    ],
)
def test_bad_puts_are_refused_and_leave_no_trace(
    arguments: tuple[object, ...], reason: str
) -> None:
    batch = MutationBatch()
    with pytest.raises(InvalidArgument, match=reason):
        batch.put(*arguments)  # type: ignore[arg-type]
    assert len(batch) == batch.size_bytes == 0
    batch.put(b"r", "f", b"q", b"v")
    assert batch.to_arrow().num_rows == 1


def test_a_cell_erasure_needs_a_timestamp() -> None:
    for wrong in (None, TIMESTAMP_MAX):
        with pytest.raises(InvalidArgument):
            MutationBatch().erase_cell(b"r", "f", b"q", wrong)  # type: ignore[arg-type]


def test_batches_are_joined_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, other = MutationBatch(), MutationBatch()
    batch.put(b"b", "f", b"q", b"v")
    other.put(b"a", "g", b"q", b"w")
    other.erase_row(b"c")
    batch.extend(other)
    assert [cell.row for cell in batch.cells()] == [b"a", b"b", b"c"]
    assert batch.size_bytes == 7
    monkeypatch.setattr("stele.model.mutations.BATCH_CELLS_MAX", 4)
    with pytest.raises(LimitExceeded, match="5 cells"):
        batch.extend(other)
    assert len(batch) == 3


def test_a_full_batch_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stele.model.mutations.BATCH_CELLS_MAX", 1)
    batch = MutationBatch()
    batch.put(b"r", "f", b"q", b"v")
    with pytest.raises(LimitExceeded, match="1 cells"):
        batch.put(b"s", "f", b"q", b"v")
    monkeypatch.setattr("stele.model.mutations.BATCH_BYTES_MAX", 2)
    with pytest.raises(LimitExceeded, match="2 bytes"):
        MutationBatch().put(b"r", "f", b"q", b"v")


def stamped(cells: list[Cell], txn: int) -> list[Cell]:
    """What a commit means, cell by cell. The put without a timestamp wins a tie."""
    result: dict[object, Cell] = {}
    unset_first = sorted(cells, key=Cell.key)
    for cell in unset_first:
        unset = cell.op == Op.PUT and cell.timestamp == TIMESTAMP_MAX
        at = txn if unset else cell.timestamp
        done = Cell(cell.row, cell.family, cell.qualifier, at, cell.value, cell.op, txn)
        result.setdefault(done.key(), done)
    return sorted(result.values(), key=Cell.key)


@given(distinct_mutations, st.sampled_from([1, 2, 3, 10**15, TIMESTAMP_MAX - 1]))
def test_stamp(cells: list[Cell], txn: int) -> None:
    batch = stamp(build(cells).to_arrow(), txn)
    assert batch.schema.equals(CELLS)
    validate_cells(batch, Schema())
    assert batch_to_cells(batch) == stamped(cells, txn)


@pytest.mark.parametrize("other", [4, 5, 6, TIMESTAMP_MIN])
def test_stamp_sorts_again_only_around_the_txn(other: int) -> None:
    batch = MutationBatch()
    batch.put(b"r", "f", b"q", b"unset")
    batch.put(b"r", "f", b"q", b"explicit", timestamp=other)
    cells = batch_to_cells(stamp(batch.to_arrow(), 5))
    values = {4: [b"unset", b"explicit"], 5: [b"unset"], 6: [b"explicit", b"unset"]}
    assert [cell.value for cell in cells] == values.get(other, [b"unset", b"explicit"])


def test_stamp_puts_an_erasure_at_the_txn_before_the_put() -> None:
    batch = MutationBatch()
    batch.put(b"r", "f", b"q", b"v")
    batch.erase_column(b"r", "f", b"q", 5)
    assert [cell.op for cell in batch_to_cells(stamp(batch.to_arrow(), 5))] == [
        Op.ERASE_COLUMN,
        Op.PUT,
    ]


def test_stamp_of_a_slice_and_of_nothing() -> None:
    batch = build([Cell(b"%d" % row, "f", b"", TIMESTAMP_MAX, b"v") for row in range(5)]).to_arrow()
    cells = batch_to_cells(stamp(batch.slice(2, 2), 7))
    assert [(cell.row, cell.timestamp, cell.txn) for cell in cells] == [(b"2", 7, 7), (b"3", 7, 7)]
    assert stamp(MutationBatch().to_arrow(), 7).num_rows == 0


PLACES = st.sampled_from(["f:x", "f:y", "g:x"])
TIMES = st.sampled_from([None, 3, 5])
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "row", "family", "column", "cell"]), PLACES, TIMES),
    max_size=8,
)


@given(STEPS)
def test_batches_in_turn_do_what_they_do_one_after_the_other(
    steps: list[tuple[str, str, int | None]],
) -> None:
    parts: list[MutationBatch] = []
    left: dict[tuple[str, int | None], bytes] = {}
    for number, (step, place, time) in enumerate(steps):
        family, _, qualifier = place.partition(":")
        part = MutationBatch()
        bound = TIMESTAMP_MAX if time is None else time

        def older(at: int | None, bound: int = bound) -> bool:
            return (TIMESTAMP_MAX if at is None else at) <= bound

        if step == "put":
            part.put(b"r", family, qualifier.encode(), b"%d" % number, time)
            left[place, time] = b"%d" % number
        elif step == "row":
            part.erase_row(b"r", time)
            left = {key: value for key, value in left.items() if not older(key[1])}
        elif step == "family":
            part.erase_family(b"r", family, time)
            left = {
                key: value
                for key, value in left.items()
                if key[0].partition(":")[0] != family or not older(key[1])
            }
        elif step == "column":
            part.erase_column(b"r", family, qualifier.encode(), time)
            left = {k: value for k, value in left.items() if k[0] != place or not older(k[1])}
        else:
            part.erase_cell(b"r", family, qualifier.encode(), time or 3)
            left.pop((place, time or 3), None)
        parts.append(part)
    whole = MutationBatch.in_turn(parts)
    puts = {
        (
            f"{cell.family}:{cell.qualifier.decode()}",
            None if cell.timestamp == TIMESTAMP_MAX else cell.timestamp,
        ): cell.value
        for cell in whole.cells()
        if cell.op is Op.PUT
    }
    assert puts == left
    erasures = {r[:6] for part in parts for r in part.records() if r[5] != Op.PUT}
    assert {r[:6] for r in whole.records() if r[5] != Op.PUT} == erasures


def test_batches_in_turn_have_the_limits_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stele.model.mutations.BATCH_CELLS_MAX", 2)
    parts = [MutationBatch() for _ in range(3)]
    for number, part in enumerate(parts):
        part.put(b"r", "f", b"%d" % number, b"v")
    assert len(MutationBatch.in_turn(parts[:2])) == 2
    with pytest.raises(LimitExceeded):
        MutationBatch.in_turn(parts)
