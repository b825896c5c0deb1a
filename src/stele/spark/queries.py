"""Queries in Spark SQL, with errors of ours: what a command line shows is a sentence, no trace."""

from __future__ import annotations

from typing import Any

from stele.errors import InvalidArgument


def run_query(spark: Any, query: str, limit: int) -> list[Any]:
    """The first lines of a query's answer; ``InvalidArgument`` if Spark refuses it."""
    from pyspark.errors import PySparkException

    try:
        lines: list[Any] = spark.sql(query).limit(limit).collect()
    except PySparkException as error:
        # What comes after the first line is the plan and the stack.
        reason = str(error).strip().partition("\n")[0]
        raise InvalidArgument(f"Spark refuses the query: {reason}") from error
    return lines
