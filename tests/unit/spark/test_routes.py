"""Clean files are read by Spark, all others are merged; no cell is in both, none is in neither."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.model import filters
from stele.model.column_set import ColumnSet
from stele.model.columns import ColumnSelection
from stele.model.predicates import ScanSpec
from stele.model.ranges import EVERYTHING, RowRange, normalise
from stele.spark.requests import ReadRequest
from stele.spark.routes import NATIVE_RANGES_MAX, choose_routes, inside, relevant
from stele.storage.clean_files import Routes
from stele.storage.read_plan import TabletPlan
from stele.storage.references import Reference
from tests.unit.spark.plans import TXN, file, plan_of, shown, tablet

CELLS = ReadRequest(shape="cells")
INFO = ColumnSet.of(["info"])
REST = INFO.inverse()
LOW, HIGH = RowRange(b"", b"m"), RowRange(b"m")


def route(*tablets: TabletPlan, request: ReadRequest = CELLS) -> Routes:
    return choose_routes(plan_of(*tablets), request)


def names(routes: Routes) -> tuple[list[str], list[str]]:
    merged = sorted({ref.file.name for part in routes.merged for ref in part.references})
    return [each.name for each in routes.clean], merged


def test_a_compacted_table_is_clean() -> None:
    low, high = file(1, b"a", b"c"), file(2, b"n", b"z")
    rest = file(3, b"a", b"z", families=["x"])
    found = route(
        tablet(LOW, shown(low, LOW, INFO), shown(rest, LOW, REST)),
        tablet(HIGH, shown(high, HIGH, INFO), shown(rest, HIGH, REST)),
    )
    assert {each.name for each in found.clean} == {low.name, rest.name, high.name}
    assert found.merged == ()


@pytest.mark.parametrize(
    "other",
    [
        shown(file(2, b"b", b"b")),
        Reference(file(2, b"b", b"b", txn=0), txn=5),
        shown(file(2, b"c", b"d", txn=TXN + 1)),
    ],
)
def test_an_overlap_makes_both_sides_unclean(other: Reference) -> None:
    one, alone = file(1, b"a", b"c"), file(3, b"x", b"z")
    found = route(tablet(EVERYTHING, shown(one), other, shown(alone)))
    assert names(found) == ([alone.name], sorted([one.name, other.file.name]))


@pytest.mark.parametrize(
    "unclean",
    [
        shown(file(1, b"a", b"c", clean=False)),
        shown(file(1, b"a", b"c", txn=TXN + 1)),
        Reference(file(1, b"a", b"c", txn=0), txn=5),
        shown(file(1, b"a", b"c"), RowRange(b"b")),
        shown(file(1, b"a", b"c", families=["a", "info"]), columns=INFO),
    ],
)
def test_what_has_to_be_looked_at_is_merged(unclean: Reference) -> None:
    assert names(route(tablet(EVERYTHING, unclean))) == ([], [unclean.file.name])


def test_a_file_that_two_tablets_share_is_clean_only_if_both_say_so() -> None:
    shared = file(1, b"a", b"z")
    halves = [tablet(LOW, shown(shared, LOW)), tablet(HIGH, shown(shared, HIGH))]
    assert names(route(*halves)) == ([shared.name], [])
    delta = tablet(HIGH, shown(shared, HIGH), shown(file(2, b"p", b"q"), HIGH))
    found = route(halves[0], delta)
    assert names(found) == ([], [shared.name, file(2, b"p", b"q").name])
    assert [len(part.references) for part in found.merged] == [1, 2]


def test_what_is_not_asked_for_is_not_in_the_way() -> None:
    base, delta = file(1, b"a", b"z"), file(2, b"p", b"q")
    both = tablet(EVERYTHING, shown(base, columns=INFO), shown(delta, columns=INFO))
    some = ReadRequest(shape="cells", spec=ScanSpec(ranges=(RowRange(b"a", b"c"),)))
    assert names(route(both, request=some)) == ([base.name], [])
    other = ReadRequest(shape="cells", spec=ScanSpec(columns=ColumnSelection.parse("x:")))
    assert names(route(both, request=other)) == ([], [])


@pytest.mark.parametrize(
    "request_",
    [
        ReadRequest(shape="rows"),
        ReadRequest(shape="cells", spec=ScanSpec(filters=(filters.prefix("row", b"a"),))),
        ReadRequest(
            shape="cells",
            spec=ScanSpec(
                ranges=tuple(RowRange.row(b"a%03d" % n) for n in range(NATIVE_RANGES_MAX + 1))
            ),
        ),
    ],
)
def test_some_reads_are_always_merged(request_: ReadRequest) -> None:
    clean = file(1, b"a", b"z")
    assert names(route(tablet(EVERYTHING, shown(clean)), request=request_)) == ([], [clean.name])


def test_tablets_without_anything_are_left_out() -> None:
    plan = plan_of(tablet(LOW), tablet(HIGH, shown(file(1, b"n", b"o"), HIGH)))
    assert [part.rows for part in relevant(plan, CELLS)] == [HIGH]
    assert inside([RowRange(b"a", b"z"), RowRange(b"zz")], LOW) == (RowRange(b"a", b"m"),)


KEYS = st.integers(0, 30).map(lambda n: b"%02d" % n)
SPANS = st.tuples(KEYS, KEYS, st.sampled_from([INFO, REST]), st.booleans())


@given(st.lists(SPANS, max_size=10), KEYS.filter(bool))
@settings(max_examples=80, deadline=None)
def test_every_reference_goes_one_way_and_clean_files_overlap_nothing(
    spans: list[tuple[bytes, bytes, ColumnSet, bool]], border: bytes
) -> None:
    files = [
        (
            file(
                n, min(a, b), max(a, b), families=["info" if columns is INFO else "x"], clean=clean
            ),
            columns,
        )
        for n, (a, b, columns, clean) in enumerate(spans)
    ]
    tablets = [
        tablet(
            rows,
            *(
                part
                for each, columns in files
                for part in [shown(each, rows, columns)]
                if rows.start <= each.summary.last_row
                and (rows.end is None or each.summary.first_row < rows.end)
            ),
        )
        for rows in (RowRange(b"", border), RowRange(border))
    ]
    found = route(*tablets)
    clean = {each.name for each in found.clean}
    merged = Counter(ref for part in found.merged for ref in part.references)
    everything = [ref for part in tablets for ref in part.references]
    assert all((ref.file.name in clean) != (merged[ref] == 1) for ref in everything)
    for each, columns in files:
        for other, others in files:
            if each.name in clean and each is not other and columns == others:
                a, b = each.summary, other.summary
                assert a.last_row < b.first_row or b.last_row < a.first_row


@given(
    bounds=st.lists(st.binary(max_size=2), max_size=12, unique=True),
    tablet=st.tuples(st.binary(max_size=2), st.none() | st.binary(min_size=1, max_size=2)),
)
def test_the_parts_of_ranges_in_a_tablet(
    bounds: list[bytes], tablet: tuple[bytes, bytes | None]
) -> None:
    ordered = sorted(bounds)
    pairs = zip(ordered[::2], ordered[1::2], strict=False)
    ranges = normalise([RowRange(start, end) for start, end in pairs])
    start, end = tablet
    rows = RowRange(start, end if end is not None and end > start else None)
    every = (wanted.intersect(rows) for wanted in ranges)
    assert inside(ranges, rows) == tuple(part for part in every if part is not None)
