"""Names of families: checked once, and not too many."""

from __future__ import annotations

import pytest

from stele.errors import InvalidCells, LimitExceeded
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.columns import HIDDEN_FAMILIES
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.tablet.families import TABLE_FAMILIES_MAX, FamilyNames


def test_what_the_schema_takes_is_encoded_and_what_it_does_not_is_refused() -> None:
    names = FamilyNames(Schema([Group("hot", families=["info", "size"])]))
    assert names["info"] == b"info"
    assert names["size"] == b"size"
    assert names[ROW_ERASURE_FAMILY] == b""
    for family in HIDDEN_FAMILIES:
        assert names[family] == family.encode(), "ours are taken by every table"
    for _ in range(2):
        with pytest.raises(InvalidCells, match=r"'other' is in no group .* it has info, size"):
            names["other"]


def test_a_table_has_so_many_families() -> None:
    names = FamilyNames(Schema([Group("all")]), ["old", ROW_ERASURE_FAMILY, *HIDDEN_FAMILIES])
    for number in range(TABLE_FAMILIES_MAX - 1):
        assert names[f"f{number}"] == b"f%d" % number
    for _ in range(2):
        with pytest.raises(LimitExceeded, match=f"'new' .* has {TABLE_FAMILIES_MAX} families"):
            names["new"]
    for family in ("old", "f0", ROW_ERASURE_FAMILY, *HIDDEN_FAMILIES):
        assert names[family] == family.encode()


def test_another_schema_does_not_forget_the_families() -> None:
    names = FamilyNames(Schema([Group("all")]))
    assert names["a"]
    assert names.under(names.schema) is names
    other = names.under(Schema([Group("one", families=["b"]), Group("rest")]))
    for number in range(TABLE_FAMILIES_MAX - 1):
        assert other[f"f{number}"]
    assert other["a"]
    for each in (names, other):
        with pytest.raises(LimitExceeded):
            each["new"]
