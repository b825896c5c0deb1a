"""Random schemas that are valid, for the tests of schemas."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stele.model.groups import Group
from stele.model.key_codec import KeySpec
from stele.model.schema import Schema

FAMILIES = ("a", "b", "c", "d", "info")

settings: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "purge": st.sampled_from(["max-history=3", "max-age=7d or max-history=9 and max-age=1"]),
        "compression": st.sampled_from(["none", "lz4", "snappy", "zstd:19"]),
        "block_cells": st.sampled_from([256, 65_536]),
        "in_memory": st.booleans(),
    },
)

column_types = st.sampled_from(["int32", "int64", "string", "decimal128(9, 2)", "date"])


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Groups over a few families, in any order, with or without a wildcard."""
    homes = draw(st.lists(st.sampled_from(["x", "y", "-"]), min_size=5, max_size=5))
    groups = [
        Group(
            name,
            [family for family, home in zip(FAMILIES, homes, strict=True) if home == name],
            **draw(settings),
        )
        for name in ("x", "y")
        if name in homes
    ]
    if not groups or draw(st.booleans()):
        groups.append(Group("rest", **draw(settings)))
    groups = draw(st.permutations(groups))
    plain = Schema(groups)
    free = [family for family in FAMILIES if plain.group_of(family) is not None]
    columns = draw(
        st.dictionaries(
            st.builds(
                lambda family, name: f"{family}:{name}",
                st.sampled_from(free),
                st.sampled_from(["", "n", "é", "\x00", "a:b"]),
            ),
            column_types,
            max_size=4,
        )
    )
    named = {name for group in groups for name in group.families or ()}
    columned = {name.partition(":")[0] for name in columns}
    removable = [name for name in FAMILIES if name not in named | columned]
    removed = draw(st.lists(st.sampled_from(removable), unique=True)) if removable else []
    keys: list[KeySpec] = ["binary", "string", [("t", "string"), ("d", "date"), ("u", "uuid")]]
    return Schema(
        groups,
        columns,
        draw(st.sampled_from(keys)),
        draw(st.sampled_from(["1h", "24h", "1"])),
        version=draw(st.integers(1, 9)),
        removed=removed,
    )
