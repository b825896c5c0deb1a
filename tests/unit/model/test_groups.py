"""Locality groups: what they take, and what they refuse by name."""

from __future__ import annotations

import pytest

from stele.errors import InvalidSchema
from stele.model.groups import (
    BLOCK_CELLS_MAX,
    BLOCK_CELLS_MIN,
    DEFAULT_GROUP,
    Group,
)
from stele.model.limits import GROUP_NAME_BYTES_MAX
from stele.model.purge import PurgePolicy


def test_defaults() -> None:
    assert DEFAULT_GROUP.is_wildcard
    assert Group("default", "*", compression="zstd", block_cells=4096) == DEFAULT_GROUP
    assert DEFAULT_GROUP.purge is None
    assert not DEFAULT_GROUP.in_memory


def test_all_settings() -> None:
    group = Group(
        "hot",
        families=["info", "a"],
        in_memory=True,
        purge="max-history = 3",
        compression="zstd:3",
        block_cells=BLOCK_CELLS_MIN,
    )
    assert group.families == ("a", "info")
    assert not group.is_wildcard
    assert group.purge == PurgePolicy.parse("max-history=3")
    assert (group.compression_name, group.compression_level) == ("zstd", 3)
    assert (DEFAULT_GROUP.compression_name, DEFAULT_GROUP.compression_level) == ("zstd", None)
    assert group == Group(
        "hot",
        ("a", "info"),
        in_memory=True,
        purge=group.purge,
        compression="zstd:3",
        block_cells=BLOCK_CELLS_MIN,
    )
    assert isinstance(hash(group), int)


@pytest.mark.parametrize("name", ["a", "0", "A.b-c_9", "x" * GROUP_NAME_BYTES_MAX])
def test_good_names(name: str) -> None:
    assert Group(name).name == name


@pytest.mark.parametrize(
    "name", ["", "_a", ".a", "-a", "a b", "a:b", "é", "a\n", "x" * (GROUP_NAME_BYTES_MAX + 1), 3]
)
def test_bad_names(name: str) -> None:
    with pytest.raises(InvalidSchema, match="group name"):
        Group(name)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"families": []}, "no families"),
        ({"families": ["a", "a"]}, "'a' twice"),
        ({"families": ["a b"]}, "a b"),
        ({"families": ["_retry"]}, "reserved"),
        ({"families": "info"}, "not 'info'"),
        ({"families": b"*"}, "families is"),
        ({"families": 3}, "families is"),
        ({"families": ["*"]}, r"'\*'"),
        ({"families": [3]}, "int"),
        ({"purge": "max-history=x"}, "max-history=x"),
        ({"purge": ""}, "purge policy"),
        ({"compression": "lzo"}, "'lzo'"),
        ({"compression": "zstd:0"}, "zstd:0"),
        ({"compression": "zstd:20"}, "zstd:20"),
        ({"compression": "lz4:1"}, "lz4:1"),
        ({"compression": "ZSTD"}, "ZSTD"),
        ({"compression": None}, "None"),
        ({"block_cells": BLOCK_CELLS_MIN - 1}, str(BLOCK_CELLS_MIN)),
        ({"block_cells": BLOCK_CELLS_MAX + 1}, str(BLOCK_CELLS_MAX)),
        ({"block_cells": "64k"}, "64k"),
        ({"in_memory": "no"}, "in_memory is True or False, not 'no'"),
        ({"in_memory": 1}, "in_memory is True or False, not 1"),
        ({"in_memory": None}, "in_memory is True or False, not None"),
    ],
)
def test_bad_settings_name_the_group(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason) as caught:
        Group("hot", **settings)  # type: ignore[arg-type]
    assert "'hot'" in str(caught.value)
