"""What the lines of a DataFrame are to a write: wide rows, cells, or keys of what is to go.

Decided, and tried on no lines at all, before anything runs: a column that fits nowhere, or has a
type that the table cannot take, is refused by name at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa

from stele.client.encoder import Columns, Encoder
from stele.errors import InvalidArgument, InvalidCells
from stele.model.arrow_input import CELL_COLUMNS, NullRule, key_columns
from stele.model.columns import Column
from stele.model.mutations import MutationBatch
from stele.model.schema import Schema
from stele.spark.cells_form import check_cells
from stele.spark.erasures import ErasedPart
from stele.spark.load_columns import load_columns

FormKind = Literal["rows", "cells", "deletes"]
FORMS = ("rows", "cells")
"""What a user may call the shape of a DataFrame."""


class WriteForm(msgspec.Struct, frozen=True, kw_only=True):
    """How lines become mutations."""

    kind: FormKind
    key: tuple[str, ...]
    data: tuple[tuple[str, str], ...] = ()
    """Of wide rows: ``family:qualifier`` and the name in the DataFrame."""
    maps: tuple[tuple[str, str], ...] = ()
    """Of wide rows: families and the names of maps from qualifiers to values."""
    timestamp: str | None = None
    op: str | None = None
    nulls: NullRule = "skip"
    erased: tuple[ErasedPart, ...] = ()

    @property
    def written(self) -> tuple[Column, ...] | None:
        """The columns that get values; ``None`` if only the lines say which."""
        if self.kind == "cells" or self.maps:
            return None
        return tuple(Column.parse(column) for column, _ in self.data)


def write_form(
    schema: Schema,
    types: Mapping[str, str],
    *,
    shape: str | None = None,
    row: str | Sequence[str] | None = None,
    family: str | None = None,
    timestamp: str | None = None,
    op: str | None = None,
    nulls: NullRule = "skip",
) -> WriteForm:
    """The form of lines whose columns have these names and types of Spark's.

    Without a ``shape``, lines that have all the columns of cells are cells.
    """
    if shape not in (None, *FORMS):
        raise InvalidArgument(f"shape is one of {', '.join(FORMS)}; not {shape!r:.80}")
    if nulls not in ("skip", "delete"):
        raise InvalidArgument(f"nulls is 'skip' or 'delete', not {nulls!r:.80}")
    if (shape or _usual_shape(types)) == "cells":
        meant = None if nulls == "skip" else nulls
        check_cells(types, row=row, family=family, timestamp=timestamp, op=op, nulls=meant)
        return _cells_form(types)
    found = load_columns(schema, types, row=row, family=family, timestamp=timestamp, op=op)
    return WriteForm(
        kind="rows",
        key=found.key,
        data=tuple(found.data.items()),
        maps=tuple(found.maps.items()),
        timestamp=timestamp,
        op=op,
        nulls=nulls,
    )


def _usual_shape(types: Mapping[str, str]) -> str:
    return "cells" if set(CELL_COLUMNS) <= set(types) else "rows"


def _cells_form(types: Mapping[str, str]) -> WriteForm:
    return WriteForm(
        kind="cells",
        key=("row",),
        timestamp="timestamp" if "timestamp" in types else None,
        op="op" if "op" in types else None,
    )


def delete_form(
    schema: Schema,
    types: Mapping[str, str],
    *,
    row: str | Sequence[str] | None = None,
    columns: Columns = None,
) -> WriteForm:
    """The form of lines that name what is to go: whole rows, or columns and families of them."""
    key = tuple(key_columns(schema, row))
    for name in key:
        if name not in types:
            raise InvalidArgument(
                f"the DataFrame has no column {name!r}; it has {', '.join(types)}"
            )
    template = MutationBatch()
    Encoder(schema).delete(template, b"any", columns)
    if not template:
        raise InvalidArgument("a delete that names no columns would erase nothing")
    erased = tuple(
        ErasedPart(family, qualifier, op)
        for _, family, _, qualifier, _, op, _ in template.records()
    )
    return WriteForm(kind="deletes", key=key, erased=erased)


def arrow_schema(fields: Any) -> pa.Schema:
    """The schema of the batches in which Spark hands over lines of a ``StructType``."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"two columns of the DataFrame are called {twice[0]!r}: rename one")
    try:
        schema: pa.Schema = to_arrow_schema(fields, timezone="UTC")
    except PySparkException as error:
        raise InvalidArgument(f"the DataFrame has a type that is no value: {error}") from error
    return schema


def refused(error: InvalidArgument | InvalidCells) -> InvalidArgument:
    """What an attempt with no lines found, as what it is: the columns do not fit."""
    return InvalidArgument(f"the DataFrame does not fit the table: {error}")
