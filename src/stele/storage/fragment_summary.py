"""Gathers the summary of a file while its row groups are written, and checks their order."""

from __future__ import annotations

import numpy as np

from stele.errors import InvalidCells
from stele.kernels.block import Block
from stele.kernels.fragment_survey import (
    OP_COUNTS,
    PUT_TIMESTAMP_MAX,
    PUT_TIMESTAMP_MIN,
    ROWS,
    TXN_MAX,
    TXN_MIN,
    VERSIONS_MAX,
    new_state,
    survey,
)
from stele.model.cells import Op
from stele.storage.fragment_format import Erasures, FragmentSummary


class SummaryBuilder:
    """Sees every cell of a file once, in order. Used by one writer."""

    def __init__(self) -> None:
        self._state = new_state()
        self._first_row: bytes | None = None
        self._last: Block | None = None
        self._family_cells: dict[str, int] = {}
        self.cells = 0

    def add(self, block: Block) -> None:
        """Add cells; ``InvalidCells`` if one of them is not above the one in front of it."""
        if not block.count:
            return
        before = block if self._last is None else self._last
        if before.families != block.families:
            families = tuple(sorted({*before.families, *block.families}))
            before, block = before.with_families(families), block.with_families(families)
        counts = np.zeros(len(block.families), np.int64)
        last = -1 if self._last is None else before.count - 1
        wrong = survey(before.descriptor, last, block.descriptor, self._state, counts)
        if wrong >= 0:
            raise InvalidCells(
                f"cell {self.cells + wrong} of the fragment, in row {block.row(wrong)[:64]!r}, is "
                f"not above the cell before it"
            )
        for family, count in zip(block.families, counts.tolist(), strict=True):
            if count:
                self._family_cells[family] = self._family_cells.get(family, 0) + count
        if self._first_row is None:
            self._first_row = block.row(0)
        self._last = block
        self.cells += block.count

    def build(self) -> FragmentSummary:
        """The summary of all cells seen; there must have been one."""
        assert self._first_row is not None
        assert self._last is not None
        state = self._state.tolist()
        counts = state[OP_COUNTS : OP_COUNTS + len(Op)]
        puts = counts[Op.PUT]
        return FragmentSummary(
            cells=self.cells,
            rows=state[ROWS],
            first_row=self._first_row,
            last_row=self._last.row(self._last.count - 1),
            families=tuple(sorted(self._family_cells)),
            txn_min=state[TXN_MIN],
            txn_max=state[TXN_MAX],
            put_timestamps=(state[PUT_TIMESTAMP_MIN], state[PUT_TIMESTAMP_MAX]) if puts else None,
            erasures=Erasures(*counts[: Op.PUT]),
            versions_max=state[VERSIONS_MAX],
        )
