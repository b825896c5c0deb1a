"""Changing a schema: what differs, what is allowed, and the next version.

Most changes are metadata: files are shared between groups by column sets, so families move freely
and compaction follows later. What is refused would change the meaning of bytes already stored:
another key codec, a type that does not widen the old one, a family that was removed and may still
have cells.

``alter(current, desired)`` takes what the user wrote, without ids or versions, and gives the schema
to store: ids of kept columns stay, new columns get ids that were never used, removed families are
remembered. All refusals are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from stele.errors import InvalidArgument, InvalidSchema
from stele.model.columns import Column
from stele.model.durations import format_duration
from stele.model.groups import WILDCARD, Group
from stele.model.schema import Schema
from stele.model.typed_columns import TypedColumn
from stele.model.types import widens

ChangeKind = Literal[
    "add-group",
    "remove-group",
    "change-group",
    "add-family",
    "remove-family",
    "move-family",
    "add-column",
    "drop-column",
    "change-type",
    "rename-column",
    "change-key",
    "change-history",
]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two schemas, for people: ``what`` it is about, before and after."""

    kind: ChangeKind
    what: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        arrow = f": {self.before} → {self.after}" if self.before or self.after else ""
        return f"{self.kind} {self.what}{arrow}"


def diff(before: Schema, after: Schema) -> tuple[Change, ...]:
    """What differs, allowed or not. Columns are matched by what they hold, not by id."""
    return (
        *_group_changes(before, after),
        *_family_changes(before, after),
        *_column_changes(before, after),
        *_other_changes(before, after),
    )


def _group_changes(before: Schema, after: Schema) -> Iterator[Change]:
    old = {group.name: group for group in before.groups}
    new = {group.name: group for group in after.groups}
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield Change("remove-group", name)
        elif name not in old:
            yield Change("add-group", name)
        elif _settings(old[name]) != _settings(new[name]):
            yield Change("change-group", name, _settings(old[name]), _settings(new[name]))


def _settings(group: Group) -> str:
    """How a group keeps its files, apart from which families it holds."""
    return (
        f"purge={group.purge} compression={group.compression} "
        f"block_cells={group.block_cells} in_memory={group.in_memory}"
    )


def _family_changes(before: Schema, after: Schema) -> Iterator[Change]:
    """Families named in either; those in a wildcard in both are not named and do not change."""
    named = {name for schema in (before, after) for g in schema.groups for name in g.families or ()}
    for family in sorted((named | set(before.removed) | set(after.removed)) - {WILDCARD}):
        old, new = before.group_of(family), after.group_of(family)
        if old is None and new is not None:
            yield Change("add-family", family, "", new.name)
        elif old is not None and new is None:
            yield Change("remove-family", family, old.name, "")
        elif old is not None and new is not None and old.name != new.name:
            yield Change("move-family", family, old.name, new.name)
    old_rest, new_rest = before.wildcard, after.wildcard
    if (old_rest and old_rest.name) != (new_rest and new_rest.name):
        kind: ChangeKind = "move-family"
        if old_rest is None or new_rest is None:
            kind = "add-family" if old_rest is None else "remove-family"
        yield Change(
            kind, "*", old_rest.name if old_rest else "", new_rest.name if new_rest else ""
        )


def _column_changes(before: Schema, after: Schema) -> Iterator[Change]:
    for column in _all_columns(before, after):
        old, new = before.typed_column(column), after.typed_column(column)
        if old is None and new is not None:
            yield Change("add-column", str(column), "", new.type.name)
        elif old is not None and new is None:
            yield Change("drop-column", str(column), old.type.name, "")
        elif old is not None and new is not None:
            if old.type != new.type:
                yield Change("change-type", str(column), old.type.name, new.type.name)
            if old.label != new.label:
                yield Change("rename-column", str(column), old.label, new.label)


def _all_columns(*schemas: Schema) -> list[Column]:
    return sorted({typed.column for schema in schemas for typed in schema.columns})


def _other_changes(before: Schema, after: Schema) -> Iterator[Change]:
    if before.key != after.key:
        yield Change("change-key", "key", str(before.key), str(after.key))
    if before.history_us != after.history_us:
        times = map(format_duration, (before.history_us, after.history_us))
        yield Change("change-history", "history", *times)


