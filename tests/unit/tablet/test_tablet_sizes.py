"""How large tablets are, from indexes alone (T16)."""

from __future__ import annotations

from stele.model.cells import ROW_ERASURE_FAMILY, Cell, Op
from stele.model.column_set import ColumnSet
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.references import Reference
from stele.tablet.config import TabletConfig
from stele.tablet.tablet_sizes import (
    SAMPLES_PER_FILE_MAX,
    reference_bytes,
    row_samples,
    tablet_bytes,
)
from tests.unit.tablet.engine_support import TABLE, cell, fragment, new_store

STORE = new_store()
WIDE = fragment(
    STORE, [cell(b"%05d" % row, family) for row in range(1280) for family in ("f", "g")]
)
"""Ten row groups of 128 rows."""


def test_a_reference_to_all_of_a_file_counts_all_of_it() -> None:
    assert reference_bytes(STORE, Reference(WIDE)) == WIDE.size


def test_a_reference_to_a_part_counts_that_part() -> None:
    half = reference_bytes(STORE, Reference(WIDE, RowRange(b"00640")))
    assert abs(half - WIDE.size / 2) < WIDE.size / 8
    one_of_two = reference_bytes(STORE, Reference(WIDE, columns=ColumnSet.of(["f"])))
    assert abs(one_of_two - WIDE.size / 2) < WIDE.size / 8


def test_row_erasures_are_no_family_of_their_own() -> None:
    cells = [cell(b"%05d" % row, family) for row in range(1280) for family in ("f", "g")]
    erasure = Cell(b"00000", ROW_ERASURE_FAMILY, b"", 1, op=Op.ERASE_ROW, txn=1)
    erased = fragment(STORE, [erasure, *cells])
    one_of_two = reference_bytes(STORE, Reference(erased, columns=ColumnSet.of(["f"])))
    assert abs(one_of_two - erased.size / 2) < erased.size / 8


def test_t16_split_halves_have_about_half_the_bytes_each() -> None:
    sizes = [
        tablet_bytes(STORE, TabletConfig("t", TABLE, rows, references=(Reference(WIDE, rows),)))
        for rows in (RowRange(b"", b"00640"), RowRange(b"00640"))
    ]
    assert abs(sizes[0] - sizes[1]) < WIDE.size / 8


def test_t16_samples_are_existing_rows_inside_the_fence() -> None:
    rows = RowRange(b"00200", b"01000")
    samples = list(row_samples(STORE, Reference(WIDE, rows)))
    assert len(samples) >= 5
    keys = [sample.row for sample in samples]
    assert keys == sorted(keys)
    assert all(rows.contains(key) and len(key) == 5 for key in keys)
    total = sum(sample.size_bytes for sample in row_samples(STORE, Reference(WIDE)))
    assert abs(total - WIDE.size) < WIDE.size / 4


def test_a_row_over_several_row_groups_is_one_sample() -> None:
    one_row = fragment(
        STORE,
        [
            *(cell(b"big", txn=number) for number in range(1, 1000)),
            cell(b"next"),
        ],
    )
    keys = [sample.row for sample in row_samples(STORE, Reference(one_row, EVERYTHING))]
    assert keys in ([b"big"], [b"big", b"next"])


def test_large_files_are_sampled() -> None:
    assert SAMPLES_PER_FILE_MAX >= 100
    assert len(list(row_samples(STORE, Reference(WIDE)))) <= SAMPLES_PER_FILE_MAX
