"""Names of families: checked once, remembered within a bound."""

from __future__ import annotations

import pytest

from stele.errors import InvalidCells
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.columns import HIDDEN_FAMILIES
from stele.model.groups import Group
from stele.model.limits import FAMILIES_MAX
from stele.model.schema import Schema
from stele.tablet.families import FamilyNames


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


def test_a_wildcard_takes_more_than_is_remembered() -> None:
    names = FamilyNames(Schema([Group("all")]))
    for number in range(FAMILIES_MAX + 50):
        assert names[f"f{number}"] == b"f%d" % number
    assert len(names) == FAMILIES_MAX
