"""Memory that is used again, and what is not kept."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from stele.kernels.arena import IDLE_BYTES_MAX, KEPT, MIB, Arena


def test_the_memory_of_one_arena_serves_the_next() -> None:
    first = Arena(3 * MIB)
    address, size = first.address, first.size
    first.view()[:4] = b"used"
    del first
    second = Arena(2 * MIB + 1)
    assert (second.address, second.size) == (address, size)


def test_two_at_once_are_apart() -> None:
    one, two = Arena(MIB), Arena(MIB)
    assert abs(one.address - two.address) >= MIB


def test_whoever_holds_a_buffer_over_it_holds_the_memory() -> None:
    arena = Arena(MIB)
    arena.view()[:5] = b"bytes"
    buffer = pa.foreign_buffer(arena.address, 5, arena)
    address = arena.address
    del arena
    others = [Arena(MIB) for _ in range(2 * KEPT[MIB])]
    assert address not in {other.address for other in others}
    assert buffer.to_pybytes() == b"bytes"


@pytest.mark.parametrize("size", [1, MIB // 2 - 1, 8 * MIB + 1])
def test_other_sizes_are_exact_and_not_kept(size: int) -> None:
    assert Arena(size).size == size


def test_what_lies_idle_is_bounded() -> None:
    before = pa.total_allocated_bytes()
    arenas = [Arena(size) for size in KEPT for _ in range(4 * KEPT[size])]
    assert pa.total_allocated_bytes() > IDLE_BYTES_MAX
    del arenas
    gc.collect()
    assert pa.total_allocated_bytes() - before <= IDLE_BYTES_MAX
