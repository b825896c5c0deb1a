"""Pages end where they must."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stele.metastore.state import pages
from stele.metastore.state.pages import Page, as_many_as_fit, first_page
from stele.protocol.metastore_values import KeyValue


def item(number: int, size: int = 10) -> KeyValue:
    return KeyValue(f"/k{number}", bytes(size), 5, 4, 3, 2)


def test_what_fits_is_one_page() -> None:
    items = [item(1), item(2)]
    assert first_page(9, items, 0, keys_only=False) == Page(9, tuple(items), False)
    assert first_page(9, [], 0, keys_only=False) == Page(9, (), False)


def test_a_limit_ends_a_page_and_more_says_whether_something_is_behind() -> None:
    items = [item(1), item(2)]
    assert first_page(9, items, 1, keys_only=False) == Page(9, (items[0],), True)
    assert first_page(9, items, 2, keys_only=False).more is False


def test_the_bounds_hold_but_for_one_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 15)
    items = [item(number, 100) for number in range(3)]
    assert first_page(9, items, 0, keys_only=False) == Page(9, (items[0],), True)
    assert as_many_as_fit([None, *items]) == (None, items[0])
    monkeypatch.setattr(pages, "PAGE_ITEMS_MAX", 2)
    assert len(first_page(9, items, 50, keys_only=True).items) == 2


def test_keys_alone_have_no_values_and_weigh_nothing_else() -> None:
    (found,) = first_page(9, [item(1, 1 << 20)], 0, keys_only=True).items
    assert found == KeyValue("/k1", b"", 5, 4, 3, 2)


def test_no_more_is_read_than_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 10)
    read = []

    def source() -> Iterator[KeyValue]:
        for number in range(5):
            read.append(number)
            yield item(number)

    as_many_as_fit(source())
    assert read == [0]
