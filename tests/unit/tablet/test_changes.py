"""Changes of configs, as values (T16, T17, T34, T65, T71, T95–T102, M18, M21)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import LimitExceeded
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.fragment_format import FragmentInfo
from stele.storage.references import FlushMark, Reference
from stele.tablet.changes import (
    AddFlush,
    ConfigChange,
    CreateTablets,
    DropTablets,
    JoinTablets,
    RaiseFloor,
    Refused,
    Regroup,
    ReplaceReferences,
    SplitTablet,
    SwapReferences,
    TruncateRows,
)
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from stele.tablet.meta_rows import BORDER_BYTES_MAX
from tests.unit.tablet.engine_support import TABLE, cell, fragment, new_store

STORE = new_store()
WIDE = fragment(STORE, [cell(b"b"), cell(b"k", "g"), cell(b"x")])
LOW = fragment(STORE, [cell(b"b"), cell(b"c")])
LATER = fragment(STORE, [cell(b"b", txn=9), cell(b"x", "g", txn=9)])
F, REST = ColumnSet.of(["f"]), ColumnSet.all_but(["f"])


def tablet(name: str, rows: RowRange, *files: FragmentInfo) -> TabletConfig:
    references = tuple(Reference(file, rows) for file in files)
    return TabletConfig(name, TABLE, rows, references=references, log="log/s1")


LOWER, UPPER = RowRange(b"", b"m"), RowRange(b"m")


def applied(change: ConfigChange, *configs: TabletConfig) -> ConfigEdit:
    edit = change.apply(by_id(configs))
    assert isinstance(edit, ConfigEdit)
    edit.check()
    return edit


def refused(change: ConfigChange, *configs: TabletConfig) -> str:
    outcome = change.apply(by_id(configs))
    assert isinstance(outcome, Refused)
    return outcome.reason


# Flushes.


def test_t95_t96_a_flush_gives_each_tablet_the_files_that_have_rows_of_it_fenced() -> None:
    lower, upper = tablet("t.1", LOWER), tablet("t.2", UPPER)
    edit = applied(AddFlush((Reference(WIDE), Reference(LOW)), 7), lower, upper)
    below, above = edit.written
    assert [(x.file, x.rows) for x in below.references] == [(WIDE, LOWER), (LOW, LOWER)]
    assert [(x.file, x.rows) for x in above.references] == [(WIDE, UPPER)]
    assert below.marks == (FlushMark(LOWER, ALL_COLUMNS, 7),)
    assert (below.clock, below.revision) == (7, 1)


def test_t96_a_flush_leaves_tablets_alone_that_have_no_row_in_it() -> None:
    edit = applied(AddFlush((Reference(LOW),), 7), tablet("t.1", LOWER), tablet("t.2", UPPER))
    assert [config.id for config in edit.written] == ["t.1"]


def test_a_flush_never_lowers_a_clock_and_replaces_its_lower_mark() -> None:
    config = replace(tablet("t.1", EVERYTHING), clock=50, marks=(FlushMark(EVERYTHING, F, 3),))
    (written,) = applied(AddFlush((Reference(LOW),), 7), config).written
    assert written.clock == 50
    assert written.marks == (FlushMark(EVERYTHING, ALL_COLUMNS, 7),)


# Compactions.


def test_t34_a_compaction_swaps_exactly_its_inputs() -> None:
    config = tablet("t.1", EVERYTHING, WIDE, LOW)
    output = Reference(LATER)
    (written,) = applied(
        ReplaceReferences("t.1", (config.references[0],), (output,)), config
    ).written
    assert written.references == (config.references[1], output)
    assert written.revision == config.revision + 1


def test_t34_a_compaction_may_leave_nothing() -> None:
    config = tablet("t.1", EVERYTHING, WIDE)
    (written,) = applied(ReplaceReferences("t.1", config.references, ()), config).written
    assert written.references == ()


def test_a_compaction_is_refused_when_its_tablet_or_an_input_is_gone() -> None:
    config = tablet("t.1", EVERYTHING, WIDE)
    change = ReplaceReferences("t.1", (Reference(LOW),), ())
    assert "no longer refers" in refused(change, config)
    assert "was split" in refused(change, tablet("t.2", EVERYTHING, LOW))


def test_a_compaction_is_refused_when_its_input_was_cut_by_a_regrouping() -> None:
    config = tablet("t.1", EVERYTHING, WIDE)
    (cut,) = applied(Regroup((("a", F), ("b", REST))), config).written
    assert "no longer refers" in refused(ReplaceReferences("t.1", config.references, ()), cut)


# Compactions elsewhere.

OUTPUT = fragment(STORE, [cell(b"b", txn=20), cell(b"x", txn=20)])
ALL_IN_ONE = (("all", ALL_COLUMNS),)


def swap(
    config: TabletConfig,
    *outputs: FragmentInfo,
    groups: tuple[tuple[str, ColumnSet], ...] = ALL_IN_ONE,
) -> SwapReferences:
    """All that a tablet refers to has become these files."""
    made = tuple(Reference(output, config.rows) for output in outputs)
    return SwapReferences(config.rows, config.references, made, groups)


def files_of(config: TabletConfig) -> list[tuple[FragmentInfo, RowRange]]:
    return [(reference.file, reference.rows) for reference in config.references]


def test_a_swap_leaves_what_came_later() -> None:
    config = tablet("t.1", EVERYTHING, WIDE, LOW)
    (later,) = applied(AddFlush((Reference(LATER),), 9), config).written
    (written,) = applied(swap(config, OUTPUT), later).written
    assert files_of(written) == [(LATER, EVERYTHING), (OUTPUT, EVERYTHING)]
    assert written.marks == later.marks
    assert written.revision == later.revision + 1
    assert applied(swap(config, OUTPUT), written).is_empty, "it was done already"
    (nothing,) = applied(swap(config), config).written
    assert nothing.references == ()


def test_each_half_of_a_split_swaps_its_part() -> None:
    config = tablet("t.1", EVERYTHING, WIDE, LOW)
    halves = applied(SplitTablet("t.1", b"m", "t.2", "t.3"), config).written
    below, above = applied(swap(config, OUTPUT), *halves).written
    assert files_of(below) == [(OUTPUT, LOWER)]
    assert files_of(above) == [(OUTPUT, UPPER)]
    (lost,) = applied(ReplaceReferences("t.2", halves[0].references[:1], ()), halves[0]).written
    (only,) = applied(swap(config, OUTPUT), lost, halves[1]).written
    assert files_of(only) == [(OUTPUT, UPPER)]
    assert "t.2 no longer" in refused(swap(config, OUTPUT), lost)


def test_parts_of_a_joined_tablet_are_swapped_one_after_the_other() -> None:
    lower, upper = tablet("t.1", LOWER, WIDE), tablet("t.2", UPPER, WIDE)
    (joined,) = applied(JoinTablets("t.1", "t.2", "t.3"), lower, upper).written
    assert files_of(joined) == [(WIDE, EVERYTHING)]
    (half,) = applied(swap(lower, OUTPUT), joined).written
    assert files_of(half) == [(WIDE, UPPER), (OUTPUT, LOWER)]
    (whole,) = applied(swap(upper), half).written
    assert files_of(whole) == [(OUTPUT, LOWER)]


def test_a_swap_is_cut_into_the_groups_there_are() -> None:
    config = tablet("t.1", EVERYTHING, WIDE)
    groups = (("a", F), ("b", REST))
    (cut,) = applied(Regroup(groups), config).written
    mixed = fragment(STORE, [cell(b"b", txn=20), cell(b"k", "g", txn=20)])
    (written,) = applied(swap(config, mixed, groups=groups), cut).written
    assert [(x.file, x.columns) for x in written.references] == [(mixed, F), (mixed, REST)]


@pytest.mark.parametrize("change", [TruncateRows(RowRange(b"a", b"c"), 9), Regroup((("a", F),))])
def test_rows_or_columns_that_are_gone_do_not_come_back(change: ConfigChange) -> None:
    config = tablet("t.1", EVERYTHING, WIDE)
    (changed,) = applied(change, config).written
    assert "no longer shows" in refused(swap(config, OUTPUT), changed)


# Splits and joins.


def test_t16_m21_both_halves_of_a_split_keep_the_files_that_reach_into_them() -> None:
    marked = replace(
        tablet("t.1", EVERYTHING, WIDE, LOW),
        marks=(FlushMark(EVERYTHING, ALL_COLUMNS, 7),),
        clock=7,
        epoch=3,
        revision=8,
        history_floor=2,
    )
    edit = applied(SplitTablet("t.1", b"m", "t.2", "t.3"), marked)
    below, above = edit.written
    assert edit.removed == (marked,)
    assert (below.id, below.rows, above.id, above.rows) == ("t.2", LOWER, "t.3", UPPER)
    assert below.files() == {WIDE.name, LOW.name}
    assert above.files() == {WIDE.name}, "a file without a row above the border stays below"
    assert below.marks == (FlushMark(LOWER, ALL_COLUMNS, 7),)
    assert above.marks == (FlushMark(UPPER, ALL_COLUMNS, 7),)
    for half in (below, above):
        assert (half.clock, half.epoch, half.revision, half.history_floor) == (7, 3, 9, 2)
        assert half.log == "log/s1"


def test_m18_the_upper_half_keeps_the_end_and_with_it_the_key() -> None:
    edit = applied(SplitTablet("t.1", b"m", "t.2", "t.3"), tablet("t.1", RowRange(b"c", b"x")))
    assert [config.rows for config in edit.written] == [RowRange(b"c", b"m"), RowRange(b"m", b"x")]


def test_t17_a_border_that_a_user_chose_is_protected_above_it() -> None:
    edit = applied(SplitTablet("t.1", b"m", "t.2", "t.3", protected=True), tablet("t.1", LOWER_X))
    assert [config.protected for config in edit.written] == [False, True]


LOWER_X = RowRange(b"", b"x")


@pytest.mark.parametrize("row", [b"c", b"b", b"x", b"z"])
def test_t16_a_split_at_a_row_that_leaves_a_side_without_rows_is_refused(row: bytes) -> None:
    change = SplitTablet("t.1", row, "t.2", "t.3")
    assert "does not divide" in refused(change, tablet("t.1", RowRange(b"c", b"x")))


def test_t61_no_tablet_begins_at_a_row_that_meta_cannot_name() -> None:
    longest = b"m" * BORDER_BYTES_MAX
    whole = tablet("t.0", EVERYTHING)
    assert len(applied(SplitTablet("t.0", longest, "l", "u"), whole).written) == 2
    with pytest.raises(LimitExceeded, match="no tablet can begin or end at a row"):
        applied(SplitTablet("t.0", longest + b"m", "l", "u"), whole)


def test_a_split_or_join_of_a_tablet_that_is_gone_is_refused() -> None:
    config = tablet("t.9", EVERYTHING)
    assert "was split" in refused(SplitTablet("t.1", b"m", "t.2", "t.3"), config)
    assert "was split" in refused(JoinTablets("t.1", "t.9", "t.3"), config)


def test_t17_a_join_gives_back_what_a_split_has_cut() -> None:
    whole = replace(
        tablet("t.1", EVERYTHING, LOW, WIDE), marks=(FlushMark(EVERYTHING, ALL_COLUMNS, 7),)
    )
    halves = applied(SplitTablet("t.1", b"m", "t.2", "t.3"), whole).written
    (joined,) = applied(JoinTablets("t.2", "t.3", "t.4"), *halves).written
    assert joined.rows == EVERYTHING
    assert joined.marks == whole.marks
    by_file = {reference.file.name: reference.rows for reference in joined.references}
    assert by_file == {WIDE.name: EVERYTHING, LOW.name: LOWER}


def test_t17_a_join_keeps_the_fences_of_files_that_only_one_side_refers_to() -> None:
    """Without them, rows that one side has rewritten would come back from the other's file."""
    below, above = tablet("t.1", LOWER, WIDE), tablet("t.2", UPPER, LATER)
    (joined,) = applied(JoinTablets("t.1", "t.2", "t.3"), below, above).written
    assert {(x.file.name, x.rows) for x in joined.references} == {
        (WIDE.name, LOWER),
        (LATER.name, UPPER),
    }


