"""Our file handles in the shape of Python file objects, for pyarrow.

``pyarrow`` takes any object with ``write``, ``flush``, ``tell`` and ``closed`` as a sink, and one
with ``read``, ``seek``, ``tell`` and ``closed`` as a source. Nothing is buffered or copied here.
Closing an adapter leaves the handle open: its owner still has to sync it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from stele.env.ports import RandomFile, WritableFile

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class FileSink:
    """A ``WritableFile`` as a binary file object that can only be written."""

    def __init__(self, file: WritableFile) -> None:
        self._file = file
        self.closed = False

    def write(self, data: ReadableBuffer) -> int:
        before = self._file.position
        self._file.write(data)
        return self._file.position - before

    def tell(self) -> int:
        return self._file.position

    def flush(self) -> None:
        """Nothing is held back here; durability is ``WritableFile.sync``."""

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


class FileSource:
    """A ``RandomFile`` as a binary file object that can only be read."""

    def __init__(self, file: RandomFile) -> None:
        self._file = file
        self._size = file.size()
        self._position = 0
        self.closed = False

    def read(self, length: int = -1) -> bytes:
        wanted = self._size - self._position if length < 0 else length
        data = self._file.pread(self._position, max(wanted, 0))
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing to flush."""

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
