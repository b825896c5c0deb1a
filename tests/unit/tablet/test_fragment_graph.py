"""Files and the tablets that share them (T5, T6)."""

from __future__ import annotations

from dataclasses import replace

from stele.model.ranges import RowRange
from stele.tablet.config import TabletConfig
from stele.tablet.fragment_graph import FragmentGraph
from tests.unit.tablet.test_parallel import reference


def tablet(name: str, start: bytes, end: bytes | None, *files: str) -> TabletConfig:
    rows = RowRange(start, end)
    references = tuple(replace(reference(file), rows=rows) for file in files)
    return TabletConfig(name, "t1", rows, references)


SHARED, LOWER, GONE = "s-00000001.parquet", "s-00000002.parquet", "s-00000003.parquet"


def test_t5_a_file_knows_its_tablets_in_row_order() -> None:
    graph = FragmentGraph(
        [tablet("t1.1", b"", b"m", SHARED, LOWER), tablet("t1.2", b"m", None, SHARED)]
    )
    assert graph.tablets_of(SHARED) == ("t1.1", "t1.2")
    assert graph.tablets_of(LOWER) == ("t1.1",)
    assert graph.tablets_of(GONE) == ()


def test_t6_what_no_tablet_refers_to_is_not_needed() -> None:
    graph = FragmentGraph([tablet("t1.1", b"", None, SHARED)])
    assert graph.unneeded([SHARED, GONE]) == {GONE}
    assert FragmentGraph([]).unneeded([SHARED]) == {SHARED}
