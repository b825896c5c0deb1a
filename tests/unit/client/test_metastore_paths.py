"""What a path selects."""

from __future__ import annotations

import pytest

from stele.client.metastore_paths import check_text, check_value, contains, selection
from stele.errors import InvalidArgument
from stele.metastore import paths
from stele.protocol.metastore_values import KeyRange


@pytest.mark.parametrize("path", ["/", "/a/", "/a/b-~/", "/a", "/a/b"])
def test_it_selects_what_the_server_would(path: str) -> None:
    assert selection(path) == paths.selection(path)


def test_an_end_makes_a_range() -> None:
    assert selection("/a", "/b") == KeyRange("/a", "/b")
    with pytest.raises(InvalidArgument, match="not bytes"):
        selection(b"/a")  # type: ignore[arg-type]


def test_keys_are_text() -> None:
    assert check_text("/a") == "/a"
    with pytest.raises(InvalidArgument, match=r"a key is text, .* not bytes: b'/a'"):
        check_text(b"/a")


def test_membership_in_a_range() -> None:
    assert contains(selection("/a/"), "/a/b")
    assert not contains(selection("/a/"), "/a")
    assert not contains(selection("/a/"), "/a0")
    assert contains(selection("/a"), "/a")
    assert not contains(selection("/a"), "/a/b")


def test_values_are_bytes() -> None:
    assert check_value(bytearray(b"x")) == check_value(memoryview(b"x")) == b"x"
    with pytest.raises(InvalidArgument, match="not str"):
        check_value("x")
