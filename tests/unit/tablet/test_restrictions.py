"""Which references belong to a group (T65, T66, T101)."""

from __future__ import annotations

from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.ranges import EVERYTHING
from stele.storage.references import Reference
from stele.tablet.changes import Regroup
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from stele.tablet.restrictions import group_references
from tests.unit.tablet.engine_support import TABLE, TWO_GROUPS, cell, fragment, new_store

INFO = fragment(new_store(), [cell(b"a"), cell(b"a", "g"), cell(b"b", "h")])


def test_t101_each_reference_belongs_to_the_group_that_has_all_its_columns() -> None:
    narrow = Reference(INFO, columns=ColumnSet.of(["g"]))
    f, rest = Reference(INFO, columns=ColumnSet.of(["f"])), TWO_GROUPS.column_set("b")
    config = TabletConfig(
        "t", TABLE, EVERYTHING, references=(f, narrow, Reference(INFO, columns=rest))
    )
    a, b = TWO_GROUPS.groups
    assert group_references(config, TWO_GROUPS, a) == (f,)
    assert group_references(config, TWO_GROUPS, b) == (narrow, Reference(INFO, columns=rest))


def test_t65_after_a_regrouping_every_reference_belongs_to_exactly_one_group() -> None:
    config = TabletConfig("t", TABLE, EVERYTHING, references=(Reference(INFO, EVERYTHING),))
    assert config.references[0].columns == ALL_COLUMNS
    groups = tuple((group.name, TWO_GROUPS.column_set(group)) for group in TWO_GROUPS.groups)
    edit = Regroup(groups).apply(by_id([config]))
    assert isinstance(edit, ConfigEdit)
    (cut,) = edit.written
    owned = [
        reference
        for group in TWO_GROUPS.groups
        for reference in group_references(cut, TWO_GROUPS, group)
    ]
    assert sorted(owned, key=repr) == sorted(cut.references, key=repr)
