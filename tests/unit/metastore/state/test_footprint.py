"""What an entry did, collected."""

from __future__ import annotations

from stele.metastore.commands import Done
from stele.metastore.state.footprint import Footprint
from stele.protocol.metastore_values import Change


def test_a_key_comes_once_with_its_last_change() -> None:
    footprint = Footprint(7)
    footprint.changes["/a"] = Change("/a", b"1")
    footprint.changes["/b"] = Change("/b", b"1")
    footprint.changes["/a"] = Change("/a", None)
    effects = footprint.effects(Done(7))
    assert effects.index == 7
    assert effects.changes == (Change("/a", None), Change("/b", b"1"))
    assert (effects.granted, effects.opened, effects.ended) == ((), (), ())
