"""Verification of META: valid stores have no findings, every planted damage is found (M19–M31)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.model.cells import Cell
from stele.model.ranges import RowRange
from stele.storage.references import Reference
from stele.tablet.check.facts import FileFacts, StoreFacts
from stele.tablet.check.findings import Finding, Kind
from stele.tablet.check.verify import Border, border, is_half_split, read_row, verify
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.meta_rows import edit_batch, meta_key
from stele.tablet.meta_table import META0, META1
from tests.unit.tablet.check.metas import (
    DAMAGES,
    Damaged,
    Found,
    info,
    split,
    store_of,
    tablet,
    valid_tables,
)


def found(facts: StoreFacts) -> set[Found]:
    return {(finding.kind, finding.table, finding.subject) for finding in verify(facts)}


def orphans(before: StoreFacts, after: StoreFacts) -> set[Found]:
    """Files of the first that the second no longer refers to."""
    needed = {name for config in after.tablets for name in config.files()}
    return {
        (Kind.ORPHAN_FILE, file.table or "", name)
        for name, file in before.files.items()
        if name not in needed and name in after.files
    }


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32))
def test_valid_stores_have_no_findings(seed: int) -> None:
    tablets = [config for table in valid_tables(seed) for config in table]
    assert verify(store_of(*tablets)) == []


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 32), st.lists(st.sampled_from([None, *DAMAGES]), max_size=3))
def test_exactly_the_planted_damage_is_found(
    seed: int, chosen: Sequence[Callable[[Random, Damaged], None] | None]
) -> None:
    """Recall and precision are both 100 %, with another damage in each table."""
    random = Random(seed)
    tables = [Damaged(configs[0].table, configs) for configs in valid_tables(seed)]
    sound = store_of(*(config for table in tables for config in table.tablets))
    for table, damage in zip(tables, chosen, strict=False):
        if damage is not None:
            damage(random, table)
    facts = store_of(*(config for table in tables for config in table.tablets))
    facts = replace(facts, tables=sound.tables, files={**sound.files, **facts.files})
    for table in tables:
        facts = table.change(facts)
    expected = {finding for table in tables for finding in table.expected}
    assert found(facts) == expected | orphans(sound, facts)


@pytest.mark.parametrize(
    ("below", "start", "expected"),
    [
        (None, b"", Border.FINE),
        (None, b"b", Border.GAP),
        (tablet(1, b"", b"b"), b"b", Border.FINE),
        (tablet(1, b"", b"a"), b"b", Border.GAP),
        (tablet(1, b"", b"c"), b"b", Border.OVERLAP),
        (tablet(1, b"", None), b"b", Border.OVERLAP),
    ],
)
def test_m30_a_tablet_is_compared_with_its_predecessor(
    below: TabletConfig | None, start: bytes, expected: Border
) -> None:
    """The first tablet has no neighbour below, and that alone is no gap."""
    assert border(below, tablet(2, start, b"x")) is expected


def test_m31_half_a_split_is_told_from_the_rows_before_the_tablet_that_is_loaded() -> None:
    """A walk from the beginning: from the tablet on that is being loaded, nothing looks wrong."""
    whole = tablet(1, b"c", None, info(1))
    _, upper = split(whole, b"m", "t1.2")
    assert border(upper, tablet(3, b"z")) is Border.OVERLAP
    assert border(tablet(0, b"", b"c"), upper) is Border.GAP
    assert border(tablet(0, b"", b"m"), upper) is Border.FINE


def test_m19_m20_a_hole_names_its_rows() -> None:
    (finding,) = verify(store_of(tablet(1, b"", b"b"), tablet(2, b"d")))
    assert (finding.kind, finding.start, finding.end) == (Kind.GAP, b"b", b"d")
    assert "'name of t1' has no tablet for the rows from b'b' to b'd'" in finding.detail


def test_m21_m24_m26_both_halves_or_none_need_no_repair() -> None:
    whole = tablet(1, b"", None, info(1))
    assert verify(store_of(whole)) == []
    assert verify(store_of(*split(whole, b"m", "t1.2"))) == []


def test_m24_m27_only_the_lower_cell_of_a_split_is_an_overlap_of_its_own_kind() -> None:
    whole = tablet(1, b"", None, info(1), info(2, b"p", b"q"))
    lower, upper = split(whole, b"m", "t1.2")
    assert is_half_split(lower, whole)
    assert found(store_of(whole, lower)) == {(Kind.HALF_SPLIT, "t1", lower.id)}
    assert not is_half_split(upper, whole), "the upper half has another first row"
    assert not is_half_split(replace(lower, log="log/s2"), whole), "it may hold more in its log"


def test_m24_m28_only_the_upper_cell_of_a_split_is_a_gap() -> None:
    lower, upper = split(tablet(1, b"c", None, info(1)), b"m", "t1.2")
    facts = store_of(tablet(0, b"", b"c"), upper)
    assert lower.files() == upper.files()
    assert found(facts) == {(Kind.GAP, "t1", upper.id)}


def test_m29_the_walk_finds_all_that_is_wrong_in_one_table() -> None:
    facts = store_of(
        tablet(1, b"b", b"d"), tablet(2, b"c", b"f", info(1)), tablet(3, b"g", b"k"), tables={}
    )
    facts = replace(facts, tables={"t1": "one"})
    assert found(facts) == {
        (Kind.FIRST_ROW_NOT_EMPTY, "t1", "t1.1"),
        (Kind.OVERLAP, "t1", "t1.1"),
        (Kind.GAP, "t1", "t1.3"),
        (Kind.NO_LAST_TABLET, "t1", "t1"),
    }


def test_a_tablet_over_several_others_is_an_overlap_with_each() -> None:
    facts = store_of(tablet(1, b"", b"b"), tablet(2, b"b", b"d"), tablet(3))
    assert found(facts) == {(Kind.OVERLAP, "t1", "t1.1"), (Kind.OVERLAP, "t1", "t1.2")}


def test_two_references_that_disagree_about_a_file_are_no_half_split() -> None:
    whole = tablet(1, b"", None, info(1))
    (lower, _) = split(whole, b"m", "t1.2")
    other = replace(lower.references[0], file=info(1, b"b"))
    assert not is_half_split(replace(lower, references=(*lower.references, other)), whole)


def test_meta_is_checked_like_any_table_but_needs_no_catalog() -> None:
    root, meta1 = tablet(1, table=META0), tablet(1, b"", b"t5", table=META1)
    facts = store_of(root, meta1, tables={})
    assert found(facts) == {(Kind.NO_LAST_TABLET, META1, META1)}


def test_tables_of_the_catalog_without_tablets_are_damage() -> None:
    facts = store_of(tablet(1), tables={"t1": "one", "t2": "two"})
    assert found(facts) == {(Kind.NO_TABLETS, "t2", "t2")}
    assert found(replace(facts, unknown_below=META1)) == set(), "META was not read in full"


def test_files_of_leases_are_needed_and_checked() -> None:
    old = tablet(1, b"", None, info(7))
    facts = store_of(tablet(1), files={info(7).name: FileFacts(100)})
    assert found(facts) == {(Kind.ORPHAN_FILE, "", info(7).name)}
    facts = replace(facts, leases={"snapshot": (old,)})
    assert found(facts) == set()
    (finding,) = verify(replace(facts, files={}))
    assert finding.kind is Kind.MISSING_FILE
    assert "lease 'snapshot' needs" in finding.detail


def test_a_file_that_is_needed_now_is_reported_once() -> None:
    config = tablet(1, b"", None, info(7))
    (finding,) = verify(store_of(config, files={}, leases={"old": (config,)}))
    assert finding.detail.startswith("tablet t1.1 refers to")


# Rows of META.


def cells_of(config: TabletConfig) -> list[Cell]:
    return [cell for cell in edit_batch(ConfigEdit(written=(config,))).cells() if cell.family]


def with_value(config: TabletConfig, family: str, value: bytes) -> list[Cell]:
    return [
        replace(cell, value=value) if cell.family == family else cell for cell in cells_of(config)
    ]


def test_m17_a_row_is_read_back() -> None:
    config = tablet(1, b"b", b"d", info(1))
    assert read_row(META1, meta_key("t1", b"d"), cells_of(config)) == config


@pytest.mark.parametrize("first", [b"d", b"e"])
def test_an_empty_or_backward_range_is_found(first: bytes) -> None:
    cells = with_value(tablet(1, b"b", b"d"), "first", first)
    finding = read_row(META1, meta_key("t1", b"d"), cells)
    assert isinstance(finding, Finding)
    assert (finding.kind, finding.table) == (Kind.BACKWARD_RANGE, "t1")
    assert (finding.start, finding.end) == (first, b"d")


@pytest.mark.parametrize("family", ["tablet", "marks", "clock", "fragments"])
def test_a_row_that_is_no_config_is_found(family: str) -> None:
    cells = with_value(tablet(1, b"b", b"d", info(1)), family, b"{")
    finding = read_row(META1, meta_key("t1", b"d"), cells)
    assert isinstance(finding, Finding)
    assert (finding.kind, finding.table, finding.end) == (Kind.UNREADABLE_CONFIG, "t1", b"d")


def test_a_key_that_is_no_key_belongs_to_meta_itself() -> None:
    finding = read_row(META1, b"\x00", cells_of(tablet(1)))
    assert isinstance(finding, Finding)
    assert (finding.kind, finding.table) == (Kind.UNREADABLE_CONFIG, META1)


def test_a_reference_outside_can_be_read_and_is_judged_later() -> None:
    reference = Reference(info(1), RowRange(b"a", b"z"))
    config = replace(tablet(1, b"b", b"d"), references=(reference,))
    row = read_row(META1, meta_key("t1", b"d"), cells_of(config))
    assert isinstance(row, TabletConfig)
    facts = store_of(tablet(0, b"", b"b"), row, tablet(2, b"d"))
    assert found(facts) == {(Kind.REFERENCE_OUTSIDE, "t1", "t1.1")}


def test_an_unreadable_row_leaves_a_gap_and_its_table_known() -> None:
    bad = Finding(Kind.UNREADABLE_CONFIG, "t9", "row", "cannot be read", end=b"c")
    facts = store_of(tablet(1), unreadable=(bad,))
    assert found(facts) == {
        (Kind.UNREADABLE_CONFIG, "t9", "row"),
        (Kind.UNKNOWN_TABLE, "t9", "t9"),
    }
