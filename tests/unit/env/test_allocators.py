"""Memory that was freed goes back to the system when it is asked to."""

from __future__ import annotations

from pathlib import Path

import pytest

from stele.env import allocators

PIECE_BYTES = 4_000
"""Too large for Python's own allocator, too small to be mapped by itself."""
PIECES = 20_000


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "RssAnon":
            return int(rest.split()[0]) * 1024
    raise AssertionError("/proc/self/status does not say RssAnon")


@pytest.mark.skipif(allocators._trim is None, reason="only glibc can be asked for it")
def test_what_was_freed_is_given_back() -> None:
    pieces = [bytes([number % 251]) * PIECE_BYTES for number in range(PIECES)]
    last = pieces.pop()  # what lies below it cannot just be cut off
    held = resident_bytes()
    pieces.clear()
    allocators.give_back()
    assert held - resident_bytes() > PIECES * PIECE_BYTES // 2
    assert len(last) == PIECE_BYTES
