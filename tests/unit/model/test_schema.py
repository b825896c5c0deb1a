"""Schemas: groups partition the families, and contradictions are refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidSchema
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.column_set import ColumnSet
from stele.model.columns import HIDDEN_COLUMNS, HIDDEN_FAMILIES, RETRY_FAMILY, Column
from stele.model.groups import HIDDEN_GROUP, Group
from stele.model.limits import FAMILIES_MAX, GROUPS_MAX, TYPED_COLUMNS_MAX
from stele.model.schema import HISTORY_US_DEFAULT, Schema
from stele.model.typed_columns import COLUMN_ID_FIRST, TypedColumn
from stele.model.types import value_type
from tests.unit.model.schemas import FAMILIES, schemas


def test_the_default_is_one_wildcard_group() -> None:
    schema = Schema()
    assert [group.name for group in schema.groups] == ["default"]
    assert schema.wildcard is schema.group("default")
    assert schema.column_set("default") == HIDDEN_COLUMNS.inverse()
    assert schema.history_us == HISTORY_US_DEFAULT == 3_600_000_000
    assert schema.version == 1
    assert schema.key.spec == "binary"


def test_the_example_of_the_documentation() -> None:
    schema = Schema(
        groups=[
            Group("hot", families=["info"], in_memory=True, purge="max-history=3"),
            Group("rest", families="*", compression="zstd"),
        ],
        columns={"info:age": "int64"},
        key="string",
        history="24h",
    )
    assert schema.group_of("info") is schema.groups[0]
    assert schema.group_of("anything") is schema.groups[1]
    assert str(schema.column_set("hot")) == "info"
    assert str(schema.column_set("rest")) == "* but _retry info"
    age = schema.typed_column("info:age")
    assert age is not None
    assert (age.id, age.type.name) == (COLUMN_ID_FIRST, "int64")
    assert schema.typed_column("info:name") is None
    assert schema.typed_columns("hot") == (age,)
    assert schema.typed_columns(schema.groups[1]) == ()
    assert schema.history_us == 86_400_000_000


@given(schemas(), st.sampled_from([*FAMILIES, *HIDDEN_FAMILIES, "unheard-of"]))
def test_groups_partition_the_families(schema: Schema, family: str) -> None:
    holders = [group for group in schema.groups if family in schema.column_set(group)]
    group = schema.group_of(family)
    assert holders == ([] if group is None else [group])
    assert schema.allows(family) == (group is not None or family in HIDDEN_FAMILIES)
    if family in HIDDEN_FAMILIES:
        assert group is None
        assert family in schema.column_set(HIDDEN_GROUP)
    if family in schema.removed:
        assert group is None


@given(schemas())
def test_column_sets_are_disjoint(schema: Schema) -> None:
    sets = [schema.column_set(group) for group in schema.stored_groups]
    for index, one in enumerate(sets):
        assert not any(one.overlaps(other) for other in sets[index + 1 :])
    if schema.wildcard is None:
        assert not schema.allows("unheard-of")
        assert all(ROW_ERASURE_FAMILY not in one for one in sets)


@given(schemas())
def test_replace_without_changes_is_the_same(schema: Schema) -> None:
    assert schema.replace() == schema
    assert schema.replace(version=99).version == 99
    assert len({column.id for column in schema.columns}) == len(schema.columns)
    assert all(column.id < schema.next_column_id for column in schema.columns)


def test_hidden_families_have_a_group_of_their_own() -> None:
    schema = Schema([Group("one", ["a"]), Group("rest")])
    assert schema.stored_groups == (*schema.groups, HIDDEN_GROUP)
    assert schema.group(HIDDEN_GROUP.name) is HIDDEN_GROUP
    assert schema.column_set(HIDDEN_GROUP) == ColumnSet.of([RETRY_FAMILY])
    assert RETRY_FAMILY not in schema.column_set("rest")


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ([], "1 to 64 groups, not 0"),
        ([Group("a", ["f"]), Group("a", ["g"])], "two groups are named 'a'"),
        (
            [Group("a", ["f"]), Group("b", ["g", "f"])],
            "family 'f' is in group 'a' and in group 'b'",
        ),
        ([Group("a"), Group("b")], "wildcard is in group 'a' and in group 'b'"),
        (["a"], "list of Group, not of str"),
        ([Group(f"g{n}", [f"f{n}"]) for n in range(GROUPS_MAX + 1)], "not 65"),
        ([Group("a", [f"f{n}" for n in range(FAMILIES_MAX + 1)])], str(FAMILIES_MAX)),
    ],
)
def test_contradicting_groups_are_refused(groups: list[Group], reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        Schema(groups)


FIXED = [Group("a", ["f"])]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"g:x": "int64"}, "column 'g:x' is declared, but no group holds family 'g'"),
        ({"f:x": "int63"}, "column 'f:x': unknown type 'int63'"),
        ({"f": "int64"}, "column 'f': .*no colon"),
        ({"_retry:x": "int64"}, "reserved"),
        ({"f:x": "int64", b"f:x": "int8"}, "two declared columns have the column 'f:x'"),
        ({f"f:{n}": "int8" for n in range(TYPED_COLUMNS_MAX + 1)}, str(TYPED_COLUMNS_MAX)),
        (
            [
                TypedColumn(16, Column("f", b"x"), value_type("int8")),
                TypedColumn(16, Column("f", b"y"), value_type("int8")),
            ],
            "the id '16'",
        ),
        (
            [
                TypedColumn(16, Column("f", b"x"), value_type("int8"), "same"),
                TypedColumn(17, Column("f", b"y"), value_type("int8"), "same"),
            ],
            "the label 'same'",
        ),
    ],
)
def test_contradicting_columns_are_refused(columns: object, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        Schema(FIXED, columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"key": "float64"}, "key: "),
        ({"key": []}, "key: "),
        ({"history": "1w"}, "history '1w'"),
        ({"history": -1}, "history -1"),
        ({"version": 0}, "version"),
        ({"version": "x"}, "version is a number from 1, not 'x'"),
        ({"version": True}, "version is a number from 1, not True"),
        ({"version": 1.5}, "version is a number from 1, not 1.5"),
        ({"next_column_id": "x"}, "next_column_id is a number from 16, not 'x'"),
        ({"removed": 5}, "removed is a list of families, not 5"),
        ({"removed": "abc"}, "removed is a list of families, not 'abc'"),
        ({"removed": [5, "b"]}, "removed: a family name is text"),
        ({"columns": {"f:x": "int8"}, "next_column_id": 2**31}, "has id 2147483648"),
        ({"removed": ["f"]}, "family 'f' is removed and also in group 'a'"),
        ({"removed": ["a b"]}, "removed: "),
        ({"removed": ["_x"]}, "removed: "),
        ({"removed": [f"r{n}" for n in range(FAMILIES_MAX + 1)]}, str(FAMILIES_MAX)),
        ({"removed": ["g"], "columns": {"g:x": "int8"}}, "no group holds family 'g'"),
    ],
)
def test_other_contradictions_are_refused(arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        Schema(FIXED, **arguments)  # type: ignore[arg-type]


def test_the_wildcard_cannot_be_removed_and_there() -> None:
    with pytest.raises(InvalidSchema, match=r"'\*' is removed and also in group 'default'"):
        Schema(removed=["*"])
    assert Schema(FIXED, removed=["*"]).removed == ("*",)


def test_an_unknown_group_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="no group 'cold'; it has default"):
        Schema().group("cold")
    with pytest.raises(InvalidArgument, match="cold"):
        Schema().column_set("cold")
