"""Cuts and part numbers: every row in exactly one part, parts of about one size."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.spark.load_routing import (
    ROWS_PER_NEW_TABLET,
    ROWS_PER_PART,
    Sample,
    Sampler,
    even_cuts,
    new_tablets,
    part_number,
    wanted_parts,
)

keys = st.lists(st.binary(min_size=1, max_size=3), max_size=40)


def evaluate(text: str, row: bytes) -> int:
    """The little SQL that a tree consists of."""
    if not text.startswith("CASE"):
        return int(text)
    condition, _, rest = text.removeprefix("CASE WHEN `row` < X'").partition("' THEN ")
    words = rest.split(" ")
    depths = accumulate({"CASE": 1, "END": -1}.get(word, 0) for word in words)
    place = next(
        at
        for at, (word, depth) in enumerate(zip(words, depths, strict=True))
        if word == "ELSE" and depth == 0
    )
    below, above = " ".join(words[:place]), " ".join(words[place + 1 : -1])
    return evaluate(below if row < bytes.fromhex(condition) else above, row)


@settings(max_examples=60, deadline=None)
@given(keys, st.binary(max_size=3))
def test_the_tree_finds_the_part_of_every_row(cuts: list[bytes], row: bytes) -> None:
    cuts = sorted(set(cuts))
    assert evaluate(part_number("`row`", cuts), row) == bisect_right(cuts, row)


def test_a_tree_is_balanced() -> None:
    text = part_number("`row`", [bytes([n]) for n in range(255)])
    depth = deepest = 0
    for word in text.split(" "):
        depth += {"CASE": 1, "END": -1}.get(word, 0)
        deepest = max(deepest, depth)
    assert deepest == 8


@settings(max_examples=60, deadline=None)
@given(keys, st.integers(1, 8))
def test_cuts_ascend_above_the_first_row(rows: list[bytes], parts: int) -> None:
    cuts = even_cuts([Sample(row, 1) for row in rows], parts)
    assert cuts == sorted(set(cuts))
    assert len(cuts) < max(parts, 1)
    assert not rows or all(cut > min(rows) for cut in cuts)


def test_even_parts_of_even_keys() -> None:
    samples = [Sample(b"%03d" % n, 10) for n in range(100)]
    assert even_cuts(samples, 4) == [b"025", b"050", b"075"]
    assert even_cuts([Sample(b"a", 9)] * 50, 4) == []
    assert even_cuts([], 4) == []


@pytest.mark.parametrize("count", [0, 1, 19, 20, 21, 1_000])
def test_a_sampler_keeps_few_keys_for_all_of_them(count: int) -> None:
    sampler = Sampler(10)
    rows = [b"%04d" % n for n in range(count)]
    for start in range(0, count, 7):
        sampler.add(pa.array(rows[start : start + 7]))
    samples = sampler.samples()
    assert len(samples) <= 20
    assert sum(sample.rows for sample in samples) == count
    assert [sample.row for sample in samples] == rows[:: samples[0].rows if samples else 1]


def test_how_many_parts_and_tablets() -> None:
    assert wanted_parts(0, 1, 8) == 1
    assert wanted_parts(100, 3, 8) == 8
    assert wanted_parts(100, 30, 8) == 30
    assert wanted_parts(100 * ROWS_PER_PART, 1, 8) == 104, "no processor is idle in the last round"
    assert new_tablets(10, 8) == 1
    assert new_tablets(100 * ROWS_PER_NEW_TABLET, 8) == 8
