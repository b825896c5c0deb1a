"""What the victims of the kill loop write: a course of operations that follows from a seed.

Each writer has rows of its own and works on one operation at a time. So the state of its rows after
its last acknowledged operation is known, and only one more operation may or may not have happened.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from stele.model.mutations import MutationBatch

WRITERS = 3
ROWS_PER_WRITER = 60
VALUE_BYTES_MAX = 300
ERASURE_CHANCE = 0.3
FAMILIES = ("f", "g")
QUALIFIER = b"q"

Rows = dict[str, str]
"""``row/family`` and the value there; what is erased is not in it."""


@dataclass(frozen=True)
class Operation:
    """Some rows change at once: ``None`` erases a whole row."""

    changes: tuple[tuple[str, str | None], ...]

    def batch(self) -> MutationBatch:
        batch = MutationBatch()
        for row, value in self.changes:
            batch.erase_row(row.encode())
            for family in FAMILIES if value is not None else ():
                batch.put(row.encode(), family, QUALIFIER, f"{family}{value}".encode())
        return batch

    def apply(self, rows: Rows) -> Rows:
        """The rows afterwards."""
        after = dict(rows)
        for row, value in self.changes:
            for family in FAMILIES:
                after.pop(f"{row}/{family}", None)
                if value is not None:
                    after[f"{row}/{family}"] = f"{family}{value}"
        return after


def operation(seed: int, writer: int, number: int) -> Operation:
    """The operation of a writer with this number: one to three rows, all over the table."""
    dice = random.Random(f"{seed}/{writer}/{number}")
    rows = dice.sample(range(ROWS_PER_WRITER), dice.choice((1, 1, 2, 3)))
    return Operation(
        tuple(
            (
                f"{row:03d}-{writer}",
                None if dice.random() < ERASURE_CHANCE else f"{number}." + "x" * _size(dice),
            )
            for row in rows
        )
    )


def _size(dice: random.Random) -> int:
    return dice.randrange(VALUE_BYTES_MAX)
