"""The encoding kernel against the encoders in plain Python, and through the decoding kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import Block, matrix, unify_families
from stele.kernels.fragment_survey import raw_bytes
from stele.kernels.parquet_encode import DATA_PAGES, DELTAS, encode_pages, pages_bytes_max
from stele.kernels.parquet_thrift import FAMILIES_PAGE, FAMILY_PAGE
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN, Cell, Op, batch_to_cells, cells_to_batch
from tests.unit.kernels import parquet_oracle as oracle

INT64 = st.integers(TIMESTAMP_MIN, TIMESTAMP_MAX)
STRINGS = st.one_of(
    st.binary(max_size=4),
    st.sampled_from(
        [b"", b"\x00", b"\xff" * 9, b"\x00" * 300, b"common prefix " * 3, b"x" * 9_000]
    ),
)
FAMILIES = ["", "a", "b", "info", "x" * 40, "é"]
ANY_CELL = st.builds(
    Cell, STRINGS, st.sampled_from(FAMILIES), STRINGS, INT64, STRINGS, st.sampled_from(Op), INT64
)
GUARD = 0xA5


def encoded(parts: list[list[Cell]]) -> tuple[list[bytes], list[Block]]:
    """The data pages of cells in several parts; nothing is written beyond what was said."""
    _, blocks = unify_families([Block.from_batch(cells_to_batch(part)) for part in parts])
    cells = sum(block.count for block in blocks)
    size = pages_bytes_max(cells, sum(raw_bytes(block.descriptor) for block in blocks))
    target = np.full(size + 64, GUARD, np.uint8)
    ends, deltas = np.zeros(DATA_PAGES, np.int64), np.full(DELTAS + 8, GUARD, np.int64)
    encode_pages(matrix(blocks), len(blocks[0].families), target.ctypes.data, ends, deltas[:DELTAS])
    assert (deltas[DELTAS:] == GUARD).all()
    assert ends[-1] <= size
    assert (target[size:] == GUARD).all()
    starts = [0, *ends.tolist()]
    data = target.tobytes()
    return [data[starts[at] : starts[at + 1]] for at in range(DATA_PAGES)], blocks


@settings(max_examples=150)
@given(st.lists(st.lists(ANY_CELL, min_size=1, max_size=150), min_size=1, max_size=3))
def test_pages_are_those_of_the_plain_encoders(parts: list[list[Cell]]) -> None:
    cells = [cell for part in parts for cell in part]
    bodies, _ = encoded(parts)
    pages = oracle.make_pages(cells)
    family = FAMILY_PAGE - 1
    expected = [*pages.bodies[:FAMILIES_PAGE], *pages.bodies[FAMILIES_PAGE + 1 :]]
    for page in set(range(DATA_PAGES)) - {family}:
        assert bodies[page] == expected[page]


@settings(max_examples=150)
@given(st.lists(st.lists(ANY_CELL, min_size=1, max_size=150), min_size=1, max_size=3))
def test_the_decoder_gives_back_what_was_encoded(parts: list[list[Cell]]) -> None:
    cells = [cell for part in parts for cell in part]
    bodies, blocks = encoded(parts)
    families = blocks[0].families
    bodies.insert(FAMILIES_PAGE, oracle.plain_strings(families))
    pages = oracle.Pages(len(cells), bodies, families)
    block = oracle.decode(pages.encode(), pages)
    assert isinstance(block, Block)
    assert batch_to_cells(block.batch) == cells


def family_page(families: list[str]) -> bytes:
    bodies, _ = encoded([[Cell(b"r", family, b"q", 1) for family in families]])
    return bodies[FAMILY_PAGE - 1]


def test_families_of_whole_rows_are_runs() -> None:
    assert family_page(["a"] * 5_000) == b"\x01" + oracle.varint(5_000 << 1) + b"\x00"
    codes = [0] * 100 + [1] * 100
    assert family_page(["a"] * 100 + ["b"] * 100) == oracle.dictionary_codes(codes, 1)


@pytest.mark.parametrize("families", [2, 3, 200, 300, 1_000])
def test_families_that_change_with_every_cell_are_packed(families: int) -> None:
    names = [f"f{at:04}" for at in range(families)]
    cells = (names * (4_000 // families + 1))[:4_001]
    width = (families - 1).bit_length()
    codes = [names.index(name) for name in cells]
    assert family_page(cells) == oracle.dictionary_codes(codes, width, [-(-len(codes) // 8)])


def test_more_than_256_families_in_runs() -> None:
    names = [f"f{at:04}" for at in range(300)]
    cells = [name for name in names for _ in range(40)]
    codes = [names.index(name) for name in cells]
    assert family_page(cells) == oracle.dictionary_codes(codes, 9)


def test_lengths_as_far_apart_as_they_can_be() -> None:
    large = b"x" * (1 << 20)
    cells = [Cell(b"r", "f", b"q", 1, large if at % 7 == 3 else b"") for at in range(200)]
    bodies, _ = encoded([cells])
    assert bodies[-1] == oracle.delta_length([cell.value for cell in cells])
