"""The index of a fragment file: searching it, and refusing a damaged one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption, UnsupportedFormat
from stele.model.ranges import RowRange
from stele.storage.fragment_format import FragmentMetadata, IndexPointer, encode_metadata
from stele.storage.fragment_index import (
    CONTINUES,
    GROUP,
    TRAILER_BYTES,
    FragmentIndex,
    decode_index,
    decode_trailer,
    encode_index,
    encode_trailer,
)
from tests.unit.storage.test_fragment_format import metadata, summary

Spans = list[list[bytes]]
"""The rows of each row group, a cell each; a row may go on in the next group."""


def index_of(spans: Spans) -> FragmentIndex:
    return decode_index(*encoded(spans), "f")


def encoded(spans: Spans, **changes: Any) -> tuple[bytes, IndexPointer]:
    """The bytes of an index over row groups of 100 bytes with bloom filters of 10."""
    rows = [row for span in spans for row in span]
    said: FragmentMetadata = metadata(
        summary=summary(
            cells=len(rows),
            rows=len(set(rows)),
            first_row=rows[0],
            last_row=rows[-1],
            erasures=summary().erasures if len(rows) > 3 else type(summary().erasures)(),
        )
    )
    groups = np.zeros(len(spans), GROUP)
    end = 4 + 100 * len(spans)
    for at, span in enumerate(spans):
        goes_on = at > 0 and spans[at - 1][-1] == span[0]
        groups[at] = (
            4 + 100 * at, end + 10 * at, 60, 40, 640, len(span), 0, 0, 10, 0,
            CONTINUES if goes_on else 0, 0,
        )  # fmt: skip
    for name, value in changes.items():
        groups[name][-1] = value
    data = encode_index(encode_metadata(said), groups, [span[0] for span in spans])
    return data, IndexPointer(end + 10 * len(spans), len(data), crc32c.crc32c(data))


def resealed(data: bytes, pointer: IndexPointer) -> tuple[bytes, IndexPointer]:
    return data, IndexPointer(pointer.offset, len(data), crc32c.crc32c(data))


ROW = st.binary(min_size=1, max_size=2)
SPANS = st.lists(ROW, min_size=1, max_size=40).map(sorted).flatmap(
    lambda rows: st.lists(st.integers(1, 5), min_size=len(rows)).map(
        lambda sizes: _cut(rows, sizes)
    )
)  # fmt: skip


def _cut(rows: list[bytes], sizes: list[int]) -> Spans:
    spans = []
    while rows:
        size = sizes.pop()
        spans.append(rows[:size])
        rows = rows[size:]
    return spans


@settings(max_examples=200)
@given(SPANS, ROW)
def test_the_groups_of_a_row_are_exactly_those_that_may_hold_it(spans: Spans, row: bytes) -> None:
    found = index_of(spans).groups_of_row(row)
    holding = [at for at, span in enumerate(spans) if row in span]
    assert set(holding) <= set(found)
    assert len(found) <= max(1, len(holding)) + (1 if holding and holding != list(found) else 0)
    for at in found:
        assert spans[at][0] <= row


@settings(max_examples=200)
@given(SPANS, ROW, st.one_of(st.none(), ROW))
def test_the_groups_of_a_range_leave_nothing_out(
    spans: Spans, start: bytes, end: bytes | None
) -> None:
    if end is not None and end <= start:
        start, end = b"", start
    rows = RowRange(start, end)
    found = index_of(spans).groups_of_range(rows)
    holding = [at for at, span in enumerate(spans) if any(rows.contains(row) for row in span)]
    assert set(holding) <= set(found)
    assert len(found) <= len(holding) + 1, "at most the group in front may be read for nothing"


def test_a_row_that_spans_groups_is_found_from_its_start() -> None:
    index = index_of([[b"a", b"m"], [b"m"], [b"m", b"n"], [b"p"]])
    assert [index.continues(group) for group in range(4)] == [False, True, True, False]
    assert [index.first_row(group) for group in range(4)] == [b"a", b"m", b"m", b"p"]
    assert index.groups_of_row(b"m") == range(3)
    assert index.groups_of_row(b"n") == range(2, 3)
    assert index.groups_of_row(b"p") == range(3, 4)
    assert index.groups_of_row(b"q") == range(0)
    assert index.groups_of_row(b"0") == range(0)
    assert index.groups_of_range(RowRange(b"m", b"n")) == range(3)
    assert index.groups_of_range(RowRange(b"a", b"m")) == range(1)
    assert index.groups_of_range(RowRange(b"z")) == range(0)


def test_the_memory_of_a_block_is_known_before_it_is_read() -> None:
    index = index_of([[b"a"] * 5])
    assert index.block_bytes(0) == 640 + 3 * 64 + 64 + 64 + 8


Change = Callable[[bytes, IndexPointer], tuple[bytes, IndexPointer]]

SIMPLE: Spans = [[b"a", b"b"], [b"c"], [b"d"]]


def _with_rows(rows: bytes) -> Change:
    """Other first rows, a letter each, under the same row bounds."""

    def change(_data: bytes, _pointer: IndexPointer) -> tuple[bytes, IndexPointer]:
        data, pointer = encoded([[b"a"], [b"c"], [b"d"]])
        return resealed(data.replace(b"acd", rows), pointer)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data, pointer: (data[:-1], pointer), "checksum"),
        (lambda data, pointer: (data[:-1] + b"!", pointer), "checksum"),
        (lambda _data, pointer: resealed(b"", pointer), "too short"),
        (lambda data, pointer: resealed(b"X" + data[1:], pointer), "does not begin like one"),
        (lambda data, pointer: resealed(data + b" ", pointer), "another size than its parts"),
        (
            lambda data, pointer: resealed(data[:12] + b"\xff\xff\xff\x7f" + data[16:], pointer),
            "impossible size",
        ),
        (
            lambda data, pointer: resealed(data[:12] + b"\x00\x00\x00\x00" + data[16:], pointer),
            "impossible size",
        ),
        (_with_rows(b"adc"), "row group 2 begins below the one before it"),
        (_with_rows(b"acc"), "row group 2 begins below the one before it"),
        (_with_rows(b"bcd"), "contradict its row bounds"),
        (_with_rows(b"ace"), "contradict its row bounds"),
    ],
)
def test_a_damaged_index_is_corruption(change: Change, said: str) -> None:
    data, pointer = change(*encoded(SIMPLE))
    with pytest.raises(Corruption, match=said) as raised:
        decode_index(data, pointer, "file-1")
    assert raised.value.file == "file-1"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"offset": 1_000}, "row groups do not follow one another"),
        ({"key_bytes": 61}, "bloom filters do not follow the row groups"),
        ({"bloom_offset": 5}, "bloom filters do not follow the row groups"),
        ({"bloom_bytes": 11}, "the index does not follow the bloom filters"),
        ({"cells": 0}, "impossible size"),
        ({"cells": 1 << 21}, "impossible size"),
        ({"cells": 2}, "another number of cells"),
        ({"raw_bytes": 1 << 31}, "impossible size"),
    ],
)
def test_row_groups_that_do_not_fit_together_are_corruption(
    changes: dict[str, int], said: str
) -> None:
    with pytest.raises(Corruption, match=said):
        decode_index(*encoded(SIMPLE, **changes), "f")


def test_the_trailer_comes_back_as_it_went() -> None:
    pointer = IndexPointer(1 << 40, 12_345, 0xFFFFFFFF)
    trailer = encode_trailer(pointer, b"footer")
    assert len(trailer) == TRAILER_BYTES
    assert decode_trailer(trailer, "f", 0) == (pointer, 6, crc32c.crc32c(b"footer"))


def test_every_changed_bit_of_a_trailer_is_noticed() -> None:
    trailer = encode_trailer(IndexPointer(100, 10, 7), b"footer")
    for bit in range(8 * len(trailer)):
        damaged = bytearray(trailer)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((Corruption, UnsupportedFormat)):
            decode_trailer(bytes(damaged), "f", 0)


def test_a_later_version_is_named() -> None:
    trailer = bytearray(encode_trailer(IndexPointer(100, 10, 7), b"footer"))
    trailer[24:28] = (2).to_bytes(4, "little")
    trailer[28:32] = crc32c.crc32c(bytes(trailer[:28])).to_bytes(4, "little")
    with pytest.raises(UnsupportedFormat, match="fragment format 2, this program reads 1"):
        decode_trailer(bytes(trailer), "f", 0)
