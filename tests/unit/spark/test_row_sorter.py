"""The sorter against Python's own, in memory and with runs on disk."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import OutOfSpace
from stele.spark.batch_pieces import PIECE_BYTES_MAX
from stele.spark.row_sorter import RowSorter


def batch(lines: list[tuple[bytes, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([row for row, _ in lines], pa.binary()), pa.array([n for _, n in lines])],
        names=["row", "f:n"],
    )


lines = st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.integers(0, 9)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(lines, max_size=6), memory=st.sampled_from([1, 200, 1 << 20]))
def test_sorted_whole_and_again(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[bytes, int]]],
    memory: int,
) -> None:
    sorter = RowSorter(str(tmp_path_factory.mktemp("runs")), 3, memory)
    for part in parts:
        sorter.add(batch(part))
    everything = [line for part in parts for line in part]
    assert sorter.rows == len(everything)
    for _ in range(2):
        if not everything:
            break
        found = list(sorter.batches())
        rows = [row for one in found for row in one.column("row").to_pylist()]
        numbers = [n for one in found for n in one.column("f:n").to_pylist()]
        assert sorted(zip(rows, numbers, strict=True)) == sorted(everything)
        assert rows == sorted(rows)
        ends = [(a.column("row")[-1], b.column("row")[0]) for a, b in itertools.pairwise(found)]
        assert all(a.as_py() < b.as_py() for a, b in ends), "a key is in two batches"


def test_what_does_not_fit_goes_to_disk(tmp_path: Path) -> None:
    sorter = RowSorter(str(tmp_path), 100, 10_000)
    for number in range(20):
        sorter.add(
            batch(
                [(b"%05d" % (n * 7919 % 4_000), n) for n in range(number * 200, number * 200 + 200)]
            )
        )
    assert len(list(tmp_path.iterdir())) > 3
    assert sum(one.num_rows for one in sorter.batches()) == 4_000


def test_a_directory_that_takes_nothing_is_named(tmp_path: Path) -> None:
    sorter = RowSorter(str(tmp_path / "gone"), 100, 1)
    sorter.add(batch([(b"a", 1)]))
    with pytest.raises(OutOfSpace, match=r"gone.*TMPDIR"):
        sorter.add(batch([(b"b", 2)]))


def test_some_columns_only(tmp_path: Path) -> None:
    for memory in (1, 1 << 20):
        sorter = RowSorter(str(tmp_path), 100, memory)
        for number in range(3):
            sorter.add(batch([(b"%d" % (number * 7 % 3), number)]))
        found = pa.Table.from_batches(sorter.batches(["row"]))
        assert found.to_pydict() == {"row": [b"0", b"1", b"2"]}


def test_large_rows_come_a_few_at_a_time(tmp_path: Path) -> None:
    sorter = RowSorter(str(tmp_path), 100_000, 8 * PIECE_BYTES_MAX)
    value = bytes(PIECE_BYTES_MAX // 10)
    rows = [b"%04d" % (n * 61 % 100) for n in range(100)]
    for row in rows:
        sorter.add(pa.RecordBatch.from_pydict({"row": [row], "f:v": [value]}))
    assert len(list(tmp_path.iterdir())) == 1, "and the rest is in memory"
    found = list(sorter.batches())
    assert [row.as_py() for one in found for row in one.column("row")] == sorted(rows)
    assert max(one.nbytes for one in found) <= PIECE_BYTES_MAX
