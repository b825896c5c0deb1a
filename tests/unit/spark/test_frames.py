"""What is no DataFrame of Spark, and columns that cannot be told apart."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stele.errors import InvalidArgument
from stele.spark.frames import column_types


class Described:
    """As much of a DataFrame as is looked at."""

    mapInArrow = None  # noqa: N815 -- Spark's name

    def __init__(self, *columns: str) -> None:
        self.dtypes = [(name, "string") for name in columns]


def test_columns_and_their_types() -> None:
    assert column_types(Described("a", "b")) == {"a": "string", "b": "string"}
    with pytest.raises(InvalidArgument, match="two columns of the DataFrame are called 'a'"):
        column_types(Described("a", "b", "a"))


@pytest.mark.parametrize("given", [None, [("a", 1)], pa.table({"a": [1]}), "users"])
def test_what_is_no_dataframe_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a DataFrame of Spark, not .*createDataFrame"):
        column_types(given)
