"""Repair plans: what is unambiguous is mended, all else is refused with a reason (M26–M28, M31)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.model.ranges import RowRange
from stele.tablet.check.facts import FileFacts, StoreFacts
from stele.tablet.check.findings import Finding, Kind
from stele.tablet.check.plan import Plan, make_plan, widen
from stele.tablet.check.verify import verify
from stele.tablet.config import TabletConfig
from stele.tablet.meta_table import META0, META1
from tests.unit.tablet.check.metas import (
    DAMAGES,
    Damaged,
    forget_in_the_catalog,
    info,
    save_only_the_lower_half,
    save_only_the_upper_half,
    split,
    store_of,
    tablet,
    valid_tables,
)


def plan_for(facts: StoreFacts) -> Plan:
    return make_plan(facts, verify(facts))


def carried_out(facts: StoreFacts, plan: Plan) -> StoreFacts:
    """The facts after the plan."""
    edit = [plan.edit(of_meta=True), plan.edit(of_meta=False)]
    tablets = {(t.table, t.rows.end): t for t in facts.tablets}
    for part in edit:
        for config in part.removed:
            del tablets[config.table, config.rows.end]
        for config in part.written:
            tablets[config.table, config.rows.end] = config
    return replace(facts, tablets=tuple(tablets.values()))


def reason(facts: StoreFacts) -> str:
    plan = plan_for(facts)
    assert not plan.steps
    (refusal,) = plan.refusals
    return refusal.reason


def test_nothing_wrong_nothing_planned() -> None:
    assert plan_for(store_of(tablet(1))) == Plan()


def test_m27_the_lower_row_of_half_a_split_is_deleted() -> None:
    whole = tablet(1, b"", None, info(1))
    lower, _ = split(whole, b"m", "t1.2")
    facts = store_of(whole, lower)
    plan = plan_for(facts)
    (step,) = plan.steps
    assert step.edit.removed == (lower,)
    assert carried_out(facts, plan).tablets == (whole,)


def test_m28_the_tablet_above_a_gap_is_widened_downwards() -> None:
    whole = tablet(1, b"c", None, info(1))
    _, upper = split(whole, b"m", "t1.2")
    facts = store_of(tablet(0, b"", b"c"), upper)
    mended = carried_out(facts, plan_for(facts))
    assert verify(mended) == []
    (widened,) = (t for t in mended.tablets if t.id == upper.id)
    assert (widened.rows, widened.references, widened.marks) == (
        whole.rows,
        whole.references,
        whole.marks,
    )
    assert widened.revision > upper.revision


def test_widening_moves_only_what_began_with_the_tablet() -> None:
    config = tablet(1, b"m", None, info(1))
    inner = replace(config.references[0], rows=RowRange(b"p", b"q"))
    widened = widen(replace(config, references=(*config.references, inner)), b"c")
    assert [r.rows.start for r in widened.references] == [b"c", b"p"]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (FileFacts(1, table="t1", rows=RowRange(b"d", b"e")), "has rows there"),
        (FileFacts(1), "cannot be read"),
        (FileFacts(1, table="t1", rows=RowRange(b"n", b"o")), None),
        (FileFacts(1, table="t2", rows=RowRange(b"d", b"e")), None),
    ],
)
def test_a_gap_in_which_a_lost_file_may_belong_is_not_closed(
    file: FileFacts, words: str | None
) -> None:
    facts = store_of(tablet(0, b"", b"c"), tablet(1, b"m"))
    facts = replace(facts, files={"s1-00000009.parquet": file})
    plan = plan_for(facts)
    if words is None:
        assert len(plan.steps) == 1
    else:
        assert words in reason(facts)


@pytest.mark.parametrize(("end", "refused"), [(b"d", True), (b"m", True), (b"c", False)])
def test_a_gap_where_a_row_cannot_be_read_is_not_closed(end: bytes, refused: bool) -> None:
    bad = Finding(Kind.BACKWARD_RANGE, "t1", "row", "backward", b"z", end)
    facts = store_of(tablet(0, b"", b"c"), tablet(1, b"m"), unreadable=(bad,))
    plan = plan_for(facts)
    assert (not plan.steps) is refused


def test_a_tablet_with_other_damage_is_not_widened() -> None:
    facts = store_of(tablet(0, b"", b"c"), tablet(1, b"m", None, info(1)), files={})
    assert not plan_for(facts).steps
    facts = store_of(tablet(0, b"", b"c"), tablet(1, b"m"), logs={})
    assert not plan_for(facts).steps


def test_rows_of_unknown_tables_are_deleted() -> None:
    facts = store_of(tablet(1), tablet(1, b"", b"c", table="t2"), tables={"t1": "one"})
    mended = carried_out(facts, plan_for(facts))
    assert mended.tablets == (tablet(1),)
    bad = Finding(Kind.UNREADABLE_CONFIG, "t2", "row", "bad", end=b"x")
    plan = plan_for(replace(facts, unreadable=(bad,)))
    assert not plan.steps


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (store_of(tablet(1, b"", b"m")), "no tablet above"),
        (store_of(tablet(1, b"", b"m", info(1)), tablet(2)), "which of them is right"),
        (store_of(tablet(1, b"", b"m"), tablet(1, b"m")), "by right"),
        (store_of(tablet(1), tables={"t1": "one", "t2": "two"}), "cannot be known"),
        (store_of(tablet(1, b"b", table=META0), tables={}), "the root is never changed"),
        (
            store_of(tablet(1, b"b"), unknown_below=META1),
            "has to be readable first",
        ),
    ],
)
def test_what_is_ambiguous_is_refused(facts: StoreFacts, words: str) -> None:
    assert any(words in refusal.reason for refusal in plan_for(facts).refusals)
    assert not plan_for(facts).steps


def test_meta_is_repaired_before_what_it_holds() -> None:
    meta1 = tablet(2, b"b", table=META1)
    facts = store_of(meta1, tablet(1, b"m"), tables={"t1": "one"})
    plan = plan_for(facts)
    assert [step.finding.table for step in plan.steps] == [META1]
    assert plan.edit(of_meta=False).is_empty
    assert not plan.edit(of_meta=True).is_empty
    after = plan_for(carried_out(facts, plan))
    assert [step.finding.table for step in after.steps] == ["t1"]


REPAIRED_BY_ITSELF = (
    save_only_the_lower_half,
    save_only_the_upper_half,
    forget_in_the_catalog,
)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(DAMAGES))
def test_m26_a_repair_ends_sound_or_changes_nothing(
    seed: int, damage: Callable[[Random, Damaged], None]
) -> None:
    configs = valid_tables(seed)[0]
    sound = store_of(*configs)
    table = Damaged(configs[0].table, configs)
    damage(Random(seed), table)
    facts = store_of(*table.tablets)
    facts = replace(facts, tables=sound.tables, files={**_orphans(sound), **facts.files})
    facts = table.change(facts)
    plan = plan_for(facts)
    if plan.steps:
        left = [f for f in verify(carried_out(facts, plan)) if f.kind is not Kind.ORPHAN_FILE]
        assert left == []
    elif damage in REPAIRED_BY_ITSELF:
        lost = {name for config in sound.tablets for name in config.files()} - {
            name for config in facts.tablets for name in config.files()
        }
        assert lost, "only a file that may belong into the gap is a reason to refuse this"


def _orphans(sound: StoreFacts) -> dict[str, FileFacts]:
    """All files, as they look when nobody refers to them."""
    return {
        reference.file.name: FileFacts(
            100,
            table=config.table,
            rows=RowRange(
                reference.file.summary.first_row, reference.file.summary.last_row + b"\x00"
            ),
        )
        for config in sound.tablets
        for reference in config.references
    }


def test_a_lost_tablet_that_held_a_file_alone_is_not_papered_over() -> None:
    lower: TabletConfig
    lower, upper = split(tablet(1, b"", None, info(1, b"a", b"b")), b"m", "t1.2")
    facts = replace(store_of(upper), files=_orphans(store_of(lower, upper)))
    assert "has rows there" in reason(facts)
