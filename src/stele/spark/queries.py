"""Queries in Spark SQL, with errors of ours: what a command line shows is a sentence, no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stele.errors import InvalidArgument
from stele.spark.jobs import cause, is_sparks, said_by_us


def run_query(spark: Any, query: str, limit: int) -> list[Any]:
    """The first lines of a query's answer; ``InvalidArgument`` if Spark refuses it."""
    try:
        lines: list[Any] = spark.sql(query).limit(limit).collect()
    except Exception as error:
        said = said_by_us(error)
        if said is None and is_sparks(error):
            said = refusal("the query", error)
        if said is None:
            raise
        raise said from error
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
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines and lines[0].startswith("[") else cause(str(error))
    return InvalidArgument(f"Spark refuses {what}: {reason}")
