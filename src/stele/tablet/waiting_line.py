"""Who is next: jobs of a table's files and changes of its layout keep each other away.

A change of layout wants to be alone, and flushes and compactions follow one upon another, as may
changes of layout. So whoever has to wait stands in a line, and nobody begins before somebody of the
other kind who came first:

    job, job, layout, job      both jobs may begin, side by side; the layout after them; the last
                               job after the layout

Those who would not wait, which is what the store does by itself, begin as long as no layout is
first in the line.

The engine's lock guards it.
"""

from __future__ import annotations


class Place:
    """Somebody's place in a line."""

    __slots__ = ("is_layout",)

    def __init__(self, *, is_layout: bool) -> None:
        self.is_layout = is_layout


class WaitingLine:
    """That of one table."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: list[Place] = []

    def __len__(self) -> int:
        return len(self._places)

    def join(self, place: Place) -> None:
        """Go to the end of the line."""
        self._places.append(place)

    def leave(self, place: Place) -> None:
        """Begin what one waited for, or give up, perhaps before one was in the line."""
        if place in self._places:
            self._places.remove(place)

    def is_turn_of(self, place: Place) -> bool:
        """Whether nobody of the other kind came before."""
        for other in self._places:
            if other is place:
                return True
            if other.is_layout or place.is_layout:
                return False
        raise AssertionError("who asks stands in the line")

    @property
    def layout_is_next(self) -> bool:
        """Whether a change of layout waits for what is under way, and for nobody else.

        It may be asked without the lock, for an answer that may be over: so it looks once.
        """
        first = next(iter(self._places), None)
        return first is not None and first.is_layout
