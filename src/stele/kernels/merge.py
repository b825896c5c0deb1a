"""The plain merge: every cell of every source once, in cell order. What flushes and tiers do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stele.kernels.block import Block
from stele.kernels.merge_kernel import KEEP_ALL
from stele.kernels.merger import Rule, merge_whole
from stele.kernels.selection import Selection
from stele.kernels.sources import Source

MERGE_RULE = Rule(KEEP_ALL, np.zeros(1, np.int64), lambda _: True)
"""Everything stays. Sources must not be restricted to columns: this looks at no family."""


def merge(blocks: Sequence[Block]) -> Selection:
    """All cells of sorted blocks, each once, in cell order."""
    return merge_whole([Source(block) for block in blocks], MERGE_RULE)
