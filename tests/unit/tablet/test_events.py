"""Who hears of a tablet's changes (T8–T12)."""

import pytest

from stele.model.ranges import RowRange
from stele.tablet.events import FragmentsReplaced, RowRangeChanged, TabletEventNotice, TabletEvents


class Ear:
    def __init__(self) -> None:
        self.heard: list[TabletEventNotice] = []

    def on_tablet_event(self, event: TabletEventNotice) -> None:
        self.heard.append(event)


SPLIT = RowRangeChanged("a", RowRange(b"", b"m"))
ADDED = FragmentsReplaced("b", (), ("f1",))


def test_t10_listeners_hear_their_tablet_or_all() -> None:
    events, one, everything = TabletEvents(), Ear(), Ear()
    events.add(one, "a")
    events.add(everything)
    events.dispatch([SPLIT, ADDED])
    assert one.heard == [SPLIT]
    assert everything.heard == [SPLIT, ADDED]


def test_t10_a_listener_registered_twice_hears_once_and_needs_two_removals() -> None:
    events, ear = TabletEvents(), Ear()
    events.add(ear, "a")
    events.add(ear)
    events.dispatch([SPLIT])
    assert ear.heard == [SPLIT]
    events.remove(ear)
    events.dispatch([SPLIT])
    assert len(ear.heard) == 2
    events.remove(ear, "a")
    events.dispatch([SPLIT])
    assert len(ear.heard) == 2


def test_t10_removal_must_balance() -> None:
    events, ear = TabletEvents(), Ear()
    with pytest.raises(AssertionError, match="more often"):
        events.remove(ear)


def test_t10_changes_from_inside_a_callback_take_effect_afterwards() -> None:
    events, late = TabletEvents(), Ear()

    class Adder(Ear):
        def on_tablet_event(self, event: TabletEventNotice) -> None:
            super().on_tablet_event(event)
            events.remove(self)
            events.add(late)

    adder = Adder()
    events.add(adder)
    events.dispatch([SPLIT, ADDED])
    assert adder.heard == [SPLIT]
    assert late.heard == [ADDED]


def test_t12_the_absorbed_side_of_a_join_hears_of_an_empty_range() -> None:
    events, ear = TabletEvents(), Ear()
    events.add(ear, "a")
    events.dispatch([RowRangeChanged("a", None)])
    assert ear.heard == [RowRangeChanged("a", None)]
