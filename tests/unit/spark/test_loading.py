"""Loads that never get as far as Spark, and sentences that come back from it."""

from __future__ import annotations

from typing import Any

import pytest

import stele
from stele.errors import InvalidArgument
from stele.spark.loading import Report, bulk_load


class Described:
    """As much of a DataFrame as is looked at first."""

    dtypes = (("id", "string"), ("v", "string"))


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"row": "id"}, "'v' says no family"),
        ({"row": "key", "family": "f"}, "no column 'key'"),
        ({"row": "id", "family": "f", "nulls": "keep"}, "nulls is 'skip' or 'delete'"),
        ({"row": "id", "family": "f", "ttl": "soon"}, "soon"),
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


def test_a_report_of_a_load_that_was_done_before() -> None:
    assert Report("j", 5, done_before=True).rows == 0
