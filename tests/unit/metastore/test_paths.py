"""What is a path, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument, LimitExceeded
from stele.metastore.paths import (
    KEY_BYTES_MAX,
    bounds,
    check_directory,
    check_key,
    check_range,
    directories_of,
    directory_range,
    prefix_end,
    selection,
)
from stele.protocol.metastore_values import KeyRange

SEGMENT_CHARACTERS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@%"
)
segments = st.text(SEGMENT_CHARACTERS, min_size=1, max_size=5).filter(
    lambda text: text not in (".", "..")
)
paths = st.lists(segments, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


@pytest.mark.parametrize("key", ["/a", "/a/b", "/.a", "/...", "/a..b", "/%41", "/a:1@b", "/~"])
def test_a_key(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "must begin with"),
        ("a", "must begin with"),
        ("/", "only a directory ends"),
        ("/a/", "only a directory ends"),
        ("/a//b", "no name between"),
        ("//", "only a directory ends"),
        ("/.", "'.' is not a name"),
        ("/a/../b", "'..' is not a name"),
        ("/a\0b", "letters, digits"),
        ("/a\n", "letters, digits"),
        ("/ol\u00e9", "letters, digits"),
        ("/cafe\u0301", "letters, digits"),
        ("/a\\b", "letters, digits"),
    ],
)
def test_not_a_key(key: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        check_key(key)


@pytest.mark.parametrize("key", [b"/a", 7, None])
def test_a_key_is_text(key: object) -> None:
    with pytest.raises(InvalidArgument, match=f"a key is text, not {type(key).__name__}"):
        check_key(key)  # type: ignore[arg-type]


def test_the_length_is_bounded() -> None:
    check_key("/" + "x" * (KEY_BYTES_MAX - 1))
    with pytest.raises(LimitExceeded, match=str(KEY_BYTES_MAX)):
        check_key("/" + "x" * KEY_BYTES_MAX)


def test_the_error_shows_the_key_in_ascii_and_not_all_of_it() -> None:
    with pytest.raises(InvalidArgument) as raised:
        check_key("/\u202e" + "x" * 5000)
    assert str(raised.value).isascii()
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("path", ["", "a/", "/a", "//", "/../", "/a//"])
def test_not_a_directory(path: str) -> None:
    with pytest.raises(InvalidArgument):
        check_directory(path)


def test_a_slash_at_the_end_selects_what_is_below() -> None:
    assert selection("/a") == KeyRange("/a")
    assert selection("/a/") == directory_range("/a/") == KeyRange("/a/", "/a0")
    assert selection("/") == KeyRange("/", "0")


@given(directory=paths, key=paths)
def test_a_directory_holds_exactly_what_begins_with_it(directory: str, key: str) -> None:
    start, end = bounds(directory_range(directory + "/"))
    assert (start <= key < end) is key.startswith(directory + "/")
    assert (directory + "/" in directories_of(key)) is key.startswith(directory + "/")


@given(paths)
def test_the_root_holds_every_key(key: str) -> None:
    start, end = bounds(selection("/"))
    assert start <= check_key(key) < end


@given(st.text(st.characters(max_codepoint=127), min_size=1), st.text(max_size=3))
def test_the_end_of_a_prefix_is_the_least_text_above_it(prefix: str, more: str) -> None:
    if not prefix.strip("\x7f"):
        with pytest.raises(InvalidArgument, match="nothing can be above"):
            prefix_end(prefix)
        return
    end = prefix_end(prefix)
    assert end > prefix + "\x7f" * 5
    assert end.isascii()
    if more.isascii():
        assert prefix + more < end
    # No text between: whatever is below the end either begins like the prefix or is below it.
    before = end[:-1] + chr(ord(end[-1]) - 1) + "\x7f" * 5
    assert before.startswith(prefix) or before < prefix


def test_the_end_of_a_prefix_of_the_last_character() -> None:
    with pytest.raises(InvalidArgument, match="nothing can be above"):
        prefix_end("\x7f\x7f")
    assert prefix_end("/a\x7f\x7f") == "/b"


def test_directories_of_a_key() -> None:
    assert directories_of("/a/b/c") == ["/", "/a/", "/a/b/"]
    assert directories_of("/a") == ["/"]


@pytest.mark.parametrize(
    "selected",
    [
        KeyRange("/a/"),
        KeyRange("/b", "/a"),
        KeyRange("/a", "/a"),
        KeyRange("/a", "/\u00e4"),
        KeyRange("/a", "/" + "x" * KEY_BYTES_MAX),
    ],
)
def test_a_range_that_is_none(selected: KeyRange) -> None:
    with pytest.raises(InvalidArgument):
        check_range(selected)


def test_a_range_need_not_end_at_a_path() -> None:
    selected = KeyRange("/a\0", "/a0")
    assert check_range(selected) is selected
    assert bounds(KeyRange("/a")) == ("/a", "/a\0")
