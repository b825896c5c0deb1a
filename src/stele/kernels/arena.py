"""Large pieces of memory that are used again.

Memory that a process has never touched, or has given back, costs a page fault for every few
kilobytes: on a virtual machine more than copying the data. Whoever fills one large buffer after
the other (merging and encoding do) therefore gets its memory here. An arena goes back by itself
when nobody refers to it any more: blocks and Arrow buffers over it keep it alive.

Only sizes that come again and again are kept, and few of each: all that lies idle is bounded by
``IDLE_BYTES_MAX``.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

MIB = 1024 * 1024

KEPT = {1 * MIB: 4, 2 * MIB: 4, 4 * MIB: 4, 8 * MIB: 1}
"""How many idle pieces of each size are kept. Other sizes are rounded up to the next of these."""

ARENA_BYTES_MIN = min(KEPT) // 2
"""What is smaller, or larger than the largest, is not kept at all."""

IDLE_BYTES_MAX = sum(size * count for size, count in KEPT.items())

# Dropping the oldest from a full deque, appending and taking are single steps of the interpreter:
# no lock, which a piece that goes back in the middle of anything could not take.
_IDLE: dict[int, deque[pa.Buffer]] = {size: deque(maxlen=kept) for size, kept in KEPT.items()}


class Arena:
    """A piece of memory. Its content is whatever was there before."""

    __slots__ = ("_buffer", "_idle", "address", "size")

    def __init__(self, size: int):
        fitting = next((kept for kept in KEPT if size <= kept), 0)
        self._idle = _IDLE[fitting] if fitting and size >= ARENA_BYTES_MIN else None
        self.size = size if self._idle is None else fitting
        self._buffer = _take(self._idle, self.size)
        self.address: int = self._buffer.address

    def view(self) -> memoryview:
        """The memory, to be read and written. It does not keep the arena."""
        return memoryview(self._buffer).cast("B")

    def __del__(self) -> None:
        if self._idle is not None:
            self._idle.append(self._buffer)


def _take(idle: deque[pa.Buffer] | None, size: int) -> pa.Buffer:
    if idle is not None:
        try:
            return idle.pop()
        except IndexError:
            pass
    return pa.allocate_buffer(size)
