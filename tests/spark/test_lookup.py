"""``ss.lookup_join`` in a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.errors import InvalidArgument

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_a_lookup_is_a_join(spark: Any, tmp_path: Path) -> None:
    schema = stele.Schema(
        [stele.Group("all", ["info"])], columns={"info:age": "int64"}, key="int64"
    )
    with stele.open(tmp_path) as db:
        users = db.create_table("users", schema, splits=[100, 200])
        with users.batch() as batch:
            for number in range(0, 300, 3):
                batch.put(number, {"info:age": number})
        users.compact()
        users.put(0, {"info:age": -1})
        orders = spark.range(0, 400).selectExpr(
            "id AS item", "IF(id % 7 = 0, NULL, id - 20) AS who"
        )
        found = ss.lookup_join(orders, users, on="who")
        users.truncate()
        right = spark.createDataFrame(
            [(number, number or -1) for number in range(0, 300, 3)], "row long, age long"
        )
        wanted = orders.join(right, orders.who == right.row, "left")
        lines = {(line.item, line.who, line["info:age"]) for line in found.collect()}
        assert lines == {(line.item, line.who, line.age) for line in wanted.collect()}
        assert len(lines) == 400
        with pytest.raises(InvalidArgument, match="no column 'nobody'"):
            ss.lookup_join(orders, users, on="nobody")
