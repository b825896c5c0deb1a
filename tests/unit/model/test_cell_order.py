"""The vectorised order against the sort key of plain cells."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stele.model.cell_order import family_ranks, first_disorder, sort_cells
from stele.model.cells import MUTATIONS, Cell, batch_to_cells, cells_to_batch
from tests.unit.model.strategies import mutations

stamped = st.builds(
    lambda cell, txn: Cell(
        cell.row, cell.family, cell.qualifier, cell.timestamp, cell.value, cell.op, txn
    ),
    mutations(),
    st.sampled_from([0, 1, 2, 2**63 - 2]),
)


def expected_disorder(cells: list[Cell]) -> int:
    for index in range(1, len(cells)):
        if cells[index].key() <= cells[index - 1].key():
            return index
    return -1


def shuffled_dictionary(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same cells with the dictionary of families in falling order and one unused name."""
    family = batch.column("family")
    names = sorted({*family.dictionary.to_pylist(), "unused"}, reverse=True)
    codes = [names.index(name) for name in family.to_pylist()]
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array(names))
    return batch.set_column(1, batch.schema.field(1), column)


@given(st.lists(stamped, max_size=12), st.booleans())
def test_first_disorder(cells: list[Cell], shuffle: bool) -> None:
    batch = cells_to_batch(cells)
    batch = shuffled_dictionary(batch) if shuffle else batch
    assert first_disorder(batch) == expected_disorder(cells)
    ordered = sorted({cell.key(): cell for cell in cells}.values(), key=Cell.key)
    assert first_disorder(cells_to_batch(ordered)) == -1


@given(st.lists(stamped, min_size=1, max_size=12), st.integers(0, 3))
def test_first_disorder_of_slices(cells: list[Cell], start: int) -> None:
    batch = shuffled_dictionary(cells_to_batch(cells)).slice(start)
    assert first_disorder(batch) == expected_disorder(cells[start:])


@given(st.lists(mutations(), max_size=12))
def test_first_disorder_without_txns(cells: list[Cell]) -> None:
    batch = cells_to_batch(cells).select(MUTATIONS.names)
    assert first_disorder(batch) == expected_disorder(cells)


@given(st.lists(stamped, max_size=15), st.booleans())
def test_sort(cells: list[Cell], shuffle: bool) -> None:
    batch = cells_to_batch(cells)
    batch = shuffled_dictionary(batch) if shuffle else batch
    # Python's sort is stable too: equal keys keep their values in the order they came.
    assert batch_to_cells(sort_cells(batch)) == sorted(cells, key=Cell.key)
    plain = sort_cells(batch.select(MUTATIONS.names))
    without = [Cell(c.row, c.family, c.qualifier, c.timestamp, c.value, c.op) for c in cells]
    assert batch_to_cells(plain) == sorted(without, key=Cell.key)


def test_ranks_follow_names_not_codes() -> None:
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 0], pa.int16()), pa.array(["b", "", "a"])
    )
    assert family_ranks(column).tolist() == [2, 0, 1, 2]
    assert family_ranks(column.slice(2)).tolist() == [1, 2]
