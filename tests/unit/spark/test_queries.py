"""What Spark says of a bad query is one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from stele.errors import InvalidArgument
from stele.spark.queries import condition_told, run_query


class Refusing:
    """A session that knows no table; the real one is asked in ``tests/spark/test_cli.py``."""

    def sql(self, query: str) -> Any:
        raise PySparkException(f"[TABLE_OR_VIEW_NOT_FOUND] {query}\n'Project [*]\n+- ...")


def test_a_refusal_is_one_sentence() -> None:
    with pytest.raises(InvalidArgument) as refused:
        run_query(Refusing(), "SELECT * FROM nothing", 10)
    assert str(refused.value) == (
        "Spark refuses the query: [TABLE_OR_VIEW_NOT_FOUND] SELECT * FROM nothing"
    )


def test_what_a_task_says_is_told_without_its_stack() -> None:
    kind = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})

    class Failing:
        def sql(self, _: str) -> Any:
            raise kind(
                ": org.apache.spark.SparkException: Job aborted\n\tat x\nCaused by: java.E: no"
            )

    with pytest.raises(InvalidArgument, match=r"^Spark refuses the query: java\.E: no$"):
        run_query(Failing(), "SELECT 1", 10)


def test_a_condition_that_is_none_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"refuses the condition 'age <': \[PARSE\] here$"):  # noqa: SIM117
        with condition_told("age <"):
            raise AnalysisException("\n[PARSE] here\n== SQL ==")
