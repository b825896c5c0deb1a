"""Plain requests: what passes is what the model lets pass, and nothing unsound is followed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells, SteleError
from stele.kernels.block import Block
from stele.kernels.plain_requests import NAME_BYTES_KEPT, plain_request
from stele.kernels.requests import QUICK_CELLS_MAX, numbered
from stele.model import limits
from stele.model.cells import MUTATIONS, TIMESTAMP_MAX, Cell, Op, batch_to_cells, cells_to_batch
from stele.model.limits import QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX
from stele.model.schema import Schema
from stele.model.validation import validate_mutations

MUTATION = st.builds(
    Cell,
    st.sampled_from([b"", b"a", b"ab", b"b", b"abcdefgh1", b"abcdefgh2"]),
    st.sampled_from(["f", "g", "h"]),
    st.sampled_from([b"", b"p", b"q", b"longer than a word"]),
    st.sampled_from([1, 5, 9, TIMESTAMP_MAX]),
    st.sampled_from([b"", b"value"]),
    st.sampled_from([*[Op.PUT] * 12, Op.ERASE_COLUMN]),
)
NAMES = st.lists(
    st.sampled_from(["f", "g", "h", "unused", "f", "not a name", "ü", "x" * 256, ""]), max_size=6
)


def mutations(cells: Sequence[Cell]) -> pa.RecordBatch:
    return cells_to_batch(cells).select(MUTATIONS.names)


def recoded(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """The same mutations with another dictionary, which has the names in use."""
    codes = pa.array([names.index(one) for one in batch.column(1).to_pylist()], pa.int16())
    family = pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.utf8()))
    return batch.set_column(1, MUTATIONS.field(1), family)


def is_legal(batch: pa.RecordBatch) -> bool:
    try:
        validate_mutations(batch, Schema())
    except SteleError:
        return False
    return True


def cells_of(block: Block) -> list[Cell]:
    """The mutations of a block without txns."""
    return [
        Cell(one.row, one.family, one.qualifier, one.timestamp, one.value, one.op)
        for one in batch_to_cells(numbered(block, TIMESTAMP_MAX).batch)
    ]


@settings(max_examples=400)
@given(st.lists(MUTATION, min_size=1, max_size=8), st.booleans(), NAMES, st.data())
def test_what_passes_is_legal_and_legal_puts_pass(
    cells: list[Cell], in_order: bool, names: list[str], data: st.DataObject
) -> None:
    if in_order:
        cells = sorted({cell.key(): cell for cell in cells}.values(), key=Cell.key)
    used = {cell.family for cell in cells}
    names = data.draw(st.permutations([*names, *(used - {*names})]))
    start = data.draw(st.integers(0, len(cells) - 1))
    whole = recoded(mutations(cells), names)
    for batch in (whole, whole.slice(start), whole.slice(0, start + 1)):
        some = batch_to_cells(batch)
        found = plain_request(batch)
        only_puts = all(cell.op is Op.PUT for cell in some)
        assert (found is not None) == (only_puts and is_legal(batch))
        if found is not None:
            assert found.families == sorted({cell.family for cell in some})
            assert found.block.families == tuple(sorted(names))
            assert cells_of(found.block) == some


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
    assert (plain_request(batch) is not None) == passes == is_legal(batch)


def test_the_whole_must_fit_too() -> None:
    many = mutations([Cell(b"r%d" % n, "f", b"", 1, bytes(VALUE_BYTES_MAX)) for n in range(4)])
    assert plain_request(many) is None
    assert not is_legal(many)
    assert plain_request(many.slice(1)) is not None


def test_no_cells_are_not_plain() -> None:
    assert plain_request(mutations([])) is None
    assert plain_request(mutations([Cell(b"a", "f", b"", 1)]).slice(1)) is None


def test_other_columns_are_not_plain() -> None:
    cells = cells_to_batch([Cell(b"a", "f", b"", 1)])
    assert plain_request(cells) is None
    assert plain_request(cells.select(MUTATIONS.names[::-1])) is None


def test_a_family_that_is_only_in_the_dictionary_is_not_used() -> None:
    batch = mutations([Cell(b"a", "f", b"", 1), Cell(b"b", "g", b"", 1)]).slice(1)
    found = plain_request(batch)
    assert found is not None
    assert found.families == ["g"]


def test_more_families_than_are_remembered_or_allowed() -> None:
    names = [f"family-{number:05}" for number in range(limits.FAMILIES_MAX)][::-1]
    assert sum(map(len, names)) > NAME_BYTES_KEPT
    batch = mutations([Cell(b"a", names[3], b"", 1), Cell(b"b", names[2], b"", 1)])
    found = plain_request(recoded(batch, names))
    assert found is not None
    assert found.families == [names[3], names[2]]
    assert plain_request(recoded(batch, [*names, "one-more"])) is None


@pytest.mark.parametrize("swapped", [False, True])
def test_many_cells_are_checked_without_the_lock_of_python(swapped: bool) -> None:
    count = QUICK_CELLS_MAX + 10
    cells = [Cell(b"row%07d" % n, "fg"[n % 2], b"", 1, b"v") for n in range(count)]
    names = ["g", "f"] if swapped else ["f", "g"]
    found = plain_request(recoded(mutations(cells), names))
    assert found is not None
    assert cells_of(found.block) == cells
    cells[-1], cells[-2] = cells[-2], cells[-1]
    assert plain_request(recoded(mutations(cells), names)) is None


# What ``validate`` without ``full`` lets through. Following any of it would read anywhere.

COUNT = 4
SOUND = mutations(
    [Cell(b"row%d" % n, "f", b"qualif%d" % n, 1, b"value%d" % n) for n in range(COUNT)]
)


def with_offsets(column: str, offsets: list[int]) -> pa.RecordBatch:
    place = SOUND.schema.get_field_index(column)
    _, _, data = SOUND.column(place).buffers()
    memory = np.zeros(COUNT + 1, np.int32)
    array = pa.Array.from_buffers(pa.binary(), COUNT, [None, pa.py_buffer(memory), data])
    memory[:] = offsets  # behind the back of Arrow, which looks at some when it makes an array
    return SOUND.set_column(place, MUTATIONS.field(place), array)


def with_codes(codes: list[int]) -> pa.RecordBatch:
    indices = pa.array(codes, pa.int16())
    family = pa.DictionaryArray.from_arrays(indices, pa.array(["f", "g"]), safe=False)
    return SOUND.set_column(1, MUTATIONS.field(1), family)


def refused(batch: pa.RecordBatch) -> None:
    assert plain_request(batch) is None
    with pytest.raises(InvalidArgument):
        validate_mutations(batch, Schema())


@pytest.mark.parametrize("column", ["row", "qualifier", "value"])
@pytest.mark.parametrize(
    "between",
    [
        (8, 4, 12),
        (4, 3, 2),
        (1 << 30, 4, 8),
        (4, 1 << 30, 8),
        (4, 8, (1 << 31) - 1),
        (-4, 4, 8),
        (-(1 << 31), 4, 8),
        (4, 8, -1),
    ],
)
def test_offsets_that_fall_are_not_followed(column: str, between: tuple[int, int, int]) -> None:
    for first, last in ((0, 16), (4, 16)):
        batch = with_offsets(column, [first, *between, last])
        batch.validate()
        refused(batch)


def test_offsets_that_end_outside_are_not_followed() -> None:
    for offsets in ([0, 4, 8, 12, 1 << 20], [-4, 4, 8, 12, 16], [8, 8, 8, 8, 4]):
        for column in ("row", "qualifier", "value"):
            refused(with_offsets(column, offsets))


@pytest.mark.parametrize("code", [-1, 2, 1 << 14, -(1 << 15), (1 << 15) - 1])
@pytest.mark.parametrize("place", range(COUNT))
def test_codes_of_no_family_are_not_followed(code: int, place: int) -> None:
    codes = [0] * COUNT
    codes[place] = code
    batch = with_codes(codes)
    batch.validate()
    refused(batch)
    swapped = pa.DictionaryArray.from_arrays(
        batch.column(1).indices, pa.array(["g", "f"]), safe=False
    )
    refused(batch.set_column(1, MUTATIONS.field(1), swapped))


@pytest.mark.parametrize("offsets", [[0, 2, 1], [0, -1, 1], [0, 1 << 30, 2], [1, 0, 2], [0, 1, 99]])
def test_a_dictionary_whose_offsets_fall_is_not_read(offsets: list[int]) -> None:
    memory = np.zeros(3, np.int32)
    names = pa.Array.from_buffers(pa.utf8(), 2, [None, pa.py_buffer(memory), pa.py_buffer(b"fg")])
    family = pa.DictionaryArray.from_arrays(pa.array([0] * COUNT, pa.int16()), names, safe=False)
    memory[:] = offsets
    refused(SOUND.set_column(1, MUTATIONS.field(1), family))


@pytest.mark.parametrize("text", [b"f\xff", b"\xc3("])
def test_names_that_are_not_text_are_refused(text: bytes) -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    names = pa.Array.from_buffers(pa.utf8(), 2, [None, offsets, pa.py_buffer(text)])
    family = pa.DictionaryArray.from_arrays(pa.array([0] * COUNT, pa.int16()), names, safe=False)
    refused(SOUND.set_column(1, MUTATIONS.field(1), family))


def test_a_sliced_dictionary() -> None:
    names = pa.array(["zz", "b", "a", "yy"]).slice(1, 2)
    family = pa.DictionaryArray.from_arrays(pa.array([1, 1, 0, 0], pa.int16()), names)
    found = plain_request(SOUND.set_column(1, MUTATIONS.field(1), family))
    assert found is not None
    assert [cell.family for cell in cells_of(found.block)] == ["a", "a", "b", "b"]
    refused(with_codes([2, 0, 0, 0]))


@pytest.mark.parametrize("place", range(len(MUTATIONS)))
def test_nulls_are_refused_and_a_bitmap_without_nulls_is_not(place: int) -> None:
    for bits, passes in ((0b1111, True), (0b1011, False)):
        column = SOUND.column(place)
        kind = pa.int16() if place == 1 else column.type
        source = column.indices if place == 1 else column
        buffers = [pa.py_buffer(bytes([bits])), *source.buffers()[1:]]
        array = pa.Array.from_buffers(kind, COUNT, buffers)
        if place == 1:
            array = pa.DictionaryArray.from_arrays(array, column.dictionary)
        batch = SOUND.set_column(place, pa.field(MUTATIONS.names[place], column.type), array)
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=MUTATIONS)
        assert (plain_request(batch) is not None) == passes == is_legal(batch)


def test_a_null_among_the_names_is_refused() -> None:
    names = pa.array(["f", None])
    family = pa.DictionaryArray.from_arrays(pa.array([0] * COUNT, pa.int16()), names)
    refused(SOUND.set_column(1, MUTATIONS.field(1), family))


@pytest.mark.parametrize(
    "names",
    [
        pa.nulls(2),
        pa.array([0, 200_000], pa.int64()),
        pa.array([0, 1], pa.int8()),
        pa.array(["f", "g"], pa.large_utf8()),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([[1], [2]]),
        pa.array([b"f", b"g"], pa.binary()),
    ],
    ids=lambda names: str(names.type),
)
def test_a_dictionary_of_another_type_than_the_columns_is_not_followed(names: pa.Array) -> None:
    """Arrow itself lets it pass, also when it is asked to look at everything."""
    batch = mutations([Cell(b"a", "f", b"q", 1, b"v"), Cell(b"b", "f", b"q", 1, b"v")])
    codes = pa.array([1, 1], pa.int16())
    column = pa.DictionaryArray.from_buffers(
        pa.dictionary(pa.int16(), pa.utf8()), 2, codes.buffers(), names
    )
    batch = batch.set_column(1, MUTATIONS.field(1), column)
    batch.validate(full=True)
    assert plain_request(batch) is None
    with pytest.raises(InvalidCells, match="dictionary of column 'family' is of"):
        validate_mutations(batch, Schema())