def test_a_join_takes_the_higher_of_everything() -> None:
    below = replace(tablet("t.1", LOWER), clock=5, epoch=9, revision=4, history_floor=1)
    above = replace(tablet("t.2", UPPER), clock=7, epoch=8, revision=6, history_floor=3)
    (joined,) = applied(JoinTablets("t.1", "t.2", "t.3"), below, above).written
    assert (joined.clock, joined.epoch, joined.revision, joined.history_floor) == (7, 9, 7, 3)


def test_t17_only_neighbours_join() -> None:
    apart = [tablet("t.1", RowRange(b"", b"c")), tablet("t.2", UPPER)]
    assert "do not touch" in refused(JoinTablets("t.1", "t.2", "t.3"), *apart)
    turned = [tablet("t.1", UPPER), tablet("t.2", LOWER)]
    assert "do not touch" in refused(JoinTablets("t.1", "t.2", "t.3"), *turned)


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"k", b"m", b"x"]), min_size=1, max_size=6))
@settings(max_examples=60)
def test_t16_t17_any_splits_joined_again_show_every_file_once_and_whole(rows: list[bytes]) -> None:
    configs = by_id([tablet("t.0", EVERYTHING, WIDE, LOW, LATER)])
    for number, row in enumerate(rows):
        (owner,) = [config for config in configs.values() if config.rows.contains(row)]
        change = SplitTablet(owner.id, row, f"l{number}", f"u{number}")
        outcome = change.apply(configs)
        if isinstance(outcome, ConfigEdit):
            del configs[owner.id]
            configs |= by_id(outcome.written)
    while len(configs) > 1:
        below, above = sorted(configs.values(), key=lambda config: config.rows.start)[:2]
        (joined,) = applied(JoinTablets(below.id, above.id, f"{below.id}j"), below, above).written
        del configs[below.id], configs[above.id]
        configs[joined.id] = joined
    (whole,) = configs.values()
    assert sorted(x.file.name for x in whole.references) == [WIDE.name, LOW.name, LATER.name]
    assert all(reference.shows_whole_file for reference in whole.references)


