"""The page header kernel: every shape of header it must read, and everything it must refuse."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.parquet_thrift import (
    ALIGNMENT,
    ALL_PAGES,
    BODY,
    COMPRESSED,
    FOREIGN,
    KEY_PAGES,
    MALFORMED,
    MISCOUNTED,
    OVERRUN_BYTES,
    OVERSIZED,
    PAGE_BYTES_MAX,
    PLACE,
    TABLE_WIDTH,
    TRAILING,
    TRUNCATED,
    UNCOMPRESSED,
    VALUES,
    WALK_REASONS,
    walk_chunks,
    walk_pages,
)
from stele.model.cells import Cell
from tests.unit.kernels import parquet_oracle as oracle

CELLS = [Cell(b"row%d" % at, "f", b"q", at, b"v" * at, txn=at) for at in range(5)]


def pages() -> oracle.Pages:
    return oracle.make_pages(CELLS)


def test_the_table_says_where_each_page_is() -> None:
    made = pages()
    data = made.encode()
    status, table = oracle.walk(data, len(CELLS))
    assert status > 0
    for body, entry in zip(made.bodies, table, strict=True):
        assert data[entry[BODY] : entry[BODY] + entry[COMPRESSED]] == body
        assert entry[UNCOMPRESSED] == len(body)
    assert [entry[VALUES] for entry in table] == [5, 1, 5, 5, 5, 5, 5, 5]


def test_places_in_the_arena_are_aligned_and_leave_room_for_wide_loads() -> None:
    status, table = oracle.walk(pages().encode(), len(CELLS))
    places = [entry[PLACE] for entry in table] + [status]
    assert all(place % ALIGNMENT == 0 for place in places)
    for entry, following in zip(table, places[1:], strict=True):
        assert entry[PLACE] + entry[UNCOMPRESSED] + OVERRUN_BYTES <= following


def test_keys_can_be_walked_without_the_values() -> None:
    status, table = oracle.walk(pages().encode(KEY_PAGES), len(CELLS), KEY_PAGES)
    assert status > 0
    assert len(table) == KEY_PAGES


def test_statistics_in_a_header_are_stepped_over() -> None:
    made = pages()
    made.extra = bytes([0x1C]) + oracle.statistics(b"a" * 300, b"z" * 300)
    status, _ = oracle.walk(made.encode(), len(CELLS))
    assert status > 0


def test_a_field_may_name_itself_in_the_long_form() -> None:
    body = pages().bodies[0]
    long_header = (
        oracle.long_integer(1, oracle.DATA)
        + oracle.long_integer(2, len(body))
        + oracle.long_integer(3, len(body))
        + bytes([2 << 4 | 12])
        + oracle.long_integer(1, 5)
        + oracle.long_integer(2, oracle.DELTA_LENGTH)
        + b"\x00\x00"
    )
    rest = pages().encode()
    _, table = oracle.walk(rest, len(CELLS))
    status, _ = oracle.walk(long_header + rest[table[0][BODY] :], len(CELLS))
    assert status > 0


def _damage(change: Callable[[oracle.Pages], None]) -> bytes:
    made = pages()
    change(made)
    return made.encode()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda made: made.kinds.__setitem__(0, oracle.DICTIONARY), FOREIGN),
        (lambda made: made.kinds.__setitem__(1, oracle.DATA), FOREIGN),
        (lambda made: made.encodings.__setitem__(0, oracle.PLAIN), FOREIGN),
        (lambda made: made.encodings.__setitem__(4, oracle.DELTA_LENGTH), FOREIGN),
        (lambda made: made.counts.update({3: 6}), MISCOUNTED),
        (lambda made: made.counts.update({7: -1}), MISCOUNTED),
        (lambda made: made.sizes.update({0: -1}), OVERSIZED),
        (lambda made: made.sizes.update({7: PAGE_BYTES_MAX + 1}), OVERSIZED),
        (lambda made: made.sizes.update({4: 39}), OVERSIZED),
        (lambda made: made.sizes.update({5: 48}), OVERSIZED),
        (lambda made: made.sizes.update({6: 40}), OVERSIZED),
    ],
)
def test_other_pages_than_ours_are_refused(
    change: Callable[[oracle.Pages], None], status: int
) -> None:
    assert oracle.walk(_damage(change), len(CELLS))[0] == status


def test_a_page_longer_than_the_row_group_is_refused() -> None:
    data = pages().encode()
    assert oracle.walk(data[:-1], len(CELLS))[0] == TRUNCATED


def test_bytes_behind_the_last_page_are_refused() -> None:
    assert oracle.walk(pages().encode() + b"\x00", len(CELLS))[0] == TRAILING
    assert oracle.walk(pages().encode(), len(CELLS), KEY_PAGES)[0] == TRAILING


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x15",  # a field without its value
        b"\x15" + b"\xff" * 12,  # a varint that does not end
        b"\x18\x7f",  # a string longer than what is left
        b"\x18" + b"\xff" * 9 + b"\x01",  # a string of negative length
        b"\x19\x00",  # a list
        b"\x1c\x1c\x1c\x1c",  # structs within structs without end
        b"\x05\x02",  # the long form, cut off
        b"\x17\x00",  # a double, cut off
        b"\x13",  # a byte, cut off
        b"\x15\x00\x15\x0a\x15\x0a",  # no end of the struct
    ],
)
def test_a_malformed_header_is_refused(header: bytes) -> None:
    assert oracle.walk(header, len(CELLS))[0] == MALFORMED


def test_every_status_has_a_reason() -> None:
    assert set(WALK_REASONS) == {TRUNCATED, MALFORMED, FOREIGN, MISCOUNTED, OVERSIZED, TRAILING}


@settings(max_examples=300)
@given(st.data())
def test_no_bytes_make_it_read_or_write_outside(data: st.DataObject) -> None:
    raw = bytearray(pages().encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    status, table = oracle.walk(cut, len(CELLS))
    if status >= 0:
        for entry in table:
            assert 0 <= entry[BODY] <= entry[BODY] + entry[COMPRESSED] <= len(cut)
            assert 0 <= entry[PLACE] <= entry[PLACE] + entry[UNCOMPRESSED] <= status
    else:
        assert status in WALK_REASONS


def test_pages_are_independent_of_each_other() -> None:
    """The extra fields of one header do not leak into the next page's row of the table."""
    made = dataclasses.replace(pages(), extra=oracle.integer(1, 99))
    status, table = oracle.walk(made.encode(), len(CELLS), ALL_PAGES)
    assert status > 0
    assert [entry[VALUES] for entry in table] == [5, 1, 5, 5, 5, 5, 5, 5]


