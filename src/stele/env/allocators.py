"""Giving memory that nobody uses back to the system.

What a large job frees stays with the allocator, which hopes for the next one. That is right while
jobs follow one another: memory that was never touched costs more than copying. When none follows,
it is memory that others could have.
"""

from __future__ import annotations

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's; other C libraries have none."""


def give_back() -> None:
    """Let the allocator of C return what it holds in reserve.

    For each GB that was freed in small pieces it takes some tenths of a second the first time, and
    some hundredths when there is nothing left; other threads may wait for memory meanwhile.
    """
    if _trim is not None:
        _trim(ctypes.c_size_t(0))
