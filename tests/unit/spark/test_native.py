"""The condition on clean files says what the read asks for, and no more."""

from __future__ import annotations

import pytest

from stele.model.columns import ColumnSelection, FamilySelection
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.spark.native import condition, path_of
from tests.unit.spark.plans import file

FILES = [
    file(1, b"b", b"f"),
    file(2, b"g", b"k", families=["info", "stats"]),
]


def test_a_path_is_no_pattern() -> None:
    path = path_of("/data/we[i]rd {x}, *", FILES[0])
    assert path == f"file:///data/we\\[i\\]rd \\{{x\\}}\\, \\*/{FILES[0].name}"


def sql(**spec: object) -> str | None:
    return condition(FILES, ScanSpec(**spec))  # type: ignore[arg-type]


def test_everything_needs_no_condition() -> None:
    assert sql() is None
    assert sql(ranges=(RowRange(b"a", b"l"),)) is None
    assert sql(columns=ColumnSelection.parse(["info:", "stats:"])) is None


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([RowRange(b"c", b"d")], "((`row` >= X'63' AND `row` < X'64'))"),
        ([RowRange(b"c")], "(`row` >= X'63')"),
        ([RowRange.row(b"\xff\x00")], "false"),
        ([RowRange.row(b"c\xff")], "(`row` = X'63ff')"),
        (
            [RowRange(b"", b"d"), RowRange(b"h")],
            "((`row` >= X'' AND `row` < X'64') OR `row` >= X'68')",
        ),
    ],
)
def test_ranges_of_rows(ranges: list[RowRange], expected: str) -> None:
    assert sql(ranges=tuple(ranges)) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["info:"], "(`family` = 'info')"),
        (
            ["info:a", "stats:"],
            "((`family` = 'info' AND (`qualifier` = X'61')) OR `family` = 'stats')",
        ),
        (
            [FamilySelection.between("info", b"a", b"c")],
            "((`family` = 'info' AND ((`qualifier` >= X'61' AND `qualifier` < X'63'))))",
        ),
        ([], "false"),
    ],
)
def test_columns(columns: list[object], expected: str) -> None:
    assert sql(columns=ColumnSelection.parse(columns)) == expected  # type: ignore[arg-type]


def test_times_and_several_conditions() -> None:
    assert sql(time_start=5, time_end=9) == "`timestamp` >= 5L AND `timestamp` < 9L"
    both = sql(ranges=(RowRange(b"c"),), columns=ColumnSelection.parse("info:"), time_start=-7)
    assert both == "(`row` >= X'63') AND (`family` = 'info') AND `timestamp` >= -7L"
