"""Parts of lost tables cover every row once, and are as even as samples say."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.model.ranges import EVERYTHING, RowRange
from stele.spark.recover_policy import (
    PART_BYTES,
    PART_BYTES_MIN,
    Part,
    cut_parts,
    part_bytes,
)
from stele.storage.read_plan import KeySample
from stele.storage.recovery_work import LostTablet, LostTableWork


def lost(*borders: bytes, table: str = "t") -> LostTableWork:
    ranges = zip([b"", *borders], [*borders, None], strict=True)
    return LostTableWork(
        table, table, "", tuple(LostTablet(RowRange(*r), (), None) for r in ranges)
    )


ROWS = st.lists(st.binary(min_size=1, max_size=2), unique=True, max_size=12).map(sorted)


@given(ROWS, st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.integers(0, 50))))
@settings(max_examples=80, deadline=None)
def test_parts_cover_every_row_once(borders: list[bytes], samples: list[tuple[bytes, int]]) -> None:
    given_samples = [KeySample(*sample) for sample in sorted(samples)]
    parts = cut_parts([lost(*borders)], {"t": given_samples}, 100)
    assert parts[0].rows.start == b""
    assert parts[-1].rows.end is None
    assert all(a.rows.end == b.rows.start for a, b in itertools.pairwise(parts))
    for part in parts:
        inside = [sample for sample in given_samples if part.rows.contains(sample.row)]
        last = max((sample.row for sample in inside), default=b"")
        assert sum(sample.size_bytes for sample in inside if sample.row < last) < 100


def test_parts_end_at_tablets_where_one_is_near() -> None:
    samples = [KeySample(b"%02d" % number, 10) for number in range(20)]
    parts = cut_parts([lost(b"07", b"09")], {"t": samples}, 100)
    assert [part.rows for part in parts] == [
        RowRange(b"", b"07"),
        RowRange(b"07", b"17"),
        RowRange(b"17"),
    ]


def test_a_table_that_the_log_does_not_speak_of_is_one_part() -> None:
    tables = [lost(b"g", b"m"), lost(table="u")]
    assert cut_parts(tables, {}, 100) == [Part("t", EVERYTHING), Part("u", EVERYTHING)]


def test_how_much_a_part_has() -> None:
    assert part_bytes(0, 4) == PART_BYTES_MIN
    assert part_bytes(1 << 40, 4) == PART_BYTES
    assert part_bytes(80 << 20, 4) == 20 << 20
