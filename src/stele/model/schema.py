"""Table schemas: locality groups, declared columns, the key, how long history is kept.

A *group* is a set of families stored together in files of its own, or the wildcard: every family
that no other group names. Groups partition the families, so each cell has one place. Without a
wildcard the families are a fixed set, and others are refused.

A removed family stops being served at once, while its cells stay in files until compactions have
passed. The schema remembers it as *removed* (``"*"`` for whatever a removed wildcard held): the
wildcard does not take it back, and it cannot be added again, where it would show old cells, until
``forget_removed`` says they are gone.

Hidden families (ours) are in no group of the schema. They are stored in one of their own, which
every table has besides: ``stored_groups`` are all there are on disk.

A schema is a value. Changing one is :mod:`stele.model.schema_changes`, its JSON form, which lives
in META, :mod:`stele.model.schema_json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from stele.errors import InvalidArgument, InvalidSchema
from stele.model.column_set import ColumnSet
from stele.model.columns import HIDDEN_FAMILIES, Column, check_family
from stele.model.durations import parse_duration
from stele.model.groups import DEFAULT_GROUP, HIDDEN_GROUP, WILDCARD, Group
from stele.model.key_codec import RAW_KEYS, KeyCodec, KeySpec
from stele.model.limits import (
    FAMILIES_MAX,
    GROUPS_MAX,
    TYPED_COLUMNS_MAX,
)
from stele.model.typed_columns import COLUMN_ID_FIRST, TypedColumn
from stele.model.types import ValueType, value_type

HISTORY_US_DEFAULT = parse_duration("1h")
"""How long a table answers reads of the past, unless its schema says otherwise."""

TypeSpec: TypeAlias = str | pa.DataType | ValueType
ColumnTypes: TypeAlias = (
    Mapping[str, TypeSpec] | Mapping[bytes, TypeSpec] | Mapping[Column, TypeSpec]
)
"""What ``columns=`` takes: names of columns and their types."""


@dataclass(frozen=True, slots=True, init=False)
class Schema:
    """A table's schema. Written down as in ``Schema([Group("hot", ["info"]), Group("rest")])``.

    ``columns`` may also be given as :class:`TypedColumn` values that carry ids; names and types
    alone get new ids, in the order given. ``version``, ``removed`` and ``next_column_id`` are
    kept by the functions that change a schema.
    """

    groups: tuple[Group, ...]
    columns: tuple[TypedColumn, ...]
    key: KeyCodec
    history_us: int
    version: int
    removed: tuple[str, ...]
    next_column_id: int
    _group_of: dict[str, Group] = field(repr=False, compare=False)
    _typed: dict[Column, TypedColumn] = field(repr=False, compare=False)

    def __init__(
        self,
        groups: Iterable[Group] = (DEFAULT_GROUP,),
        columns: ColumnTypes | Iterable[TypedColumn] = (),
        key: KeySpec | KeyCodec = RAW_KEYS,
        history: int | str = HISTORY_US_DEFAULT,
        *,
        version: int = 1,
        removed: Iterable[str] = (),
        next_column_id: int = COLUMN_ID_FIRST,
    ) -> None:
        _check_number("next_column_id", next_column_id, COLUMN_ID_FIRST)
        _check_number("version", version, 1)
        typed = _check_columns(columns, next_column_id)
        put = object.__setattr__
        put(self, "groups", _check_groups(groups))
        put(self, "columns", typed)
        put(self, "key", _check_key(key))
        put(self, "history_us", _check_history(history))
        put(self, "version", version)
        put(self, "removed", _check_removed(removed))
        put(self, "next_column_id", max([next_column_id, *(column.id + 1 for column in typed)]))
        put(self, "_group_of", {name: g for g in self.groups for name in g.families or ()})
        put(self, "_typed", {column.column: column for column in typed})
        self._check()

    def replace(self, **changes: Any) -> Schema:
        """The same schema with some arguments of the constructor changed, checked again."""
        same: dict[str, Any] = {
            "groups": self.groups,
            "columns": self.columns,
            "key": self.key,
            "history": self.history_us,
            "version": self.version,
            "removed": self.removed,
            "next_column_id": self.next_column_id,
        }
        return Schema(**(same | changes))

    def _check(self) -> None:
        """What holds between the parts."""
        if len(self._group_of) > FAMILIES_MAX:
            raise InvalidSchema(
                f"{len(self._group_of)} families are over the limit of {FAMILIES_MAX}"
            )
        for name in self.removed:
            holder = self.wildcard if name == WILDCARD else self._group_of.get(name)
            if holder is not None:
                raise InvalidSchema(f"family {name!r} is removed and also in group {holder.name!r}")
        for column in self.columns:
            if self.group_of(column.column.family) is None:
                raise InvalidSchema(
                    f"column {str(column.column)!r} is declared, but no group holds family "
                    f"{column.column.family!r}"
                )

    @property
    def wildcard(self) -> Group | None:
        """The group of all families that no other group names, if there is one."""
        return next((group for group in self.groups if group.is_wildcard), None)

    @property
    def stored_groups(self) -> tuple[Group, ...]:
        """The schema's groups, and the hidden one that every table has."""
        return (*self.groups, HIDDEN_GROUP)

    @property
    def served(self) -> ColumnSet:
        """The families that some group holds: removed and hidden ones are not shown (T71)."""
        served = ColumnSet.of(())
        for group in self.groups:
            served = served.union(self.column_set(group))
        return served

    def group(self, name: str) -> Group:
        """The group of that name; :class:`InvalidArgument` if there is none."""
        for group in self.stored_groups:
            if group.name == name:
                return group
        names = ", ".join(group.name for group in self.groups)
        raise InvalidArgument(f"the schema has no group {name!r}; it has {names}")

    def group_of(self, family: str) -> Group | None:
        """The group that holds ``family``; ``None`` if users cannot write it in this table."""
        named = self._group_of.get(family)
        if named is not None:
            return named
        return None if family in (*self.removed, *HIDDEN_FAMILIES) else self.wildcard

    def allows(self, family: str) -> bool:
        """Whether cells of ``family`` belong in this table; hidden ones do."""
        return family in HIDDEN_FAMILIES or self.group_of(family) is not None

    def column_set(self, group: Group | str) -> ColumnSet:
        """The families of a group as a set; the sets of all groups are disjoint."""
        chosen = self.group(group if isinstance(group, str) else group.name)
        if chosen.families is None:
            return ColumnSet.all_but((*self._group_of, *self.removed, *HIDDEN_FAMILIES))
        return ColumnSet.of(chosen.families)

    def typed_column(self, column: Column | str | bytes) -> TypedColumn | None:
        """The declaration of a column, if it has one."""
        return self._typed.get(Column.parse(column))

    def typed_columns(self, group: Group | str) -> tuple[TypedColumn, ...]:
        """The declared columns stored in a group, by id."""
        families = self.column_set(group)
        return tuple(column for column in self.columns if column.column.family in families)


