"""``ss.backup`` and ``ss.restore`` in a real Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.errors import AlreadyExists
from tests.spark.tables import SCHEMA, cells_of_scan, key, random_course

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_there_and_back(spark: Any, tmp_path: Path) -> None:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("t", SCHEMA, splits=[key(40)])
        random_course(table, random.Random(11), 150)
        wanted = [(*cell[:4], cell[5]) for cell in cells_of_scan(table, versions=None)]
        ss.backup(spark, table, str(tmp_path / "backup"))
        with pytest.raises(AlreadyExists, match="'t'"):
            ss.restore(spark, str(tmp_path / "backup"), db, "t")
        restored = ss.restore(spark, str(tmp_path / "backup"), db, "again")
        found = cells_of_scan(db.table("again"), versions=None)
        assert [(*cell[:4], cell[5]) for cell in found] == wanted
        assert {cell[4] for cell in found} == {restored.txn}
