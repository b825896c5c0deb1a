"""Page headers against those in plain Python; row groups are read back by pyarrow elsewhere."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stele.kernels.parquet_headers import (
    GROUP_BYTES_MAX,
    GROUP_WORDS,
    HEADER_BYTES_MAX,
    PAGE_WORDS,
    put_page_headers,
    put_row_groups,
)
from stele.kernels.parquet_thrift import ALL_PAGES
from tests.unit.kernels import parquet_oracle as oracle

SIZE = st.integers(0, (1 << 31) - 1)
CHECKSUM = st.integers(-(1 << 31), (1 << 31) - 1)


def headers(table: list[tuple[int, int, int]], cells: int, families: int) -> list[bytes]:
    target = np.zeros(ALL_PAGES * HEADER_BYTES_MAX, np.uint8)
    ends = np.zeros(ALL_PAGES, np.int64)
    pages = np.array(table, np.int64).reshape(ALL_PAGES, PAGE_WORDS)
    put_page_headers(pages, cells, families, target.ctypes.data, ends)
    starts = [0, *ends.tolist()]
    assert ends[-1] <= len(target)
    return [target.tobytes()[starts[at] : starts[at + 1]] for at in range(ALL_PAGES)]


def plain_header(page: int, entry: tuple[int, int, int], values: int) -> bytes:
    kind, encoding = oracle.KINDS[page], oracle.ENCODINGS[page]
    uncompressed, compressed, checksum = entry
    outer = b"".join(
        oracle.integer(1, value) for value in (kind, uncompressed, compressed, checksum)
    )
    inner = oracle.integer(1, values) + oracle.integer(1, encoding)
    if kind == oracle.DICTIONARY:
        return outer + b"\x3c" + inner + b"\x00\x00"
    return outer + b"\x1c" + inner + oracle.integer(1, 3) + oracle.integer(1, 3) + b"\x00\x00"


@given(
    st.lists(st.tuples(SIZE, SIZE, CHECKSUM), min_size=ALL_PAGES, max_size=ALL_PAGES),
    st.integers(1, 1 << 20),
    st.integers(1, 1_025),
)
def test_headers_are_those_in_plain_python(
    table: list[tuple[int, int, int]], cells: int, families: int
) -> None:
    expected = [
        plain_header(page, entry, families if page == 1 else cells)
        for page, entry in enumerate(table)
    ]
    assert headers(table, cells, families) == expected


def test_the_largest_numbers_stay_within_the_room_of_a_row_group() -> None:
    """Templates and rows have room of their own."""
    groups = np.full((1, GROUP_WORDS), (1 << 62) - 1, np.int64)
    offsets, rows = np.zeros(3, np.int32), np.zeros(1, np.uint8)
    ends = np.zeros(15, np.int64)
    target = np.zeros(GROUP_BYTES_MAX, np.uint8)
    size = put_row_groups(
        groups, b"", ends, offsets.ctypes.data, rows.ctypes.data, target.ctypes.data
    )
    assert size <= GROUP_BYTES_MAX
