"""Who is next: files or layout."""

from __future__ import annotations

from stele.tablet.waiting_line import Place, WaitingLine


def line_of(*kinds: str) -> tuple[WaitingLine, list[Place]]:
    line = WaitingLine()
    places = [Place(is_layout=kind == "layout") for kind in kinds]
    for place in places:
        line.join(place)
    return line, places


def turns(line: WaitingLine, places: list[Place]) -> list[bool]:
    return [line.is_turn_of(place) for place in places]


def test_jobs_go_side_by_side_and_a_layout_alone() -> None:
    line, places = line_of("job", "job", "layout", "job", "layout")
    assert turns(line, places) == [True, True, False, False, False]
    before = line.layout_is_next
    line.leave(places.pop(0))
    line.leave(places.pop(0))
    assert turns(line, places) == [True, False, False]
    assert (before, line.layout_is_next) == (False, True)
    line.leave(places.pop(0))
    assert turns(line, places) == [True, False]


def test_layouts_go_in_their_order() -> None:
    line, places = line_of("layout", "layout")
    assert turns(line, places) == [True, False]
    line.leave(places.pop(0))
    assert turns(line, places) == [True]


def test_who_gives_up_is_in_nobodys_way() -> None:
    line, places = line_of("job", "layout", "job")
    line.leave(places.pop(1))
    assert turns(line, places) == [True, True]
    assert len(line) == 2
    assert not line.layout_is_next


def test_nobody_waits_in_an_empty_line() -> None:
    line, _ = line_of()
    assert len(line) == 0
    assert not line.layout_is_next
