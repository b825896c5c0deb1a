"""Mutations of seed inputs, from one seeded generator: the same seed gives the same inputs.

Blind to any format, these are the classic moves of a mutational fuzzer: flip bits, plant numbers
at the edges of their types, cut, repeat, and splice two inputs. Several are stacked on one input.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

INPUT_BYTES_MAX = 1 << 20
"""Larger inputs are cut: they slow the loop down and find nothing that smaller ones do not."""

STACKED_MAX = 4
"""How many moves are made on one input at most."""

EDGES = tuple(
    {0, 1, 2, 7, 8, 9, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 1 << 16, 1 << 20, 1 << 30}
    | {0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1}
)

Move = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def mutations(seed: int, pool: Sequence[bytes]) -> Iterator[bytes]:
    """Endless inputs near those of the pool; only the seed and the pool decide which."""
    dice = random.Random(seed)
    while True:
        data = bytearray(dice.choice(pool))
        for _ in range(dice.randint(1, STACKED_MAX)):
            dice.choice(MOVES)(dice, data, pool)
        yield bytes(data[:INPUT_BYTES_MAX])


def _place(dice: random.Random, data: bytearray) -> int:
    return dice.randrange(len(data) + 1)


def _flip_bit(dice: random.Random, data: bytearray, _pool: Sequence[bytes]) -> None:
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _set_byte(dice: random.Random, data: bytearray, _pool: Sequence[bytes]) -> None:
    if data:
        data[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))


def _plant_edge(dice: random.Random, data: bytearray, _pool: Sequence[bytes]) -> None:
    width = dice.choice((1, 2, 4, 8))
    number = dice.choice(EDGES) % (1 << 8 * width)
    at = _place(dice, data)
    order = dice.choice(("little", "big"))
    data[at : at + width] = number.to_bytes(width, "little" if order == "little" else "big")


def _add_to_number(dice: random.Random, data: bytearray, _pool: Sequence[bytes]) -> None:
    width = dice.choice((1, 2, 4, 8))
    if len(data) >= width:
        at = dice.randrange(len(data) - width + 1)
        number = int.from_bytes(data[at : at + width], "little") + dice.randint(-16, 16)
        data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")


def _cut_end(dice: random.Random, data: bytearray, _pool: Sequence[bytes]) -> None:
    del data[_place(dice, data) :]


def _cut_middle(dice: random.Random, data: bytearray, _pool: Sequence[bytes]) -> None:
    at = _place(dice, data)
    del data[at : at + dice.randint(1, 64)]


def _repeat(dice: random.Random, data: bytearray, _pool: Sequence[bytes]) -> None:
    at = _place(dice, data)
    piece = data[at : at + dice.randint(1, 64)]
    data[at:at] = piece * dice.randint(1, 4)


def _insert(dice: random.Random, data: bytearray, _pool: Sequence[bytes]) -> None:
    at = _place(dice, data)
    data[at:at] = dice.randbytes(dice.randint(1, 16))


def _splice(dice: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    other = dice.choice(pool)
    data[_place(dice, data) :] = other[dice.randrange(len(other) + 1) :]


MOVES: tuple[Move, ...] = (
    _flip_bit,
    _set_byte,
    _plant_edge,
    _add_to_number,
    _cut_end,
    _cut_middle,
    _repeat,
    _insert,
    _splice,
)