# Groups.


def test_t65_t100_regrouping_cuts_each_reference_along_the_new_groups() -> None:
    config = tablet("t.1", EVERYTHING, WIDE, LOW)
    (written,) = applied(Regroup((("a", F), ("b", REST))), config).written
    assert [(x.file.name, x.columns) for x in written.references] == [
        (WIDE.name, F),
        (LOW.name, F),
        (WIDE.name, REST),
    ]


def test_t71_columns_that_no_group_holds_are_referred_to_by_nobody() -> None:
    config = tablet("t.1", EVERYTHING, WIDE, LATER)
    (written,) = applied(Regroup((("b", ColumnSet.of(["g"])),)), config).written
    assert {reference.families for reference in written.references} == {("g",)}


def test_t98_columns_that_shift_back_and_forth_show_only_what_they_may() -> None:
    """The note's first example: {f} {g} → {f g} → {f} {g}, with files of each time."""
    old_f = Reference(WIDE, columns=F)
    old_g = Reference(WIDE, columns=ColumnSet.of(["g"]))
    config = TabletConfig("t.1", TABLE, EVERYTHING, references=(old_f, old_g))
    (together,) = applied(Regroup((("both", ColumnSet.of(["f", "g"])),)), config).written
    assert [(x.file.name, x.columns) for x in together.references] == [
        (WIDE.name, ColumnSet.of(["f", "g"]))
    ], "a file that several groups shared is referred to once"
    later = replace(together, references=(*together.references, Reference(LATER)))
    apart = (("f", F), ("g", ColumnSet.of(["g"])))
    (again,) = applied(Regroup(apart), later).written
    assert {(x.file.name, x.columns) for x in again.references} == {
        (file.name, columns) for file in (WIDE, LATER) for _, columns in apart
    }


