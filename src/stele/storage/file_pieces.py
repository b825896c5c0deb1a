"""Pieces of a file that have been read already, as a file for those who want one."""

from __future__ import annotations

import io
from collections.abc import Sequence

Piece = tuple[int, bytes]
"""Where the bytes begin in the file, and the bytes."""


class FilePieces(io.RawIOBase):
    """Some pieces of a file as if they were the whole of it."""

    def __init__(self, pieces: Sequence[Piece]):
        self._pieces = pieces
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        last, data = self._pieces[-1]
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: last + len(data)}
        self._position = origin[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        for offset, data in self._pieces:
            start = self._position - offset
            if 0 <= start < len(data):
                found = data[start:] if size < 0 else data[start : start + size]
                self._position += len(found)
                return found
        raise OSError(f"{self._position} lies outside of what was read")
