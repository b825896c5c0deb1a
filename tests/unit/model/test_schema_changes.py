"""Altering schemas: what differs, what is refused, what is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from stele.errors import InvalidArgument, InvalidSchema
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.model.schema_changes import alter, diff, forget_removed, problems, rename_column
from stele.model.schema_json import schema_from_json, schema_to_json
from tests.unit.model.schemas import FAMILIES, schemas


def kinds(before: Schema, after: Schema) -> list[str]:
    return [str(change) for change in diff(before, after)]


def test_diff_of_everything() -> None:
    before = Schema(
        [Group("x", ["a", "b"]), Group("y", ["c"]), Group("rest")],
        {"a:n": "int32", "b:gone": "string"},
        "string",
        "1h",
    )
    after = Schema(
        [Group("x", ["a"], compression="lz4"), Group("z", ["b", "d"]), Group("rest")],
        {"a:n": "int64", "d:new": "date"},
        "binary",
        "2h",
    )
    kept = "purge=None compression={} block_cells=4096 in_memory=False"
    assert kinds(before, after) == [
        f"change-group x: {kept.format('zstd')} → {kept.format('lz4')}",
        "remove-group y",
        "add-group z",
        "move-family b: x → z",
        "move-family c: y → rest",
        "move-family d: rest → z",
        "change-type a:n: int32 → int64",
        "drop-column b:gone: string → ",
        "add-column d:new:  → date32",
        "change-key key: string → binary",
        "change-history history: 1h → 2h",
    ]


@given(schemas(), schemas())
def test_diff_is_empty_exactly_for_schemas_that_act_the_same(a: Schema, b: Schema) -> None:
    assert kinds(a, a) == []
    if not diff(a, b):
        assert not diff(b, a)
        for family in (*FAMILIES, "unheard-of"):
            home_a, home_b = a.group_of(family), b.group_of(family)
            assert (home_a and home_a.name) == (home_b and home_b.name)


@given(schemas(), schemas())
@settings(max_examples=300)
def test_alter(current: Schema, desired: Schema) -> None:
    desired = desired.replace(key=current.key)
    try:
        after = alter(current, desired)
    except InvalidSchema:
        return  # which refusals there are, the tests below say one by one
    assert problems(current, after) == ()
    assert after.version == current.version + (after != current)
    assert after.groups == desired.groups
    assert schema_from_json(schema_to_json(after)) == after
    assert alter(after, desired) == after
    for column in after.columns:
        before = current.typed_column(column.column)
        if before is not None:
            assert column.id == before.id
            assert column.label == before.label
        else:
            assert column.id >= current.next_column_id
    for family in FAMILIES:
        if current.allows(family) and not after.allows(family):
            assert {family, "*"} & set(after.removed)
        if not current.allows(family) and after.allows(family):
            assert not {family, "*"} & set(current.removed), "its old cells would show"


def test_a_removed_family_stays_removed_and_cannot_come_back_before_its_cells_are_gone() -> None:
    first = Schema([Group("x", ["a", "b"])])
    second = alter(first, Schema([Group("x", ["a"])]))
    assert (second.version, second.removed) == (2, ("b",))
    assert not second.allows("b")
    with pytest.raises(InvalidSchema, match="family 'b' was removed"):
        alter(second, first)
    third = alter(second, Schema([Group("x", ["a"]), Group("rest")]))
    assert third.removed == ("b",)
    assert not third.allows("b"), "a wildcard does not take it back"
    assert third.allows("c")
    clean = forget_removed(third)
    assert (clean.version, clean.removed) == (4, ())
    assert alter(clean, Schema([Group("x", ["a", "b"]), Group("rest")])).allows("b")


def test_a_family_of_the_wildcard_is_removed_by_name() -> None:
    first = Schema()
    second = alter(first, Schema(removed=["old"]))
    assert not second.allows("old")
    assert second.allows("other")
    assert "old" not in second.column_set("default")
    assert alter(second, Schema()) is second, "it stays removed without being named again"


def test_a_removed_wildcard_leaves_cells_of_unknown_names() -> None:
    first = Schema([Group("x", ["a"]), Group("rest")])
    second = alter(first, Schema([Group("x", ["a"])]))
    assert second.removed == ("*",)
    for desired in (first, Schema([Group("x", ["a", "new"])])):
        with pytest.raises(InvalidSchema, match="may still be stored"):
            alter(second, desired)
    assert forget_removed(second, ["b"]) is second
    assert alter(forget_removed(second, ["*"]), first).allows("anything")


def test_moving_families_and_dropping_a_group_removes_nothing_with_a_wildcard() -> None:
    first = Schema([Group("x", ["a", "b"]), Group("rest")])
    second = alter(first, Schema([Group("y", ["b"]), Group("rest")]))
    assert second.removed == ()
    assert [second.group_of(name).name for name in ("a", "b")] == ["rest", "y"]  # type: ignore[union-attr]


def test_columns_keep_their_ids_and_remember_their_types() -> None:
    first = Schema(columns={"a:x": "int8", "a:y": "string"})
    second = alter(first, Schema(columns={"a:z": "date", "a:x": "int16"}))
    assert [(str(one.column), one.id) for one in second.columns] == [("a:x", 16), ("a:z", 18)]
    third = alter(second, Schema(columns={"a:x": "int64", "a:y": "int8", "a:z": "date"}))
    x, z, y = third.columns
    assert [kind.name for kind in (*x.former, x.type)] == ["int8", "int16", "int64"]
    assert (z.id, y.id) == (18, 19), "the id of a dropped column is not used again"
    assert third.next_column_id == 20
    assert x.decode(b"\xff") == -1


def test_the_id_of_the_last_column_is_not_used_again_after_it_was_dropped() -> None:
    first = Schema(columns={"a:x": "int8", "a:y": "string"})
    second = alter(first, Schema(columns={"a:x": "int8"}))
    assert second.next_column_id == first.next_column_id == 18
    third = alter(second, Schema(columns={"a:x": "int8", "a:y": "int8"}))
    assert [column.id for column in third.columns] == [16, 18]


def test_all_refusals_are_listed() -> None:
    current = Schema(columns={"a:x": "int64", "a:y": "string"}, key="string")
    with pytest.raises(InvalidSchema) as caught:
        alter(current, Schema(columns={"a:x": "int32", "a:y": "int8"}))
    lines = str(caught.value).split("\n")
    assert len(lines) == 4
    assert "the key is string and cannot become binary" in lines[1]
    assert "column 'a:x' is of type int64 and cannot become int32" in lines[2]
    assert "column 'a:y' is of type string and cannot become int8" in lines[3]


def test_rename() -> None:
    first = Schema(columns={"a:x": "int8", "a:y": "int8"})
    second = rename_column(first, "a:x", "years")
    assert [column.label for column in second.columns] == ["years", "a:y"]
    assert second.version == 2
    assert kinds(first, second) == ["rename-column a:x: a:x → years"]
    assert alter(second, Schema(columns={"a:x": "int8", "a:y": "int8"})) is second
    assert rename_column(second, "a:x", "years") is second
    assert rename_column(second, "a:x", "a:x").columns == first.columns
    with pytest.raises(InvalidSchema, match="label 'years'"):
        rename_column(second, "a:y", "years")
    with pytest.raises(InvalidArgument, match="not declared"):
        rename_column(first, "a:z", "z")


def test_a_column_is_not_called_like_another_or_like_the_key() -> None:
    schema = Schema(columns={"a:x": "int8"})
    with pytest.raises(
        InvalidSchema, match=r"'a:x' cannot be called 'a:z', which would be another"
    ):
        rename_column(schema, "a:x", "a:z")
    with pytest.raises(InvalidSchema, match="the key is called so"):
        rename_column(schema, "a:x", "row")
    composite = Schema(columns={"a:x": "int8"}, key=[("tenant", "string"), ("day", "date")])
    with pytest.raises(InvalidSchema, match="the key is called so"):
        rename_column(composite, "a:x", "day")
    assert rename_column(composite, "a:x", "row").columns[0].label == "row"
    with pytest.raises(InvalidArgument, match="a name that is not empty"):
        rename_column(schema, "a:x", "")


def test_the_wildcard_moves_like_a_family() -> None:
    before, after = Schema([Group("x")]), Schema([Group("y")])
    assert kinds(before, after) == ["remove-group x", "add-group y", "move-family *: x → y"]
    assert alter(before, after).allows("anything")
