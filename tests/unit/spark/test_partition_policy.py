"""Tasks are even, in row order, and read every row once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.model.ranges import EVERYTHING, RowRange, normalise
from stele.spark.partition_policy import (
    PARTITION_BYTES,
    Piece,
    cut_evenly,
    merged_bytes,
    wanted_partitions,
)
from stele.spark.routes import inside
from stele.storage.read_plan import TabletPlan
from tests.unit.spark.plans import file, shown, tablet

REFERENCE = shown(file(1, b"", b"\xff"))


def line(sizes: list[int], *borders: bytes) -> list[TabletPlan]:
    """Tablets between borders, with a sample at each of the keys 000, 001, …"""
    samples = [(b"%03d" % n, size) for n, size in enumerate(sizes)]
    edges = [RowRange(a, b) for a, b in zip([b"", *borders], [*borders, None], strict=True)]
    return [
        tablet(rows, REFERENCE, samples=[s for s in samples if rows.contains(s[0])])
        for rows in edges
    ]


def sizes_of(tasks: list[tuple[Piece, ...]], sizes: list[int]) -> list[int]:
    return [
        sum(
            size
            for n, size in enumerate(sizes)
            for piece in task
            if piece.rows.contains(b"%03d" % n)
        )
        for task in tasks
    ]


def test_a_large_tablet_is_cut_inside() -> None:
    tasks = cut_evenly(line([100] * 64), [EVERYTHING], 8)
    assert len(tasks) == 8
    assert all(len(task) == 1 for task in tasks)
    assert set(sizes_of(tasks, [100] * 64)) <= {700, 800, 900}


def test_small_tablets_share_a_task() -> None:
    tasks = cut_evenly(line([1] * 20, *(b"%03d" % n for n in range(1, 20))), [EVERYTHING], 2)
    assert [len(task) for task in tasks] == [10, 10]


def test_skew_is_evened_out() -> None:
    sizes = [10] * 32 + [1_000] * 32 + [10] * 32
    found = sorted(sizes_of(cut_evenly(line(sizes, b"010", b"090"), [EVERYTHING], 8), sizes))
    assert found[-1] / found[len(found) // 2] < 1.5


def test_no_work_is_no_task() -> None:
    assert cut_evenly([], [EVERYTHING], 4) == []
    assert cut_evenly(line([5]), [], 4) == []
    assert merged_bytes([], [EVERYTHING]) == 0


def test_as_many_tasks_as_cores_or_more_for_much_work() -> None:
    assert wanted_partitions(10, 4) == 4
    assert wanted_partitions(10 * PARTITION_BYTES, 4) == 10


def test_the_bytes_of_a_range_are_those_of_its_samples() -> None:
    assert merged_bytes(line([100] * 10), [RowRange(b"002", b"005")]) in range(300, 310)


KEYS = st.integers(0, 40).map(lambda n: b"%03d" % n)


@given(
    st.lists(st.integers(0, 500), max_size=40),
    st.lists(KEYS.filter(lambda key: key > b"000"), max_size=4, unique=True).map(sorted),
    st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=3),
    st.integers(1, 9),
)
@settings(max_examples=80, deadline=None)
def test_every_row_is_in_exactly_one_piece(
    sizes: list[int], borders: list[bytes], pairs: list[tuple[bytes, bytes]], count: int
) -> None:
    tablets = line(sizes, *borders)
    ranges = normalise(RowRange(min(a, b), max(a, b) + b"\x00") for a, b in pairs)
    tasks = cut_evenly(tablets, ranges, count)
    pieces = [piece for task in tasks for piece in task]
    assert len(tasks) <= count
    wanted = [part for each in tablets for part in inside(ranges, each.rows)]
    for number in range(42):
        for row in (b"%03d" % number, b"%03d\x00" % number):
            hits = sum(piece.rows.contains(row) for piece in pieces)
            assert hits == sum(part.contains(row) for part in wanted)
    starts = [piece.rows.start for piece in pieces]
    assert starts == sorted(starts)
    for piece in pieces:
        assert any(each.rows.covers(piece.rows) for each in tablets)
