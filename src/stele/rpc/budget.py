"""A limit in bytes that many share."""

from __future__ import annotations


class ByteBudget:
    """Bytes that all connections of a server share, so that many small hoards stay bounded."""

    __slots__ = ("bytes_max", "bytes_used")

    def __init__(self, bytes_max: int):
        self.bytes_max = bytes_max
        self.bytes_used = 0

    def has_room(self, size: int) -> bool:
        """Whether so many bytes still fit."""
        return self.bytes_used + size <= self.bytes_max
