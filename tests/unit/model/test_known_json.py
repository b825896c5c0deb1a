"""What a newer program wrote is told from damage, and named."""

from __future__ import annotations

from enum import Enum

import msgspec
import pytest

from stele.errors import Corruption, UnsupportedFormat
from stele.model.known_json import decode_known


class Colour(Enum):
    RED = "red"


class Thing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int
    colour: Colour = Colour.RED


def test_what_is_known_is_read() -> None:
    assert decode_known(b'{"size": 3, "colour": "red"}', Thing, "a thing") == Thing(3)


@pytest.mark.parametrize(
    ("data", "named"),
    [(b'{"size": 3, "weight": 4}', "weight"), (b'{"size": 3, "colour": "blue"}', "blue")],
)
def test_what_is_not_known_is_named(data: bytes, named: str) -> None:
    with pytest.raises(UnsupportedFormat, match=f"a thing: .*{named}.* newer Stele"):
        decode_known(data, Thing, "a thing")


@pytest.mark.parametrize("data", [b"", b"{", b'{"size": "x"}', b'{"size": 3, "colour": "\xff"}'])
def test_damage_is_corruption(data: bytes) -> None:
    with pytest.raises(Corruption, match="a thing cannot be read"):
        decode_known(data, Thing, "a thing")
