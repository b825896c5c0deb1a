"""Very many very small sets of cells.

Most mistakes in the meaning of erasures need only a handful of cells that stand in an unlikely
relation, and are drowned by any more. Hypothesis spends milliseconds on each example; this is a
plain generator that makes thousands of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from stele.model.cells import Op
from tests.oracles.cells import Reference, sort_cells
from tests.oracles.strategies import World

TINY = World(
    name="tiny",
    rows=(b"row",),
    families=("f",),
    qualifiers=(b"q",),
    timestamps=(1, 2, 3),
    txns=(1, 2, 3, 4, 5, 6),
    ops=tuple(Op),
    values=(b"v",),
)

CELLS_MAX = 6


def tiny_references(sets: int, seed: int, references: int = 2) -> Iterator[list[Reference]]:
    """Sets of at most ``CELLS_MAX`` cells of one column, dealt out to some references."""
    dice = random.Random(seed)
    for _ in range(sets):
        cells = [TINY.cell(dice.randrange(TINY.size)) for _ in range(dice.randint(2, CELLS_MAX))]
        owners = [dice.randrange(references) for _ in cells]
        yield [
            Reference(
                sort_cells(
                    cell for cell, owner in zip(cells, owners, strict=True) if owner == number
                )
            )
            for number in range(references)
        ]
