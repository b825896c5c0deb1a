"""Pieces of a file as a file."""

from __future__ import annotations

import io

import pytest

from stele.storage.file_pieces import FilePieces


def test_pieces_are_read_where_they_lie() -> None:
    file = FilePieces([(4, b"abcd"), (20, b"xyz")])
    assert file.readable()
    assert file.seekable()
    assert file.seek(5) == 5
    assert (file.read(2), file.tell()) == (b"bc", 7)
    assert file.read() == b"d"
    assert file.seek(-2, io.SEEK_END) == 21
    assert file.read(10) == b"yz"
    assert file.seek(-3, io.SEEK_CUR) == 20


def test_what_was_not_read_is_not_there() -> None:
    file = FilePieces([(4, b"abcd")])
    for position in (0, 8, 100):
        file.seek(position)
        with pytest.raises(OSError, match=f"{position} lies outside"):
            file.read(1)
