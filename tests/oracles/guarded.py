"""Memory that ends where it says: reading or writing one byte further kills the process."""

from __future__ import annotations

import ctypes
import mmap

PAGE = mmap.PAGESIZE
_NO_ACCESS = 0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class GuardedPage:
    """One page of memory between two that nobody may touch."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, 3 * PAGE)
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self.start = ctypes.addressof(self._anchor) + PAGE
        self.end = self.start + PAGE
        for guard in (self.start - PAGE, self.end):
            assert _libc.mprotect(guard, PAGE, _NO_ACCESS) == 0

    def put_last(self, data: bytes) -> int:
        """Where the bytes begin that end with the page."""
        ctypes.memmove(self.end - len(data), data, len(data))
        return self.end - len(data)

    def put_first(self, data: bytes) -> int:
        """Where the bytes begin that begin with the page."""
        ctypes.memmove(self.start, data, len(data))
        return self.start

    def read(self, address: int, length: int) -> bytes:
        """Bytes of the page."""
        return ctypes.string_at(address, length)
