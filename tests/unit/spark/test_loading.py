"""Loads that never get as far as Spark, and sentences that come back from it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

import stele
from stele.errors import InvalidArgument
from stele.spark.loading import Report, bulk_load


class Described:
    """As much of a DataFrame as is looked at first."""

    dtypes = (("id", "string"), ("v", "string"))
    mapInArrow = None  # noqa: N815 -- Spark's name
    repartitionById = None  # noqa: N815 -- Spark's name
    schema: Any = None


class Old:
    """A DataFrame of Spark 4.0."""

    dtypes = Described.dtypes
    mapInArrow = None  # noqa: N815 -- Spark's name


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"row": "id"}, "'v' says no family"),
        ({"row": "key", "family": "f"}, "no column 'key'"),
        ({"row": "id", "family": "f", "nulls": "keep"}, "nulls is 'skip' or 'delete'"),
        ({"row": "id", "family": "f", "ttl": "soon"}, "soon"),
        ({"shape": "columns"}, "shape is 'rows' or 'cells'"),
        ({"shape": "cells"}, "cells have the columns row, .* 'id' is not one of them"),
        ({"shape": "cells", "op": "op"}, "op says something of wide rows"),
        ({"shape": "cells", "row": "zzz"}, "row says something of wide rows"),
        ({"shape": "cells", "nulls": "delete"}, "nulls says something of wide rows"),
        ({"row": "id", "family": "f", "job_id": ""}, "'' is not the name of a job"),
        ({"row": "id", "family": "f", "job_id": 5}, "5 is not the name of a job"),
        ({"row": "id", "family": "f", "splits": "b"}, "'auto' or a list of keys, not 'b'"),
        ({"row": "id", "family": "f", "splits": b"bc"}, "'auto' or a list of keys, not b'bc'"),
        ({"row": "id", "family": "f", "progress": "yes"}, "progress is True, False or a function"),
    ],
)
def test_nonsense_is_refused_before_a_job_begins(
    tmp_path: Any, arguments: dict[str, Any], wrong: str
) -> None:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("t")
        with pytest.raises(InvalidArgument, match=wrong):
            bulk_load(None, Described(), table, **arguments)
        assert table.core.backend._backend.store.coordination.jobs() == ()  # type: ignore[attr-defined]


def test_a_type_that_does_not_fit_is_refused_before_a_job_begins(tmp_path: Any) -> None:
    text = StringType()
    lines = Described()
    lines.schema = StructType([StructField("id", text), StructField("v", text)])
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("t", stele.Schema(columns={"f:v": "int64"}))
        with pytest.raises(InvalidArgument, match=r"'v' is string, .* int64 for f:v: cast it"):
            bulk_load(None, lines, table, row="id", family="f")
        assert table.core.backend._backend.store.coordination.jobs() == ()  # type: ignore[attr-defined]


def test_a_report_of_a_load_that_was_done_before() -> None:
    assert Report("j", 5, done_before=True).rows == 0


def test_a_spark_without_exact_routing_is_refused(tmp_path: Any) -> None:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("t")
        with pytest.raises(InvalidArgument, match=r"Spark 4\.1 or newer: pip install"):
            bulk_load(None, Old(), table, row="id", family="f")
