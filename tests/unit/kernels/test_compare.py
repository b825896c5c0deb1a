"""Comparisons of bytes against Python's own, on memory that ends where the strings end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.kernels.block import Descriptor
from stele.kernels.compare import (
    compare_bytes,
    compare_names,
    compare_row,
    equal_bytes,
    leading_bytes,
    prefix_after,
    row_end,
    same_row,
    shared_length,
)
from stele.kernels.jit import quick
from stele.kernels.memory import address_of
from tests.oracles import strategies
from tests.oracles.blocks import FORMS
from tests.oracles.guarded import GuardedPage


@quick
def compared(a: int, a_length: int, b: int, b_length: int) -> tuple[int, int, int]:
    return (
        compare_bytes(a, a_length, b, b_length),
        compare_names(a, a_length, b, b_length),
        shared_length(a, a_length, b, b_length),
    )


@quick
def equals(a: int, b: int, length: int) -> bool:
    return equal_bytes(a, b, length)


@quick
def leads(a: int, length: int) -> int:
    return leading_bytes(a, length)  # type: ignore[no-any-return]


@quick
def prefix(a: int, length: int, skip: int) -> int:
    return prefix_after(a, length, skip)  # type: ignore[no-any-return]


LEFT, RIGHT = GuardedPage(), GuardedPage()

letters = st.sampled_from([b"\x00", b"a", b"b", b"\xff"])
strings = st.lists(letters, max_size=40).map(b"".join)
pairs = st.tuples(strings, strings, strings).map(lambda t: (t[0] + t[1], t[0] + t[2]))


def placed(a: bytes, b: bytes) -> list[tuple[int, int]]:
    """The two strings at the ends and at the beginnings of their pages."""
    ends = LEFT.put_last(a), RIGHT.put_last(b)
    return [ends, (LEFT.put_first(a), RIGHT.put_first(b))] if len(a) + len(b) < 2_000 else [ends]


@settings(max_examples=500)
@given(pairs)
def test_byte_strings_compare_like_python_compares_them(pair: tuple[bytes, bytes]) -> None:
    a, b = pair
    order = (a > b) - (a < b)
    common = next((i for i in range(min(len(a), len(b))) if a[i] != b[i]), min(len(a), len(b)))
    for left, right in placed(a, b):
        assert compared(left, len(a), right, len(b)) == (order, order, common)
        if len(a) == len(b):
            assert equals(left, right, len(a)) is (a == b)


@settings(max_examples=300)
@given(pairs)
def test_prefixes_are_numbers_in_the_order_of_the_bytes(pair: tuple[bytes, bytes]) -> None:
    for text in pair:
        padded = int.from_bytes(text[:8].ljust(8, b"\x00"), "big")
        for address in (LEFT.put_last(text), LEFT.put_first(text)):
            assert int(leads(address, len(text))) == padded
            for skip in {0, 1, 3, len(text) // 2, len(text), len(text) + 2}:
                rest = int.from_bytes(text[skip : skip + 8].ljust(8, b"\x00"), "big")
                assert int(prefix(address, len(text), skip)) == rest


@quick
def row_of(descriptor: Descriptor, index: int, other: int, count: int) -> tuple[bool, int]:
    block = address_of(descriptor)
    return same_row(block, index, other), row_end(block, index, count)


@quick
def against(descriptor: Descriptor, index: int, row: bytes) -> int:
    return compare_row(address_of(descriptor), index, address_of(row), len(row))


@settings(max_examples=100)
@given(st.data())
def test_rows_of_a_block(data: st.DataObject) -> None:
    cells = data.draw(strategies.cell_sets(data.draw(strategies.worlds)))
    rows = [cell.row for cell in cells]
    for form in FORMS:
        block = form(cells)
        descriptor = block.descriptor
        for index, row in enumerate(rows):
            end = next((i for i in range(index, len(rows)) if rows[i] != row), len(rows))
            for other, other_row in enumerate(rows):
                assert row_of(descriptor, index, other, len(rows)) == (row == other_row, end)
                assert against(descriptor, index, other_row) == (row > other_row) - (
                    row < other_row
                )
