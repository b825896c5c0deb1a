"""Files that Spark cannot read, and text as what a table declares; without a Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stele.errors import InvalidArgument
from stele.model.schema import Schema
from stele.spark.file_frames import as_declared, parsed, read_files

STACK = """An error occurred while calling o45.load.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(X.scala:854)
Caused by: java.lang.RuntimeException: file:/x/people.csv is not a Parquet file.
\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter(ParquetFileReader.java:777)
"""


class Failing:
    """A session whose JVM fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    @property
    def read(self) -> Failing:
        return self

    def format(self, _: str) -> Failing:
        return self

    def options(self, **_: str) -> Failing:
        return self

    def load(self, _: str) -> Any:
        raise self.error


def test_an_error_of_the_jvm_is_one_sentence_with_a_remedy() -> None:
    kind = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
    with pytest.raises(InvalidArgument) as refused:
        read_files(Failing(kind(STACK)), "/x/people.csv", "parquet", {})
    assert str(refused.value) == (
        "Spark cannot read '/x/people.csv' as parquet: java.lang.RuntimeException: "
        "file:/x/people.csv is not a Parquet file; if it is csv, say so as the format"
    )
    with pytest.raises(ZeroDivisionError):
        read_files(Failing(ZeroDivisionError()), "/x", "csv", {})


class Frame:
    """As much of a DataFrame as a cast needs."""

    def __init__(self, **kinds: str) -> None:
        self.dtypes = list(kinds.items())
        self.columns = list(kinds)

    def selectExpr(self, *chosen: str) -> tuple[str, ...]:  # noqa: N802 -- of Spark
        return chosen


def test_only_columns_of_text_that_are_declared_are_cast() -> None:
    schema = Schema(
        columns={"info:age": "int64", "info:name": "string", "more:born": "date"},
        key=[("tenant", "string"), ("day", "date")],
    )
    frame = Frame(t="string", d="string", age="string", born="string", name="string", n="bigint")
    chosen = as_declared(frame, schema, ["t", "d"], "info")
    assert [text.split("(")[0] for text in chosen] == [
        "CAST", "coalesce", "coalesce", "`born`", "CAST", "`n`",
    ]  # fmt: skip
    assert "try_cast(`d` AS date)" in chosen[1]
    assert "column age has a text that is no bigint: " in chosen[2]
    assert as_declared(Frame(row="string"), Schema()) == ("`row`",)
    assert as_declared(Frame(row="string"), Schema(key="uuid")) == ("`row`",), "no bytes of it"


def test_a_decimal_keeps_all_its_digits() -> None:
    assert "AS DECIMAL(38, 28)" in parsed("price", pa.decimal128(12, 2))
