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
from stele.model.mutations import MutationBatch
from stele.model.schema import Schema
from stele.spark.erasures import ErasedPart
from stele.spark.load_columns import load_columns

FormKind = Literal["rows", "cells", "deletes"]
FORMS = ("rows", "cells")
"""What a user may call the shape of a DataFrame."""

CELL_EXTRAS = ("timestamp", "op", "txn")
"""What lines of cells may have besides; a ``txn`` is ignored, they get a new one."""

ROWS_ONLY = ("row", "family", "timestamp", "op")


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
        given = dict(zip(ROWS_ONLY, (row, family, timestamp, op), strict=True))
        return _cells_form(types, given)
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


def _cells_form(types: Mapping[str, str], rows_only: Mapping[str, object]) -> WriteForm:
    for name, value in rows_only.items():
        if value is not None:
            raise InvalidArgument(
                f"{name} says what a column of wide rows is; these lines are cells. Give "
                f"shape='rows' if they are not"
            )
    wrong = [name for name in types if name not in (*CELL_COLUMNS, *CELL_EXTRAS)]
    wrong = wrong or [name for name in CELL_COLUMNS if name not in types]
    if wrong:
        raise InvalidArgument(
            f"cells have the columns {', '.join(CELL_COLUMNS)}, and may have timestamp and op; "
            f"{wrong[0]!r} is {'not one of them' if wrong[0] in types else 'missing'}"
        )
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