def test_t98_a_column_that_was_compacted_elsewhere_does_not_return_from_a_shared_file() -> None:
    """The second example: what was rewritten in one group stays hidden in the file it came from."""
    config = tablet("t.1", EVERYTHING, WIDE)
    (cut,) = applied(Regroup((("f", F), ("rest", REST))), config).written
    only_f = next(reference for reference in cut.references if reference.columns == F)
    (compacted,) = applied(ReplaceReferences("t.1", (only_f,), ()), cut).written
    assert applied(Regroup((("all", ALL_COLUMNS),)), compacted).is_empty
    assert [(x.file.name, x.columns) for x in compacted.references] == [(WIDE.name, REST)]


def test_a_regrouping_that_changes_nothing_writes_nothing() -> None:
    config = tablet("t.1", EVERYTHING, WIDE)
    assert applied(Regroup((("all", ALL_COLUMNS),)), config).is_empty


# The rest.


def test_truncating_cuts_fences_and_raises_the_history_floor() -> None:
    config = tablet("t.1", EVERYTHING, WIDE, LOW)
    (written,) = applied(TruncateRows(RowRange(b"c", b"l"), 9), config).written
    assert [(x.file.name, x.rows) for x in written.references] == [
        (WIDE.name, RowRange(b"", b"c")),
        (LOW.name, RowRange(b"", b"c")),
        (WIDE.name, RowRange(b"l")),
    ]
    assert written.history_floor == 9
    assert written.marks == config.marks


def test_truncating_leaves_tablets_alone_that_have_no_row_in_it() -> None:
    lower, upper = tablet("t.1", LOWER, WIDE), tablet("t.2", UPPER, WIDE)
    edit = applied(TruncateRows(RowRange(b"x"), 9), lower, upper)
    assert [config.id for config in edit.written] == ["t.2"]
    everything = applied(TruncateRows(EVERYTHING, 9), lower, upper)
    assert [config.references for config in everything.written] == [(), ()]


def test_a_floor_is_raised_where_it_is_lower() -> None:
    lower, upper = tablet("t.1", LOWER, WIDE), tablet("t.2", UPPER, WIDE)
    (raised,) = applied(RaiseFloor(RowRange(b"x"), 9), lower, upper).written
    assert (raised.id, raised.history_floor, raised.references) == ("t.2", 9, upper.references)
    assert applied(RaiseFloor(EVERYTHING, 9), raised).is_empty


def test_tables_begin_and_end() -> None:
    first = (tablet("t.1", LOWER), tablet("t.2", UPPER))
    assert applied(CreateTablets(first)).written == first
    assert applied(DropTablets(), *first).removed == first
    with pytest.raises(AssertionError, match="made once"):
        CreateTablets(first).apply(by_id(first))
