"""Pages: as much of what was asked for as one answer should hold.

Both bounds are soft by one item, so that every page holds something and large values get through.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from stele.protocol.metastore_values import KeyValue

PAGE_ITEMS_MAX: Final = 10_000
PAGE_BYTES_MAX: Final = 1 << 20
"""A page ends behind the value that reaches this."""


class Page(msgspec.Struct, frozen=True):
    """A part of a range, in the order that was asked for."""

    index: int
    """The state that was read; ask for the next part at the same index."""
    items: tuple[KeyValue, ...]
    more: bool
    """Whether there are keys behind the last one."""


def first_page(index: int, found: Iterable[KeyValue], limit: int, *, keys_only: bool) -> Page:
    """The first keys of those that are found; a ``limit`` of 0 is none."""
    count_max = min(limit, PAGE_ITEMS_MAX) if limit > 0 else PAGE_ITEMS_MAX
    items: list[KeyValue] = []
    size = 0
    for item in found:
        if len(items) >= count_max or size >= PAGE_BYTES_MAX:
            return Page(index, tuple(items), True)
        items.append(_without_value(item) if keys_only else item)
        size += len(item.key) + (0 if keys_only else len(item.value))
    return Page(index, tuple(items), False)


def as_many_as_fit(found: Iterable[KeyValue | None]) -> tuple[KeyValue | None, ...]:
    """Single keys, missing ones among them, up to the value that fills the page."""
    items: list[KeyValue | None] = []
    size = 0
    for item in found:
        items.append(item)
        if item is not None:
            size += len(item.value)
            if size >= PAGE_BYTES_MAX:
                break
    return tuple(items)


def _without_value(item: KeyValue) -> KeyValue:
    return KeyValue(item.key, b"", item.index, item.created, item.version, item.session)
