"""References as streams: fences cut blocks, and files that follow each other are one run."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.model.ranges import RowRange
from stele.storage.reference_streams import first_row, last_row, reference_sources, runs
from stele.storage.references import Reference
from tests.unit.storage.fragment_cases import cells_of, new_fs, open_info, plain_cells, write
from tests.unit.storage.test_references import info

KEYS = st.binary(min_size=1, max_size=2)


def test_a_stream_shows_what_is_inside_the_fence() -> None:
    fs = new_fs()
    (file,) = write(fs, plain_cells(200))
    rows = RowRange(b"row0000010", b"row0000013")
    with open_info(fs, file) as reader:
        groups = reader.index.groups_of_range(rows)
        sources = list(
            reference_sources(reader.index, Reference(file, rows), reader.read_block, groups)
        )
    found = cells_of(source.block for source in sources)
    assert [cell.row for cell in found[::4]] == [b"row0000010", b"row0000011", b"row0000012"]
    assert not any(source.continues for source in sources)


def test_a_row_that_goes_on_is_marked() -> None:
    fs = new_fs()
    (file,) = write(fs, plain_cells(100, per_row=100))
    with open_info(fs, file) as reader:
        groups = range(len(reader.index))
        sources = list(reference_sources(reader.index, Reference(file), reader.read_block, groups))
    assert [source.continues for source in sources] == [True] * (len(sources) - 1) + [False]


def spans() -> st.SearchStrategy[list[Reference]]:
    pairs = st.tuples(KEYS, KEYS).map(sorted)
    return st.lists(pairs, max_size=12).map(
        lambda found: [
            Reference(info(number, first_row=low, last_row=high))
            for number, (low, high) in enumerate(found)
        ]
    )


@given(spans())
@settings(max_examples=60)
def test_runs_hold_every_reference_once_and_do_not_overlap(references: list[Reference]) -> None:
    found = runs(references)
    names = [reference.file.name for run in found for reference in run]
    assert sorted(names) == sorted(reference.file.name for reference in references)
    for run in found:
        assert all(last_row(a) < first_row(b) for a, b in pairwise(run))


def test_a_fence_narrows_the_bounds() -> None:
    file = info(1, first_row=b"b", last_row=b"y")
    assert (first_row(Reference(file)), last_row(Reference(file))) == (b"b", b"y")
    fenced = Reference(file, RowRange(b"c", b"d"))
    assert (first_row(fenced), last_row(fenced)) == (b"c", b"d")


def test_files_that_follow_each_other_are_one_run() -> None:
    low = info(1, first_row=b"a", last_row=b"c")
    middle = info(2, first_row=b"d", last_row=b"f")
    across = info(3, first_row=b"b", last_row=b"e")
    found = runs([Reference(across), Reference(middle), Reference(low)])
    assert [[ref.file for ref in run] for run in found] == [[low, middle], [across]]
    fenced = Reference(across, RowRange(b"b", b"d"))
    assert len(runs([fenced, Reference(middle)])) == 2, "a fence that ends where the next begins"
