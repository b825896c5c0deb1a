"""Fragments are plain Parquet: Spark reads what the store wrote, by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stele

pytestmark = [
    pytest.mark.spark,
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROWS = 3_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory = tmp_path_factory.mktemp("store")
    with stele.open(str(directory)) as db:
        users = db.create_table("users", stele.Schema())
        with users.batch() as batch:
            for number in range(ROWS):
                row = b"user%06d\x00\xff" % number
                batch.put(row, {"info:n": b"%d" % number, "stats:empty": b""})
        users.compact()
        names = {name for tablet in users.tablets() for name in tablet.details["files"]}
    return [str(Path(directory, "fragments", name)) for name in sorted(names)]


def test_spark_reads_every_cell(spark: Any, files: list[str]) -> None:
    cells = spark.read.parquet(*files)
    assert cells.columns == ["row", "family", "qualifier", "timestamp", "txn", "op", "value"]
    assert cells.count() == 2 * ROWS
    assert cells.select("row").distinct().count() == ROWS


def test_spark_filters_on_the_row_by_statistics(spark: Any, files: list[str]) -> None:
    cells = spark.read.parquet(*files)
    found = cells.where("row >= x'757365723030323939' and family = 'info'").collect()
    wanted = [b"user%06d\x00\xff" % number for number in range(2_990, ROWS)]
    assert sorted(bytes(cell.row) for cell in found) == wanted
    assert {bytes(cell.value) for cell in found} == {b"%d" % n for n in range(2_990, ROWS)}
