"""JSON that this program has written, read back: what it does not know is refused, never dropped.

An object that is read and written again would lose what a newer program had put into it. So a field
or a choice that nobody here knows is ``UnsupportedFormat``, which names it, and not damage: the
data is well, and a newer Stele can read it.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from stele.errors import Corruption, UnsupportedFormat

T = TypeVar("T")

NEWER: Final = "a newer Stele has written it: use that one; nothing was changed"
"""What to do with bytes of an unknown form."""

_UNKNOWN: Final = ("Object contains unknown field", "Invalid enum value")
"""How msgspec begins to speak of fields and choices that a type does not have."""


def decode_known(data: bytes, kind: type[T], what: str) -> T:
    """An object of a struct that forbids unknown fields; ``what`` it is, for the message."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        if str(error).startswith(_UNKNOWN):
            raise UnsupportedFormat(f"{what}: {error}; {NEWER}") from error
        raise Corruption(f"{what} cannot be read: {error}") from error
