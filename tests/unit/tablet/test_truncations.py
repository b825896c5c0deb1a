from __future__ import annotations

from stele.model.ranges import EVERYTHING, RowRange
from stele.tablet.truncations import Truncations

LOW, HIGH = RowRange(b"", b"m"), RowRange(b"m")


def test_only_rows_that_were_truncated_have_a_floor() -> None:
    truncations = Truncations()
    assert (truncations.floor_max, truncations.floor_of([EVERYTHING])) == (0, 0)
    truncations.note(LOW, 7)
    truncations.note(RowRange(b"a", b"b"), 9)
    assert truncations.floor_max == 9
    assert truncations.floor_of([HIGH]) == 0
    assert truncations.floor_of([RowRange(b"c", b"d")]) == 7
    assert truncations.floor_of([HIGH, RowRange.row(b"a")]) == 9


def test_a_note_goes_when_configs_say_at_least_as_much() -> None:
    truncations = Truncations()
    truncations.note(LOW, 7)
    truncations.saved(RowRange(b"a", b"m"), 9)
    truncations.saved(LOW, 6)
    assert truncations.floor_max == 7
    truncations.note(LOW, 8)
    truncations.saved(EVERYTHING, 7)
    assert truncations.floor_of([LOW]) == 8
    truncations.saved(LOW, 8)
    assert truncations.floor_max == 0
