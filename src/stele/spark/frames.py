"""What is asked of a DataFrame before anything else: that it is one, and what its columns are."""

from __future__ import annotations

from typing import Any

from stele.errors import InvalidArgument


def column_types(df: Any) -> dict[str, str]:
    """The columns of a DataFrame of Spark and their types, in its words."""
    if not hasattr(df, "mapInArrow"):
        raise InvalidArgument(
            f"df is a DataFrame of Spark, not {type(df).__module__}.{type(df).__name__}: make one "
            f"with spark.createDataFrame"
        )
    names = [name for name, _ in df.dtypes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"two columns of the DataFrame are called {twice[0]!r}: rename one")
    return dict(df.dtypes)