def problems(before: Schema, after: Schema) -> tuple[str, ...]:
    """Why ``after`` cannot follow ``before``; empty when it can."""
    return tuple(_problems(before, after))


def _problems(before: Schema, after: Schema) -> Iterator[str]:
    for change in diff(before, after):
        if change.kind == "change-key":
            yield (
                f"the key is {change.before} and cannot become {change.after}: the rows are "
                "stored in its order"
            )
        if change.kind == "add-family" and {change.what, WILDCARD} & set(before.removed):
            yield (
                f"family {change.what!r} was removed and cells of it may still be stored; it can "
                "be added again once the table has been compacted"
            )
    for column in _all_columns(before):
        old, new = before.typed_column(column), after.typed_column(column)
        if old is not None and new is not None and not widens(old.type, new.type):
            yield (
                f"column {str(column)!r} is of type {old.type} and cannot become {new.type}: its "
                "cells would change their meaning"
            )


def alter(current: Schema, desired: Schema) -> Schema:
    """The schema that replaces ``current``; :class:`InvalidSchema` lists every refusal.

    Families that ``desired`` names in ``removed``, or leaves without a group, are removed, as all
    removed before stay. A label that ``desired`` leaves at its default stays what it is. If
    nothing changes, the result is ``current`` itself.
    """
    wished = desired.replace(removed=_removed_after(current, desired))
    refusals = problems(current, wished)
    if refusals:
        raise InvalidSchema("the schema cannot be changed:\n" + "\n".join(refusals))
    return _next_version(
        current,
        wished.replace(
            columns=_columns_after(current, desired), next_column_id=current.next_column_id
        ),
    )


def _next_version(current: Schema, changed: Schema) -> Schema:
    same = changed.replace(version=current.version)
    return current if same == current else same.replace(version=current.version + 1)


def _removed_after(current: Schema, desired: Schema) -> set[str]:
    """Families of which cells may be stored that ``desired`` does not serve."""
    served = {name for group in desired.groups for name in group.families or ()}
    removed = {*current.removed, *desired.removed}
    if desired.wildcard is None:
        removed |= {name for group in current.groups for name in group.families or (WILDCARD,)}
    else:
        served.add(WILDCARD)
    return removed - served


def _columns_after(current: Schema, desired: Schema) -> Iterator[TypedColumn]:
    """Kept columns with their ids, new ones with ids never used before."""
    next_id = current.next_column_id
    for wanted in desired.columns:
        known = current.typed_column(wanted.column)
        if known is None:
            yield TypedColumn(next_id, wanted.column, wanted.type, wanted.label)
            next_id += 1
            continue
        label = known.label if wanted.label == str(wanted.column) else wanted.label
        former = known.former if known.type == wanted.type else (*known.former, known.type)
        yield TypedColumn(known.id, known.column, wanted.type, label, former)


def rename_column(current: Schema, column: Column | str | bytes, label: str) -> Schema:
    """The next version, in which a declared column is called ``label``; its own name undoes that.

    A label with a colon could be taken for another column, and one of the key for the key.
    """
    target = current.typed_column(column)
    if target is None:
        raise InvalidArgument(f"column {column!r} is not declared")
    if not label:
        raise InvalidArgument(f"column {str(target.column)!r} needs a name that is not empty")
    if ":" in label and label != str(target.column):
        raise InvalidSchema(
            f"column {str(target.column)!r} cannot be called {label!r:.80}, which would be another "
            f"column: give a name without a colon, or its own"
        )
    if label in (current.key.names if current.key.composite else ("row",)):
        raise InvalidSchema(
            f"column {str(target.column)!r} cannot be called {label!r}: the key is called so"
        )
    columns = (
        TypedColumn(typed.id, typed.column, typed.type, label, typed.former)
        if typed is target
        else typed
        for typed in current.columns
    )
    return _next_version(current, current.replace(columns=columns))


def forget_removed(current: Schema, families: Iterable[str] | None = None) -> Schema:
    """The next version, once no cells of these removed families (or of all) are stored any more.

    ``"*"`` stands for the families of a wildcard group that was removed.
    """
    gone = set(current.removed if families is None else families)
    return _next_version(current, current.replace(removed=set(current.removed) - gone))
