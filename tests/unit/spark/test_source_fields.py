"""What Spark asks for is what the table has, or a sentence says why not."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from stele.errors import InvalidArgument
from stele.spark.shapes import CELL_FIELDS
from stele.spark.source_fields import check_fields


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (StructField("age", LongType()), "has no column 'age'; it has row, family"),
        (StructField("row", StringType()), "column 'row' is of type binary, not string"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(field: StructField, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        check_fields(CELL_FIELDS, StructType([field]))
    fits = StructType([StructField("value", BinaryType()), StructField("txn", LongType(), False)])
    assert check_fields(CELL_FIELDS, fits) == ("value", "txn")
