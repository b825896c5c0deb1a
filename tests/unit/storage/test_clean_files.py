"""Clean files are whole, alone, old enough and fit; whatever is not is merged by its tablet."""

from __future__ import annotations

import msgspec
import pytest

from stele.model.column_set import ColumnSet
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.clean_files import holds_cells, split_clean
from stele.storage.fragment_format import COLUMNS_LAYOUT
from stele.storage.references import Reference
from tests.unit.spark.plans import TXN, file, shown, tablet

INFO = ColumnSet.of(["info"])
LOW, HIGH = RowRange(b"", b"m"), RowRange(b"m")


def test_a_file_that_two_tablets_show_together_is_whole() -> None:
    both = file(1, b"a", b"z")
    tablets = [tablet(LOW, shown(both, LOW)), tablet(HIGH, shown(both, HIGH))]
    assert split_clean(tablets, TXN, holds_cells, by_columns=True).clean == (both,)
    one_side = split_clean(tablets[:1], TXN, holds_cells, by_columns=True)
    assert one_side.clean == ()
    assert one_side.merged == (tablets[0],)


@pytest.mark.parametrize("by_columns", [True, False])
def test_other_columns_are_in_the_way_of_lines_only(by_columns: bool) -> None:
    one, other = file(1, b"a", b"c"), file(2, b"b", b"d", families=["x"])
    here = tablet(EVERYTHING, shown(one, columns=INFO), shown(other, columns=INFO.inverse()))
    found = split_clean([here], TXN, holds_cells, by_columns=by_columns)
    assert found.clean == ((one, other) if by_columns else ())
    assert found.merged == (() if by_columns else (here,))


def test_a_txn_in_the_place_of_the_files_own_matters_to_cells_and_not_to_lines() -> None:
    cells = file(1, b"a", b"b", txn=0)
    lines = msgspec.structs.replace(file(2, b"c", b"d", txn=0), layout=COLUMNS_LAYOUT)
    here = tablet(EVERYTHING, Reference(cells, txn=TXN), Reference(lines, txn=TXN))
    found = split_clean([here], TXN, lambda _: True, by_columns=True)
    assert found.clean == (lines,)
    assert [ref.file for ref in found.merged[0].references] == [cells]
    assert split_clean([here], TXN - 1, lambda _: True, by_columns=True).clean == ()


def test_what_is_not_fit_or_too_new_is_merged() -> None:
    new, unclean = file(1, b"a", b"b", txn=TXN + 1), file(2, b"c", b"d", clean=False)
    here = tablet(EVERYTHING, shown(new), shown(unclean), shown(file(3, b"x", b"z")))
    found = split_clean([here], TXN, holds_cells, by_columns=True)
    assert [each.name for each in found.clean] == [file(3, b"x", b"z").name]
    assert [ref.file for ref in found.merged[0].references] == [new, unclean]