def _check_groups(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Groups have distinct names and share no family; at most one is the wildcard."""
    if not isinstance(groups, Iterable):
        raise InvalidSchema(f"groups is a list of Group, not {groups!r:.80}")
    checked = tuple(groups)
    if not 1 <= len(checked) <= GROUPS_MAX:
        raise InvalidSchema(f"a schema has 1 to {GROUPS_MAX} groups, not {len(checked)}")
    names: set[str] = set()
    holder: dict[str, str] = {}
    for group in checked:
        if not isinstance(group, Group):
            raise InvalidSchema(f"groups is a list of Group, not of {type(group).__name__}")
        if group.name in names:
            raise InvalidSchema(f"two groups are named {group.name!r}")
        names.add(group.name)
        for family in (WILDCARD,) if group.families is None else group.families:
            other = holder.setdefault(family, group.name)
            if other != group.name:
                what = "the wildcard" if family == WILDCARD else f"family {family!r}"
                raise InvalidSchema(f"{what} is in group {other!r} and in group {group.name!r}")
    return checked


def _check_number(name: str, number: object, least: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise InvalidSchema(f"a schema's {name} is a number from {least}, not {number!r:.80}")


def _check_removed(removed: Iterable[str]) -> tuple[str, ...]:
    if isinstance(removed, str) or not isinstance(removed, Iterable):
        raise InvalidSchema(f"removed is a list of families, not {removed!r:.80}")
    names = sorted(set(removed), key=str)
    if len(names) > FAMILIES_MAX:
        raise InvalidSchema(f"{len(names)} removed families are over the limit of {FAMILIES_MAX}")
    for name in names:
        try:
            if name != WILDCARD:
                check_family(name)
        except InvalidArgument as error:
            raise InvalidSchema(f"removed: {error}") from error
    return tuple(names)


def _carrying_ids(columns: object) -> tuple[TypedColumn, ...]:
    """Columns that were declared before."""
    given = tuple(columns) if isinstance(columns, Iterable) else (columns,)
    if not all(isinstance(column, TypedColumn) for column in given):
        raise InvalidSchema(f"columns is a mapping from names to types, not {columns!r:.80}")
    return given


def _check_columns(
    columns: ColumnTypes | Iterable[TypedColumn], next_id: int
) -> tuple[TypedColumn, ...]:
    """Declared columns sorted by id; ids, columns and labels are distinct."""
    if isinstance(columns, Mapping):
        named = enumerate(columns.items(), next_id)
        typed = tuple(_declare(number, *item) for number, item in named)
    else:
        typed = tuple(sorted(_carrying_ids(columns), key=lambda column: column.id))
    if len(typed) > TYPED_COLUMNS_MAX:
        raise InvalidSchema(
            f"{len(typed)} declared columns are over the limit of {TYPED_COLUMNS_MAX}"
        )
    for what in ("id", "column", "label"):
        seen: set[object] = set()
        for column in typed:
            value = getattr(column, what)
            if value in seen:
                raise InvalidSchema(f"two declared columns have the {what} {str(value)!r}")
            seen.add(value)
    return typed


def _declare(column_id: int, name: str | bytes | Column, spec: TypeSpec) -> TypedColumn:
    try:
        return TypedColumn(column_id, Column.parse(name), value_type(spec))
    except InvalidArgument as error:
        raise InvalidSchema(f"column {name!r}: {error}") from error


def _check_key(key: KeySpec | KeyCodec) -> KeyCodec:
    try:
        return KeyCodec.parse(key)
    except InvalidArgument as error:
        raise InvalidSchema(f"key: {error}") from error


def _check_history(history: int | str) -> int:
    try:
        return parse_duration(history, "history")
    except InvalidArgument as error:
        raise InvalidSchema(str(error)) from error
