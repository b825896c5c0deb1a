"""Which tablets a commit goes to, what it collides with, what is remembered of it (T21, T22)."""

from __future__ import annotations

import pytest

from stele.errors import StaleRow, TableNotFound, TabletNotServing
from stele.model.mutations import MutationBatch
from stele.model.ranges import RowRange
from stele.tablet.commit_checks import check_conflicts, remember, writable
from stele.tablet.commits import Request, prepare
from stele.tablet.config import TabletConfig
from stele.tablet.families import FamilyNames
from stele.tablet.options import SMALL_COMMIT_CELLS_MAX
from stele.tablet.range_map import RangeMap
from stele.tablet.table_state import TableLayout, TableState
from tests.unit.tablet.engine_support import ONE_GROUP, TABLE

FAMILIES = FamilyNames(ONE_GROUP)
CLOCK = 10
RANGES = {"a": RowRange(b"", b"g"), "b": RowRange(b"g", b"p"), "c": RowRange(b"t", None)}
"""The rows from p to t are in no tablet of ours."""


def a_table() -> TableState:
    configs = [TabletConfig(name, TABLE, rows) for name, rows in RANGES.items()]
    return TableState(TABLE, "table", TableLayout(ONE_GROUP, RangeMap(configs)), CLOCK)


def request(*rows: bytes, is_large: bool = False) -> Request:
    batch = MutationBatch()
    for row in rows:
        for number in range(SMALL_COMMIT_CELLS_MAX + 1 if is_large else 1):
            batch.put(row, "f", b"%04d" % number, b"v")
    return prepare(batch, FAMILIES)


@pytest.mark.parametrize("is_large", [False, True])
def test_t21_a_request_goes_to_the_tablets_of_its_rows(is_large: bool) -> None:
    state = a_table()
    for rows, names in ((b"a",), "a"), ((b"a", b"h"), "ab"), ((b"z",), "c"):
        found = writable(state, request(*rows, is_large=is_large))
        assert [config.id for config in found] == list(names)
    with pytest.raises(TabletNotServing, match="row b'q' of table 'table'"):
        writable(state, request(b"a", b"q", is_large=is_large))
    with pytest.raises(TabletNotServing):
        writable(state, request(b"q", is_large=is_large))


@pytest.mark.parametrize("is_large", [False, True])
def test_t21_the_last_row_of_a_tablet_and_the_first_of_the_next(is_large: bool) -> None:
    state = a_table()
    for rows, names in ((b"a", b"f" * 9), "a"), ((b"a", b"g"), "ab"), ((b"g", b"o" * 9), "b"):
        found = writable(state, request(*rows, is_large=is_large))
        assert [config.id for config in found] == list(names)
    with pytest.raises(TabletNotServing, match="row b'p' of table"):
        writable(state, request(b"g", b"p", is_large=is_large))


def test_rows_around_a_gap_are_no_rows_in_it() -> None:
    found = writable(a_table(), request(b"a", b"z"))
    assert {config.id for config in found} >= {"a", "c"}


def test_a_table_that_is_being_dropped_takes_nothing() -> None:
    state = a_table()
    state.takes_writes = False
    with pytest.raises(TableNotFound, match="dropped"):
        writable(state, request(b"a"))


@pytest.mark.parametrize("is_large", [False, True])
def test_t22_what_is_remembered_of_one_commit_refuses_another(is_large: bool) -> None:
    state = a_table()
    both = request(b"a", b"h", is_large=is_large)
    remember(state, both, writable(state, both), CLOCK + 5)
    for row in (b"a", b"h"):
        with pytest.raises(StaleRow, match=f"at {CLOCK + 5}, after it was read at {CLOCK}"):
            check_conflicts(state, request(row), CLOCK)
        check_conflicts(state, request(row), CLOCK + 5)
    check_conflicts(state, request(b"b", b"i", b"z"), CLOCK)
    with pytest.raises(StaleRow):
        check_conflicts(state, request(b"b", b"h", is_large=True), CLOCK)


def test_t22_a_row_is_remembered_by_its_own_tablet_only() -> None:
    state = a_table()
    both = request(b"a", b"h")
    remember(state, both, writable(state, both), CLOCK + 5)
    assert state.rings["a"].last_commit(b"h") == CLOCK
    assert state.rings["b"].last_commit(b"h") == CLOCK + 5