def test_headers_must_lie_in_what_is_readable() -> None:
    """A writer walks its own pages without a copy of the last, largest one."""
    data = pages().encode()
    _, table = oracle.walk(data, len(CELLS))
    values_at = table[-1][BODY]
    held = np.frombuffer(data[:values_at], np.uint8)
    found = np.zeros((ALL_PAGES, TABLE_WIDTH), np.int64)

    def walk(readable: int) -> int:
        return walk_pages(
            held.ctypes.data, readable, len(data), len(CELLS), ALL_PAGES, found.ctypes.data
        )

    assert walk(values_at) > 0
    assert found.tolist() == table
    assert walk(values_at - 1) == MALFORMED


def chunk_sizes(data: bytes, rows: int, columns: int) -> tuple[int, list[int]]:
    """The status of a walk over any columns, and their sizes."""
    held, sizes = np.frombuffer(data or b"\0", np.uint8), np.zeros(columns, np.int64)
    entry = np.zeros(TABLE_WIDTH, np.int64)
    return walk_chunks(held.ctypes.data, len(data), rows, entry, sizes), sizes.tolist()


def row_group(rows: int) -> tuple[bytes, list[int]]:
    """A row group of plain, nullable and dictionary columns as pyarrow writes it."""
    table = pa.table(
        {
            "a": pa.array(range(rows)),
            "b": pa.array([None if at % 3 else f"text {at % 2}" for at in range(rows)]),
            "c": pa.nulls(rows, pa.bool_()),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, use_dictionary=["b"], data_page_size=64, write_batch_size=4)
    data = sink.getvalue().to_pybytes()
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    sizes = [group.column(at).total_compressed_size for at in range(3)]
    return data[4 : 4 + sum(sizes)], sizes


@pytest.mark.parametrize("rows", [1, 7, 500])
def test_columns_of_any_pages_are_measured(rows: int) -> None:
    data, sizes = row_group(rows)
    assert chunk_sizes(data, rows, 3) == (0, sizes)
    assert chunk_sizes(data, rows, 2)[0] == TRAILING
    assert chunk_sizes(data[:-1], rows, 3)[0] == TRUNCATED
    assert chunk_sizes(data, rows + 1, 3)[0] in (MISCOUNTED, MALFORMED)


@settings(max_examples=100)
@given(st.data())
def test_no_bytes_make_it_measure_outside(data: st.DataObject) -> None:
    raw = bytearray(row_group(20)[0])
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    status, sizes = chunk_sizes(cut, 20, 3)
    assert sum(sizes) <= len(cut)
    assert status == 0 or status in WALK_REASONS
