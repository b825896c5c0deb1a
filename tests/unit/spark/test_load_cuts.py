"""Cuts of a load, with a frame that is a list of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stele
from stele.errors import InvalidArgument
from stele.spark.load_cuts import Cuts, check_splits, find_cuts, sample_rows


class Rows:
    """As much of a DataFrame as samples need: two partitions of keys."""

    def __init__(self, count: int):
        keys = [b"%06d" % (n * 7_919 % count) for n in range(count)]
        self._parts = [keys[::2], keys[1::2]]
        self._lines: list[dict[str, Any]] = []

    def select(self, name: str) -> Rows:
        assert name == "`row`"
        return self

    def mapInArrow(self, function: Any, schema: Any) -> Rows:  # noqa: N802 -- Spark's name
        for keys in self._parts:
            batches: Iterator[pa.RecordBatch] = iter(
                [pa.record_batch([pa.array(keys, pa.binary())], names=["row"])]
            )
            self._lines += [line for batch in function(batches) for line in batch.to_pylist()]
        return self

    def collect(self) -> list[dict[str, Any]]:
        return self._lines


@pytest.fixture
def table(tmp_path: Path) -> Iterator[stele.Table]:
    with stele.open(tmp_path / "db") as db:
        yield db.create_table("t")


def test_samples_speak_for_all_rows() -> None:
    samples, rows = sample_rows(Rows(9_999))
    assert rows == 9_999
    assert len(samples) < 9_999


def test_a_new_table_with_few_rows_stays_whole_and_keeps_all_busy(table: stele.Table) -> None:
    cuts = find_cuts(Rows(10_000), table, "auto", 4)
    assert cuts.count == 10_000
    assert len(cuts.rows) == 3
    assert 2_000 < int(cuts.rows[0]) < 3_000
    assert len(table.tablets()) == 1


def test_a_new_table_with_many_rows_is_split(
    table: stele.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stele.spark.load_routing.ROWS_PER_NEW_TABLET", 2_500)
    cuts = find_cuts(Rows(10_000), table, "auto", 4)
    assert [tablet.rows.start for tablet in table.tablets()][1:] == list(cuts.rows)
    assert len(cuts.rows) == 3


def test_given_splits_need_no_samples(table: stele.Table) -> None:
    cuts = find_cuts(None, table, [b"a", b"b"], 2)
    assert cuts == Cuts((b"a", b"b"))
    assert len(table.tablets()) == 3


def test_borders_are_always_cuts(table: stele.Table) -> None:
    table.put(b"x", {"f:q": b"v"})
    table.split(b"005000")
    cuts = find_cuts(Rows(10_000), table, "auto", 4)
    assert b"005000" in cuts.rows
    assert len(table.tablets()) == 2


@pytest.mark.parametrize("given", ["b", b"bc", "", 5, None, {b"a"}])
def test_splits_that_are_no_list_are_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="splits is 'auto' or a list of keys, not"):
        check_splits(given)
    for fine in ("auto", [], [b"a"], (1, 2)):
        check_splits(fine)
