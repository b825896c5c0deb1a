"""The columns layout: which Parquet columns a file of it has, and what they mean.

One Parquet row for each key that has a native cell:

    row                     the key, as bytes
    _timestamp, _txn        those of most native cells of the row
    family:qualifier        one for each native column, of its own type; null is no cell
    …@timestamp, …@txn      of a cell that differs from its row, else null; only where the file
                            has such cells

Everything else is in a *companion*, a file of the cells layout that belongs to this one.

A file says itself what its columns stand for: family, qualifier, type and the id that the schema
gave to the column. So it can be read whatever has become of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
import pyarrow as pa

from stele.errors import InvalidArgument
from stele.model.columns import Column
from stele.model.typed_columns import COLUMN_ID_FIRST, COLUMN_ID_MAX, TypedColumn
from stele.model.types import ValueType, value_type

ROW = "row"
TIMESTAMP = "_timestamp"
TXN = "_txn"
OWN_TIMESTAMP = "@timestamp"
OWN_TXN = "@txn"

KEY_LEAVES = 3
"""Parquet columns in front of the native ones: row, timestamp and txn."""

NATIVE_COLUMNS_MAX = 512
"""With more declared columns than this, a group is stored as cells: each costs every row group."""

_FIELD_ID = b"PARQUET:field_id"
_FIXED_IDS = {ROW: 1, TIMESTAMP: 2, TXN: 3}

_Count = Annotated[int, msgspec.Meta(ge=1)]


class NativeColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One native column of a file."""

    id: Annotated[int, msgspec.Meta(ge=COLUMN_ID_FIRST, le=COLUMN_ID_MAX)]
    family: str
    qualifier: bytes
    type: str
    own_stamps: bool
    """Whether the file has columns for timestamps and txns that differ from the row's."""

    def __post_init__(self) -> None:
        Column(self.family, self.qualifier)
        value_type(self.type)

    @staticmethod
    def of(typed: TypedColumn, kind: ValueType, *, own_stamps: bool) -> NativeColumn:
        """A declared column, stored with one of the types that it has or had."""
        column = typed.column
        return NativeColumn(
            id=typed.id,
            family=column.family,
            qualifier=column.qualifier,
            type=kind.name,
            own_stamps=own_stamps,
        )

    @property
    def column(self) -> Column:
        return Column(self.family, self.qualifier)

    @property
    def name(self) -> str:
        """What Parquet calls it."""
        return str(self.column)

    @property
    def value_type(self) -> ValueType:
        return value_type(self.type)

    @property
    def leaves(self) -> int:
        """How many Parquet columns it has."""
        return 3 if self.own_stamps else 1


class NativePart(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of the columns layout says of itself, without its companion."""

    columns: tuple[NativeColumn, ...]
    """In the order of cells."""
    cells: _Count
    rows: _Count
    first_row: bytes
    last_row: bytes
    complete: bool
    """Whether each native column has, for a read at or above the file's largest txn, exactly the
    newest visible put of every row: none of them is in the companion."""

    def __post_init__(self) -> None:
        places = [(column.family.encode(), column.qualifier) for column in self.columns]
        if not places or places != sorted(set(places)):
            raise InvalidArgument("the native columns are not sorted and unique")
        if len({column.id for column in self.columns}) != len(self.columns):
            raise InvalidArgument("two native columns have one id")
        if self.first_row > self.last_row or self.rows > self.cells:
            raise InvalidArgument("the bounds of the native part contradict each other")

    @property
    def leaves(self) -> int:
        """How many Parquet columns the file has."""
        return count_leaves(self.columns)


def count_leaves(columns: Iterable[NativeColumn]) -> int:
    """How many Parquet columns a file with these native ones has."""
    return KEY_LEAVES + sum(column.leaves for column in columns)


def can_be_native(typed: TypedColumn) -> bool:
    """Whether a column has a name that Parquet can carry and that means nothing else there."""
    try:
        text = typed.column.qualifier.decode()
    except UnicodeDecodeError:
        return False
    return "\0" not in text and not text.endswith((OWN_TIMESTAMP, OWN_TXN))


def native_candidates(columns: Iterable[TypedColumn]) -> tuple[TypedColumn, ...]:
    """The declared columns that files may store natively, in the order of cells; none if there are
    too many of them."""
    chosen = sorted(filter(can_be_native, columns), key=lambda typed: typed.column)
    return tuple(chosen) if len(chosen) <= NATIVE_COLUMNS_MAX else ()


def parquet_schema(columns: Iterable[NativeColumn]) -> pa.Schema:
    """The Arrow schema of a file, with Parquet's field ids."""
    fields = [
        _field(ROW, pa.binary(), _FIXED_IDS[ROW], nullable=False),
        _field(TIMESTAMP, pa.int64(), _FIXED_IDS[TIMESTAMP], nullable=False),
        _field(TXN, pa.int64(), _FIXED_IDS[TXN], nullable=False),
    ]
    for column in columns:
        fields.append(_field(column.name, column.value_type.arrow, column.id))
        if column.own_stamps:
            fields.append(pa.field(column.name + OWN_TIMESTAMP, pa.int64()))
            fields.append(pa.field(column.name + OWN_TXN, pa.int64()))
    return pa.schema(fields)


def _field(name: str, kind: pa.DataType, number: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {_FIELD_ID: str(number).encode()})
