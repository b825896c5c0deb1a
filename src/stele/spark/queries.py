"""Queries in Spark SQL, with errors of ours: what a command line shows is a sentence, no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stele.errors import InvalidArgument


def run_query(spark: Any, query: str, limit: int) -> list[Any]:
    """The first lines of a query's answer; ``InvalidArgument`` if Spark refuses it."""
    from pyspark.errors import PySparkException

    try:
        lines: list[Any] = spark.sql(query).limit(limit).collect()
    except PySparkException as error:
        raise refusal("the query", error) from error
    return lines


@contextmanager
def condition_told(condition: str) -> Iterator[None]:
    """``InvalidArgument`` if Spark refuses a condition that a user gave."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise refusal(f"the condition {condition!r:.200}", error) from error


def refusal(what: str, error: Exception) -> InvalidArgument:
    """What Spark says of something that it refuses, without the plan and the stack after it."""
    reason = str(error).strip().partition("\n")[0]
    return InvalidArgument(f"Spark refuses {what}: {reason}")
