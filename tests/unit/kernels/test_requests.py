"""Requests in one pass: what it lets through the model lets through, and both number alike."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import SteleError
from stele.kernels.block import Block
from stele.kernels.requests import numbered, plain_families, request_block
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Cell, Op, batch_to_cells, cells_to_batch
from stele.model.limits import QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX
from stele.model.mutations import stamp
from stele.model.schema import Schema
from stele.model.validation import validate_mutations

MUTATION = st.builds(
    Cell,
    st.sampled_from([b"", b"a", b"ab", b"b", b"abcdefgh1", b"abcdefgh2"]),
    st.sampled_from(["f", "g"]),
    st.sampled_from([b"", b"p", b"q"]),
    st.sampled_from([1, 5, 9, TIMESTAMP_MAX]),
    st.sampled_from([b"", b"value"]),
    st.sampled_from([Op.PUT, Op.PUT, Op.PUT, Op.PUT, Op.ERASE_COLUMN]),
)


def mutations(cells: list[Cell]) -> pa.RecordBatch:
    return cells_to_batch(cells).select(MUTATIONS.names)


def is_legal(batch: pa.RecordBatch) -> bool:
    try:
        validate_mutations(batch, Schema())
    except SteleError:
        return False
    return True


@settings(max_examples=300)
@given(st.lists(MUTATION, min_size=1, max_size=6), st.booleans())
def test_what_passes_is_legal_and_legal_puts_pass(cells: list[Cell], in_order: bool) -> None:
    if in_order:
        cells = sorted({cell.key(): cell for cell in cells}.values(), key=Cell.key)
    batch = mutations(cells)
    families = plain_families(request_block(batch))
    only_puts = all(cell.op is Op.PUT for cell in cells)
    assert (families is not None) == (only_puts and is_legal(batch))
    if families is not None:
        assert families == sorted({cell.family for cell in cells})


@pytest.mark.parametrize(
    ("cell", "passes"),
    [
        (Cell(bytes(ROW_BYTES_MAX), "f", b"", 1), True),
        (Cell(bytes(ROW_BYTES_MAX + 1), "f", b"", 1), False),
        (Cell(b"r", "f", bytes(QUALIFIER_BYTES_MAX), 1), True),
        (Cell(b"r", "f", bytes(QUALIFIER_BYTES_MAX + 1), 1), False),
        (Cell(b"r", "f", b"", 1, bytes(VALUE_BYTES_MAX)), True),
        (Cell(b"r", "f", b"", 1, bytes(VALUE_BYTES_MAX + 1)), False),
    ],
)
def test_limits(cell: Cell, passes: bool) -> None:
    batch = mutations([cell])
    assert (plain_families(request_block(batch)) is not None) == passes == is_legal(batch)


def test_the_whole_must_fit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    many = mutations([Cell(b"r%d" % n, "f", b"", 1, bytes(VALUE_BYTES_MAX)) for n in range(5)])
    assert (plain_families(request_block(many)) is not None) == is_legal(many)


def test_no_cells_are_not_plain() -> None:
    assert plain_families(request_block(mutations([]))) is None


def test_a_family_that_is_only_in_the_dictionary_is_not_used() -> None:
    batch = mutations([Cell(b"a", "f", b"", 1), Cell(b"b", "g", b"", 1)]).slice(1)
    assert plain_families(request_block(batch)) == ["g"]


@settings(max_examples=200)
@given(st.lists(MUTATION, min_size=1, max_size=6), st.integers(2, 20))
def test_numbers_are_those_of_the_model(cells: list[Cell], txn: int) -> None:
    cells = sorted({cell.key(): cell for cell in cells}.values(), key=Cell.key)
    batch = mutations(cells)
    expected = batch_to_cells(stamp(batch, txn))
    found = numbered(request_block(batch), txn)
    if found is not None:
        assert batch_to_cells(found.batch) == expected
    else:
        assert any(txn <= cell.timestamp < TIMESTAMP_MAX for cell in cells)
        assert any(cell.timestamp == TIMESTAMP_MAX for cell in cells)


def test_the_request_is_not_changed_and_lives_as_long_as_its_cells() -> None:
    batch = mutations([Cell(b"a", "f", b"", TIMESTAMP_MAX, b"v")])
    request = request_block(batch)
    first, second = numbered(request, 7), numbered(request, 8)
    assert isinstance(first, Block)
    assert isinstance(second, Block)
    del batch, request
    assert [cell.txn for cell in batch_to_cells(first.batch)] == [7]
    assert [cell.timestamp for cell in batch_to_cells(second.batch)] == [8]
