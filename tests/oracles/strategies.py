"""Random cells that are hard on kernels.

A cell is drawn as one integer, taken apart digit by digit over small pools, which is quick to draw
and shrinks well. Pools are small, so that equal keys, replaced versions and erasures that hit
something are the rule; each *world* is adversarial in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN, Cell, Op
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from tests.oracles.cells import INT64_MAX, Reference, sort_cells


@dataclass(frozen=True)
class World:
    """The pools that the parts of a cell are taken from."""

    name: str
    rows: Sequence[bytes]
    families: Sequence[str]
    qualifiers: Sequence[bytes]
    timestamps: Sequence[int]
    txns: Sequence[int]
    ops: Sequence[Op]
    values: Sequence[bytes] = (b"", b"v", b"\x00" * 9, b"0123456789" * 20)

    def __repr__(self) -> str:
        return f"World({self.name!r})"

    @property
    def size(self) -> int:
        """How many different cells there are."""
        product = 1
        for pool in (self.rows, self.families, self.qualifiers):
            product *= len(pool)
        for numbers in (self.timestamps, self.txns, self.ops):
            product *= len(numbers)
        return product

    def cell(self, number: int) -> Cell:
        """The cell of a number; erasures get the names that their kind must have.

        The value follows from the coordinates: where a reference replaces the txns of its cells,
        some become the same cell, and must not differ then.
        """
        number, row = divmod(number, len(self.rows))
        number, family = divmod(number, len(self.families))
        number, qualifier = divmod(number, len(self.qualifiers))
        number, timestamp = divmod(number, len(self.timestamps))
        number, txn = divmod(number, len(self.txns))
        kind = self.ops[number % len(self.ops)]
        value = self.values[(row + qualifier + timestamp) % len(self.values)]
        return Cell(
            self.rows[row],
            "" if kind == Op.ERASE_ROW else self.families[family],
            b"" if kind in (Op.ERASE_ROW, Op.ERASE_FAMILY) else self.qualifiers[qualifier],
            self.timestamps[timestamp],
            value if kind == Op.PUT else b"",
            kind,
            self.txns[txn],
        )


PREFIX = b"a prefix that is longer than any word " * 2
MOSTLY_PUTS = (*[Op.PUT] * 6, Op.ERASE_ROW, Op.ERASE_FAMILY, Op.ERASE_COLUMN, Op.ERASE_CELL)
SOME_TXNS = tuple(range(1, 8))

WORLDS = (
    World(
        name="bytes",
        rows=(b"", b"\x00", b"\x00\x00", b"a", b"a\x00", b"a\xff", b"\xff", b"\xff\xff" * 4),
        families=("f", "g"),
        qualifiers=(b"", b"\x00", b"q", b"q\x00", b"\xff" * 8, b"\xff" * 9),
        timestamps=(0, 1, 2),
        txns=SOME_TXNS,
        ops=MOSTLY_PUTS,
    ),
    World(
        name="prefixes",
        rows=tuple(PREFIX + tail for tail in (b"", b"\x00", b"x", b"12345678", b"12345679x")),
        families=("family",),
        qualifiers=tuple(PREFIX + tail for tail in (b"", b"a", b"b" * 8, b"b" * 9)),
        timestamps=(-1, 0, 1),
        txns=SOME_TXNS,
        ops=MOSTLY_PUTS,
    ),
    World(
        name="extremes",
        rows=(b"r", b"s"),
        families=("f",),
        qualifiers=(b"q",),
        timestamps=(TIMESTAMP_MIN, TIMESTAMP_MIN + 1, -1, 0, TIMESTAMP_MAX - 1, TIMESTAMP_MAX),
        txns=(-INT64_MAX - 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX),
        ops=MOSTLY_PUTS,
    ),
    World(
        name="families",
        rows=(b"r", b"s"),
        families=tuple(f"family{number}" for number in range(9)),
        qualifiers=(b"", b"q"),
        timestamps=(1, 2),
        txns=SOME_TXNS,
        ops=MOSTLY_PUTS,
    ),
    World(
        name="versions",
        rows=(b"row",),
        families=("f",),
        qualifiers=(b"p", b"q"),
        timestamps=tuple(range(12)),
        txns=tuple(range(1, 20)),
        ops=(*[Op.PUT] * 12, Op.ERASE_COLUMN, Op.ERASE_CELL),
    ),
    World(
        name="dense",
        rows=(b"row",),
        families=("f",),
        qualifiers=(b"q",),
        timestamps=(1, 2, 3),
        txns=SOME_TXNS,
        ops=(Op.PUT, Op.ERASE_COLUMN, Op.ERASE_CELL),
        values=(b"v",),
    ),
    World(
        name="erasures",
        rows=(b"row", b"rows"),
        families=("f", "g"),
        qualifiers=(b"p",),
        timestamps=tuple(range(8)),
        txns=tuple(range(1, 16)),
        ops=(Op.PUT, Op.PUT, Op.ERASE_ROW, Op.ERASE_FAMILY, Op.ERASE_COLUMN, Op.ERASE_CELL),
    ),
)

CELLS_MAX = 60
SMALL_MAX = 12
"""Half of the sets are small: where everything is erased twice, no single mistake shows."""


@st.composite
def cell_sets(draw: st.DrawFn, world: World, max_size: int = CELLS_MAX) -> list[Cell]:
    """Distinct cells of one world, in cell order."""
    size = draw(st.integers(0, SMALL_MAX) | st.integers(0, max_size))
    numbers = draw(st.lists(st.integers(0, world.size - 1), min_size=size, max_size=size))
    return sort_cells(map(world.cell, numbers))


@st.composite
def references(
    draw: st.DrawFn, world: World, max_references: int = 6, *, restricted: bool = False
) -> list[Reference]:
    """One set of cells dealt out to several references; some cells may be in more than one.

    Restricted references act on column sets of their own and may carry the txn of their cells.
    """
    count = draw(st.integers(0, max_references))
    cells = draw(cell_sets(world)) if count else []
    hands: list[list[Cell]] = [[] for _ in range(count)]
    size = len(cells)
    cards = draw(st.lists(st.integers(0, 8 * count), min_size=size, max_size=size))
    for cell, card in zip(cells, cards, strict=True):
        hands[card % count].append(cell)
        if card >= 7 * count:
            hands[(card + 1) % count].append(cell)
    dealt = []
    for hand in map(sort_cells, hands):
        columns, txn = ALL_COLUMNS, None
        if restricted:
            columns = draw(column_sets(world))
            txn = draw(st.sampled_from([None, None, None, *world.txns]))
        stored = hand if txn is None else sort_cells(replace(cell, txn=0) for cell in hand)
        dealt.append(Reference(stored, columns, txn))
    return dealt


def column_sets(world: World) -> st.SearchStrategy[ColumnSet]:
    """Finite sets of families and complements of such."""
    names = st.frozensets(st.sampled_from([*world.families, "another"]), max_size=3)
    return st.builds(ColumnSet, names, st.booleans())


worlds = st.sampled_from(WORLDS)
