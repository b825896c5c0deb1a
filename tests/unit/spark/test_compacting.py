"""The driver of a compaction, as far as it needs no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stele
from stele.errors import InvalidArgument
from stele.model.ranges import EVERYTHING, RowRange
from stele.spark.compacting import _united, compact, finished
from stele.storage.import_files import encode_files
from tests.unit.storage.test_compaction_work import UNIT, WORK
from tests.unit.storage.test_references import info


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [({"retries": -1}, "retries is at least 0"), ({"ttl": "soon"}, "soon"), ({"rows": 7}, "7")],
)
def test_nonsense_is_refused_before_a_job_begins(
    tmp_path: Path, arguments: dict[str, Any], wrong: str
) -> None:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("t")
        with pytest.raises(InvalidArgument, match=wrong):
            compact(None, table, **arguments)
        assert table.core.backend._backend.store.coordination.jobs() == ()  # type: ignore[attr-defined]


def test_what_units_have_become_is_gathered_from_all_tasks() -> None:
    low, high = info(1, last_row=b"f"), info(2, first_row=b"g")
    lines = [
        {"unit": 0, "files": encode_files([high])},
        {"unit": 0, "files": encode_files([low])},
        {"unit": 0, "files": encode_files([])},
    ]
    (unit,) = finished(WORK, lines)
    assert (unit.rows, unit.columns, unit.inputs) == (UNIT.rows, UNIT.columns, UNIT.inputs)
    assert unit.outputs == (low, high)


def test_rows_that_are_tried_again_are_tried_once() -> None:
    groups = [RowRange(b"m"), RowRange(b"a", b"c"), RowRange(b"a", b"c"), RowRange(b"c", b"d")]
    assert _united(iter(groups)) == [RowRange(b"a", b"d"), RowRange(b"m")]
    assert _united(iter([EVERYTHING, RowRange(b"a", b"b")])) == [EVERYTHING]
    assert _united(iter([])) == []
