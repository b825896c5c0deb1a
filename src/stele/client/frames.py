"""From Arrow to other libraries' tables, for answers of all kinds.

None of these libraries is needed to use Stele, so each is imported when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

import pyarrow as pa

from stele.errors import InvalidArgument


def to_pandas(table: pa.Table) -> Any:
    """A ``pandas.DataFrame``."""
    _library("pandas")
    return table.to_pandas()


def to_polars(table: pa.Table) -> Any:
    """A ``polars.DataFrame``; families are plain text there."""
    library = _library("polars")
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return library.from_arrow(pa.table(plain, names=table.column_names))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidArgument(f"this needs {name}: pip install {name}") from error
