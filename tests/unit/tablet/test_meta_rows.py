"""Configs as rows of META (T57, T61, T62, M17–M30)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption, InvalidArgument, LimitExceeded, UnsupportedFormat
from stele.model.cells import Cell, Op
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.limits import FAMILIES_MAX, FAMILY_BYTES_MAX, ROW_BYTES_MAX
from stele.model.ranges import RowRange
from stele.storage.references import FlushMark, Reference
from stele.tablet.changes import SplitTablet
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from stele.tablet.meta_rows import (
    BORDER_BYTES_MAX,
    META_FAMILIES,
    check_border,
    check_table_id,
    check_tiling,
    config_from_cells,
    edit_batch,
    meta_key,
    parse_meta_key,
    rows_from,
    table_rows,
)
from tests.unit.tablet.engine_support import TABLE, cell, fragment, new_store

ENDS = st.none() | st.binary(min_size=1, max_size=4)
INFO = fragment(new_store(), [cell(b"a"), cell(b"z", "g")])
FULL = TabletConfig(
    "t.1",
    TABLE,
    RowRange(b"a", b"m"),
    references=(
        Reference(INFO, RowRange(b"a", b"m"), ColumnSet.of(["f"])),
        Reference(INFO, RowRange(b"a", b"b"), ColumnSet.all_but(["f"])),
        Reference(INFO, RowRange(b"c", b"m"), ColumnSet.all_but(["f"])),
    ),
    marks=(FlushMark(RowRange(b"a", b"m"), ALL_COLUMNS, 7),),
    log="log/s1",
    location="unix:here",
    clock=1 << 60,
    epoch=3,
    revision=9,
    protected=True,
    history_floor=5,
)


def cells_of(config: TabletConfig) -> list[Cell]:
    batch = edit_batch(ConfigEdit(written=(config,)))
    return [each for each in batch.cells() if each.op is Op.PUT]


def stored(config: TabletConfig) -> TabletConfig:
    return config_from_cells(meta_key(config.table, config.rows.end), cells_of(config))


# Keys.


def test_t61_m17_the_key_is_table_space_end_and_an_exclamation_mark_for_no_end() -> None:
    assert meta_key("t1", b"row") == b"t1 row"
    assert meta_key("t1", None) == b"t1!"
    assert parse_meta_key(b"t1 row") == ("t1", b"row")
    assert parse_meta_key(b"t1!") == ("t1", None)


@given(st.sampled_from(["a", "t1", "t1-", "t10", "Z_9"]), ENDS)
def test_t61_keys_are_read_back(table: str, end: bytes | None) -> None:
    assert parse_meta_key(meta_key(table, end)) == (table, end)


@given(ENDS, ENDS)
def test_t61_keys_sort_as_the_ends_do_the_unbounded_one_last(
    a: bytes | None, b: bytes | None
) -> None:
    ends_in_order = (a is None, a or b"") < (b is None, b or b"")
    assert (meta_key("t", a) < meta_key("t", b)) == ends_in_order


@given(ENDS, st.sampled_from(["t", "t1", "t10", "t-", "t_", "s", "u", "T"]), ENDS)
def test_t61_tables_do_not_mix(end: bytes | None, other: str, other_end: bytes | None) -> None:
    rows = table_rows("t1")
    assert rows.contains(meta_key("t1", end))
    assert rows.contains(meta_key(other, other_end)) == (other == "t1")


@given(st.binary(max_size=3), ENDS)
def test_the_first_key_from_a_row_on_is_that_of_its_tablet(row: bytes, end: bytes | None) -> None:
    """A tablet whose exclusive end is the row does not hold it."""
    holds_or_above = end is None or row < end
    assert rows_from("t1", row).contains(meta_key("t1", end)) == holds_or_above


@pytest.mark.parametrize("key", [b"", b"t1", b"t1 ", b"t1x!y", b" row", b"t1!row", b"\xff row"])
def test_m17_a_key_of_another_shape_is_corruption(key: bytes) -> None:
    with pytest.raises(Corruption, match="is not the key of a tablet"):
        parse_meta_key(key)


@pytest.mark.parametrize("table", ["", "a b", "a!", "é", "-a", "a" * 65, "a\n"])
def test_ids_that_would_mix_rows_of_tables_are_refused(table: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a table id"):
        check_table_id(table)
    assert check_table_id("a" * 64) == "a" * 64


# Rows.


def test_t57_t62_a_config_is_read_back_as_it_was_written() -> None:
    assert set(stored(FULL).references) == set(FULL.references)
    assert replace(stored(FULL), references=FULL.references) == FULL
    bare = TabletConfig("t.2", TABLE, RowRange())
    assert stored(bare) == bare


def test_t4_t62_rows_files_and_server_are_columns_apart_and_references_have_one_a_group() -> None:
    cells = cells_of(FULL)
    assert {each.family for each in cells} <= set(META_FAMILIES)
    assert FULL.location is not None
    places = [each.value for each in cells if each.family == "location"]
    assert places == [FULL.location.encode()], "the server has a column of its own"
    assert not any(FULL.location.encode() in c.value for c in cells if c.family != "location")
    groups = [each.qualifier for each in cells if each.family == "fragments"]
    assert groups == [b"* but f", b"f"]


def test_m18_m21_a_split_is_one_batch_of_a_new_row_and_the_rewritten_one() -> None:
    edit = SplitTablet("t.1", b"c", "t.2", "t.3").apply(by_id([FULL]))
    assert isinstance(edit, ConfigEdit)
    batch = list(edit_batch(edit).cells())
    assert {each.row for each in batch} == {meta_key(TABLE, b"c"), meta_key(TABLE, b"m")}
    erased = [each.row for each in batch if each.op is Op.ERASE_ROW]
    assert erased == [meta_key(TABLE, b"c"), meta_key(TABLE, b"m")], "rows are written whole"


def test_t104_the_row_of_a_tablet_that_is_gone_is_erased() -> None:
    batch = list(edit_batch(ConfigEdit(removed=(FULL,))).cells())
    assert [(each.row, each.op) for each in batch] == [(meta_key(TABLE, b"m"), Op.ERASE_ROW)]


@pytest.mark.parametrize(
    ("family", "value", "named"),
    [("moons", b"3", "'moons'"), ("tablet", b'{"id": "t.1", "moons": 3}', "`moons`")],
)
def test_what_a_newer_program_wrote_is_named(family: str, value: bytes, named: str) -> None:
    key = meta_key(TABLE, b"m")
    cells = [each for each in cells_of(FULL) if each.family != family]
    with pytest.raises(UnsupportedFormat, match=f"META row .*{named}.* newer Stele"):
        config_from_cells(key, [*cells, Cell(key, family, b"", 0, value)])


@pytest.mark.parametrize("family", ["first", "tablet", "marks", "clock"])
def test_a_row_without_a_column_it_needs_is_corruption(family: str) -> None:
    cells = [each for each in cells_of(FULL) if each.family != family]
    with pytest.raises(Corruption, match="cannot be read"):
        config_from_cells(meta_key(TABLE, b"m"), cells)


@pytest.mark.parametrize(
    ("family", "value"),
    [
        ("first", b"z"),
        ("tablet", b"{}"),
        ("tablet", b"\xff"),
        ("marks", b"nonsense"),
        ("fragments", b'[{"file":{}}]'),
        ("clock", b"soon"),
        ("log", b"\xff"),
    ],
)
def test_a_column_that_is_not_ours_is_corruption(family: str, value: bytes) -> None:
    cells = [
        replace(each, value=value) if each.family == family else each for each in cells_of(FULL)
    ]
    with pytest.raises(Corruption):
        config_from_cells(meta_key(TABLE, b"m"), cells)


def test_a_reference_beyond_its_tablet_is_corruption() -> None:
    cells = [
        replace(each, value=b"b") if each.family == "first" else each for each in cells_of(FULL)
    ]
    with pytest.raises(Corruption, match="a reference reaches beyond"):
        config_from_cells(meta_key(TABLE, b"m"), cells)


@given(st.binary(max_size=64), st.sampled_from(META_FAMILIES), st.binary(max_size=3))
@settings(max_examples=200)
def test_whatever_a_row_holds_it_is_a_config_or_corruption(
    value: bytes, family: str, qualifier: bytes
) -> None:
    stray = Cell(meta_key(TABLE, b"m"), family, qualifier, 0, value)
    try:
        found = config_from_cells(meta_key(TABLE, b"m"), [*cells_of(FULL), stray])
    except Corruption:
        return
    assert found.rows.end == b"m"


# The tiling.


def tablets(*borders: bytes) -> list[TabletConfig]:
    return [
        TabletConfig(f"t.{number}", TABLE, RowRange(start, end))
        for number, (start, end) in enumerate(zip([b"", *borders], [*borders, None], strict=True))
    ]


THREE = tablets(b"c", b"m")


def test_m19_tablets_without_holes_are_fine() -> None:
    check_tiling(TABLE, tablets())
    check_tiling(TABLE, tablets(b"c", b"m"))


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (THREE[1:], "gap"),
        ([THREE[0], THREE[2]], "gap"),
        (THREE[:2], "has no tablet from b'm' on"),
        ([], "has no tablet from b'' on"),
        ([THREE[0], replace(THREE[1], rows=RowRange(b"b", b"m")), THREE[2]], "overlap"),
        ([*THREE, THREE[2]], "follows the unbounded one"),
    ],
)
def test_m20_m27_m28_m29_a_hole_or_an_overlap_is_named(
    found: list[TabletConfig], what: str
) -> None:
    with pytest.raises(Corruption, match=what):
        check_tiling(TABLE, found)


def test_the_key_of_every_tablet_there_can_be_is_a_row() -> None:
    longest = check_border(b"k" * BORDER_BYTES_MAX)
    table = "t" * 64
    assert check_table_id(table)
    assert len(meta_key(table, longest)) == ROW_BYTES_MAX
    config = TabletConfig("t.1", table, RowRange(b"", longest))
    assert stored(config) == config
    with pytest.raises(LimitExceeded, match=f"row of {BORDER_BYTES_MAX + 1} bytes"):
        stored(replace(config, rows=RowRange(b"", longest + b"k")))


def test_references_of_more_families_than_a_qualifier_can_name_are_read_back() -> None:
    names = [f"{number:0{FAMILY_BYTES_MAX}d}" for number in range(FAMILIES_MAX)]
    half = FAMILIES_MAX // 2
    sets = (ColumnSet.of(names[:half]), ColumnSet.of(names[half:]), ColumnSet.all_but(names))
    references = tuple(Reference(INFO, FULL.rows, columns) for columns in sets)
    config = replace(FULL, references=references)
    assert set(stored(config).references) == set(references)
