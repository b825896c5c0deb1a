"""Doing one piece of work in parts, each a job of its own, and going on when all are done.

Merging and encoding are what flushes and compactions spend their time on, and both release the
GIL: two parts over different rows keep two cores busy. More than that would only take them from
readers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from stele.env.ports import Tasks
from stele.errors import SteleError
from stele.kernels.block import Block
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.references import References

PARTS_MAX = 2
PART_CELLS_MIN = 100_000
"""Less than this a part does not pay for its thread and its file."""

Part = Callable[[], References]


def write_parts(
    tasks: Tasks,
    name: str,
    parts: Sequence[Part],
    done: Callable[[References | SteleError], None],
) -> None:
    """Run the parts, the last in this thread; ``done`` gets all references or one of the errors."""
    gathering = _Gathering(len(parts), done)
    for number, part in enumerate(parts[:-1]):
        tasks.spawn(f"{name}, part {number + 1}", partial(gathering.run, part))
    gathering.run(parts[-1])


class _Gathering:
    """Collects what the parts wrote; whoever is last reports."""

    def __init__(self, parts: int, done: Callable[[References | SteleError], None]):
        self._left = parts
        self._done = done
        self._lock = threading.Lock()
        self._references: list[References] = []
        self._error: SteleError | None = None

    def run(self, part: Part) -> None:
        written: References = ()
        error: SteleError | None = None
        try:
            written = part()
        except SteleError as failure:
            error = failure
        with self._lock:
            self._references.append(written)
            self._error = self._error or error
            self._left -= 1
            last = self._left == 0
        if last:
            self._done(self._error or tuple(ref for refs in self._references for ref in refs))


def cut(cells: int, middle: bytes | None) -> tuple[RowRange, ...]:
    """The row ranges to work on: one, or two on both sides of a row near the middle."""
    if middle is None or not middle or cells < PARTS_MAX * PART_CELLS_MIN:
        return (EVERYTHING,)
    return RowRange(b"", middle), RowRange(middle)


def halves(blocks: Sequence[Block]) -> tuple[RowRange, ...]:
    """Row ranges with about as many cells of some sorted blocks in each.

    Each block speaks for its cells with its middle row, whether all blocks have the same rows or
    each has rows of its own.
    """
    cells = sum(block.count for block in blocks)
    middle, before = b"", 0
    for row, count in sorted((block.row(block.count // 2), block.count) for block in blocks):
        middle, before = row, before + count
        if 2 * before >= cells:
            break
    return cut(cells, middle)
