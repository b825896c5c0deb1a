"""Configs and edits of configs (T4, T57)."""

from __future__ import annotations

import pytest

from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.storage.references import Reference
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from tests.unit.tablet.engine_support import TABLE, cell, fragment, new_store


def test_t57_a_config_names_each_file_once_however_many_references_it_has() -> None:
    info = fragment(new_store(), [cell(b"a"), cell(b"z", "g")])
    config = TabletConfig(
        "t.1",
        TABLE,
        RowRange(),
        references=(
            Reference(info, columns=ColumnSet.of(["f"])),
            Reference(info, columns=ColumnSet.of(["g"])),
        ),
    )
    assert config.files() == {info.name}


def test_an_edit_in_which_a_reference_leaves_its_tablet_is_our_own_mistake() -> None:
    info = fragment(new_store(), [cell(b"a"), cell(b"z")])
    stray = TabletConfig("t.1", TABLE, RowRange(b"", b"m"), references=(Reference(info),))
    with pytest.raises(AssertionError, match=r"t\.1: a reference reaches"):
        ConfigEdit(written=(stray,)).check()
    fenced = TabletConfig(
        "t.1", TABLE, RowRange(b"", b"m"), references=(Reference(info, RowRange(b"", b"m")),)
    )
    ConfigEdit(written=(fenced,)).check()


def test_an_edit_that_writes_one_tablet_twice_is_our_own_mistake() -> None:
    config = TabletConfig("t.1", TABLE, RowRange())
    with pytest.raises(AssertionError):
        ConfigEdit(written=(config, config)).check()


def test_an_edit_is_empty_only_if_nothing_comes_and_nothing_goes() -> None:
    config = TabletConfig("t.1", TABLE, RowRange())
    assert ConfigEdit().is_empty
    assert not ConfigEdit(removed=(config,)).is_empty
    assert not ConfigEdit(written=(config,)).is_empty


def test_by_id() -> None:
    lower = TabletConfig("t.1", TABLE, RowRange(b"", b"m"))
    upper = TabletConfig("t.2", TABLE, RowRange(b"m"))
    assert by_id([lower, upper]) == {"t.1": lower, "t.2": upper}
