"""Old files of declared columns after those were added, renamed, widened and dropped."""

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


def typed(**kinds: str) -> stele.Schema:
    columns = {f"m:{name}": kind for name, kind in kinds.items()}
    return stele.Schema([stele.Group("all", ["m"])], columns=columns, key="string")


def lines(frame: Any) -> set[tuple[Any, ...]]:
    return {tuple(line) for line in frame.collect()}


def test_old_files_are_read_by_what_columns_are_now(spark: Any, tmp_path: Path) -> None:
    with stele.open(tmp_path) as db:
        table = db.create_table("t", typed(n="int32", gone="string"))
        old = spark.range(3).selectExpr(
            "concat('k', id) AS row", "cast(id AS int) AS `m:n`", "'x' AS `m:gone`"
        )
        ss.bulk_load(spark, old, table, row="row")
        before = ss.read(spark, table)
        db.rename_column("t", "m:n", "number")
        assert ss.read(spark, table).columns == ["row", "number", "m:gone"]
        assert lines(ss.read(spark, table, names="flat")) == lines(before)
        db.alter_table("t", typed(n="int64", fresh="double"))
        with pytest.raises(InvalidArgument, match="select it as 'm:n'"):
            ss.read(spark, table, columns=["number"])
        new = spark.createDataFrame([("k9", 2**40, 0.5)], "row string, number long, fresh double")
        ss.bulk_load(spark, new.withColumnRenamed("fresh", "m:fresh"), table, row="row")
        expected = {("k0", 0, None), ("k1", 1, None), ("k2", 2, None), ("k9", 2**40, 0.5)}
        for _ in range(2):  # files as they are, then compacted
            found = ss.read(spark, table)
            assert found.dtypes == [("row", "string"), ("number", "bigint"), ("m:fresh", "double")]
            assert lines(found) == expected
            assert found.where("number >= 2").count() == 2
            assert lines(ss.read(spark, table, columns=["m:n"])) == {one[:2] for one in expected}
            table.compact()
        db.rename_column("t", "m:n", "m:n")
        assert ss.read(spark, table).columns == ["row", "m:n", "m:fresh"]
        assert lines(before) == {(f"k{n}", n, "x") for n in range(3)}, "a frame keeps its names"
