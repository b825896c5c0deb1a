"""``ss.bulk_load`` of cells: every op is what it says, and nothing of a line is passed over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.errors import InvalidArgument, InvalidCells
from stele.model.types import value_type
from stele.storage.fragment_format import COLUMNS_LAYOUT

pytestmark = [
    pytest.mark.spark,
    # PySpark's own doing, at import and at the end of a session.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TWO_GROUPS = stele.Schema(
    [stele.Group("hot", ["c"]), stele.Group("rest", ["d"])], columns={"c:n": "int32"}
)
CELLS = "row string, family string, qualifier string, value binary"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        yield database


def cells(table: stele.Table) -> set[tuple[bytes, str, int, bytes]]:
    return {
        (cell.row, f"{cell.family}:{cell.qualifier.decode()}", cell.timestamp, cell.value)
        for row in table.scan(versions=None)
        for cell in row.cells
    }


def test_ops_of_cells_erase_what_they_name(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", TWO_GROUPS)
    for row in (b"row", b"family", b"column", b"cell", b"word"):
        for time in (5, 6):
            table.put(row, {"c:a": b"old", "d:b": b"old"}, timestamp=time)
    lines = [
        ("row", None, None, None, None, "erase_row"),
        ("family", "d", None, None, None, "erase_family"),
        ("column", "c", "a", None, 5, "erase_column"),
        ("cell", "c", "a", None, 6, "erase_cell"),
        ("word", "c", "a", None, None, "delete"),
        ("word", "c", "x", b"new", 9, "put"),
    ]
    df = spark.createDataFrame(lines, f"{CELLS}, timestamp long, op string")
    ss.bulk_load(spark, df, table, shape="cells", splits=[])
    both = {5, 6}
    assert cells(table) == {
        *((b"family", "c:a", time, b"old") for time in both),
        (b"column", "c:a", 6, b"old"),
        (b"cell", "c:a", 5, b"old"),
        (b"word", "c:x", 9, b"new"),
        *((row, "d:b", time, b"old") for row in (b"column", b"cell", b"word") for time in both),
    }


def test_what_cells_do_not_have_is_refused_by_name(spark: Any, db: stele.Database) -> None:
    table = db.create_table("t", TWO_GROUPS)
    df = spark.createDataFrame([("a", "c", "a", b"1")], CELLS)
    for name, value in {"row": "zzz", "timestamp": "nope", "family": "nofam", "op": "op"}.items():
        with pytest.raises(InvalidArgument, match=f"^{name} says something of wide rows"):
            ss.bulk_load(spark, df, table, shape="cells", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="'more' is not one of them"):
        ss.bulk_load(spark, df.withColumn("more", df.value), table, shape="cells")
    wrong = spark.createDataFrame([("a", "c", "a", None, "drop")], f"{CELLS}, op string")
    with pytest.raises(InvalidCells, match=r"the op of row b'a' is 'drop': it is delete, "):
        ss.bulk_load(spark, wrong, table, shape="cells", splits=[])
    with pytest.raises(InvalidCells, match=r"is there twice: .* drop one, as df\.dropDuplicates"):
        ss.bulk_load(spark, df.union(df), table, shape="cells", splits=[])
    assert not cells(table)


def test_bytes_that_are_no_value_are_kept_and_reported(spark: Any, db: stele.Database) -> None:
    five = value_type("int32").encode(5)
    lines = [("bad", "c", "n", b"abc"), *((f"good{n}", "c", "n", five) for n in range(20))]
    df = spark.createDataFrame(lines, CELLS)
    table, written = (db.create_table(name, TWO_GROUPS) for name in ("loaded", "written"))
    ss.bulk_load(spark, df, table, shape="cells", splits=[])
    ss.write(df, written)
    sentence = "row b'bad', column 'c:n' holds b'abc', which is no int32: read it as cells, with"
    with pytest.raises(InvalidCells, match=sentence):
        written.scan(shape="rows").to_arrow()
    for is_compacted in (False, True):
        if is_compacted:
            table.compact()
        with pytest.raises(InvalidCells, match=sentence):
            table.scan(shape="rows").to_arrow()
        with pytest.raises(Exception, match=sentence):
            ss.read(spark, table).collect()
    plan = table.core.backend.pin(None, 60_000_000)
    layouts = {one.file.layout for tablet in plan.tablets for one in tablet.references}
    assert COLUMNS_LAYOUT in layouts, "most of the column is native, and Spark could read it alone"
    raw = ss.read(spark, table, shape="cells").where("row = binary('bad')").collect()
    assert [bytes(line.value) for line in raw] == [b"abc"]
    good = ss.read(spark, table, rows=(b"good", None)).collect()
    assert [line["c:n"] for line in good] == [5] * 20
