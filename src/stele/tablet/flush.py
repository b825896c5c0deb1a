"""Flushing: a durable prefix of a table's memory becomes fragments, and the memory goes.

The order of durable steps: fragment files, their directory, the configs that refer to them (and the
flush mark, in the same write), only then memory and log. Failing anywhere before the configs are
saved leaves everything as it was, plus files that nobody refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from stele.env.failpoints import declare, failpoint
from stele.errors import SteleError
from stele.kernels.block import Block
from stele.kernels.compact import CompactionPlan, compaction_rule
from stele.kernels.merger import merge_parts
from stele.kernels.search import slice_rows
from stele.kernels.sources import Source
from stele.model.groups import HIDDEN_GROUP, Group
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.storage.fragment_options import FragmentOptions
from stele.storage.memory_table import FlushSet
from stele.storage.references import Reference, References
from stele.tablet.changes import AddFlush
from stele.tablet.config import ConfigEdit
from stele.tablet.config_writer import Answer
from stele.tablet.engine import Engine
from stele.tablet.fragment_store import PendingFiles
from stele.tablet.log_release import release_log
from stele.tablet.parallel import cut, write_parts
from stele.tablet.retries import hidden_cells
from stele.tablet.table_state import TableState

AFTER_FRAGMENTS = declare("tablet.flush.after_fragments")

KEEP_EVERYTHING = CompactionPlan(horizon=-1)
"""A flush drops nothing: below no txn is anything superfluous."""

MERGED_CELLS = 65_536
"""Cells merged and copied at a time: the memory of one copy serves for the next, and memory that
was never touched before is dear."""

FlushDone = Callable[[SteleError | None], None]


@dataclass(slots=True)
class Flush:
    """One flush of one table, from its start to its end."""

    engine: Engine
    state: TableState
    done: FlushDone
    memory: FlushSet | None = None
    files: PendingFiles | None = None

    @staticmethod
    def start(engine: Engine, state: TableState, done: FlushDone) -> bool:
        """Begin, if there is something durable to flush and no flush of the table is under way.

        The work is done in a job. ``done`` hears how it ended; it is not called when this
        returns False.
        """
        flush = Flush(engine, state, done)
        with engine.lock:
            if state.flushing or state.changing_layout:
                return False
            flush.memory = state.memory.begin_flush(engine.durable_txn)
            if flush.memory is None:
                return False
            state.flushing = True
        engine.world.tasks.spawn(f"flush {state.name}", flush.run)
        return True

    def run(self) -> None:
        """Write the fragments and hand the change over."""
        assert self.memory is not None
        self.files = self.engine.fragments.begin()
        blocks = self.memory.blocks()
        parts = [partial(self._write, blocks, rows) for rows in _parts(blocks)]
        write_parts(self.engine.world.tasks, f"flush {self.state.name}", parts, self._written)

    def _write(self, blocks: Sequence[Block], rows: RowRange) -> References:
        assert self.files is not None
        inside = [slice_rows(block, rows) for block in blocks]
        return write_groups(self.files, self.state.id, self.state.layout.schema, inside)

    def _written(self, written: References | SteleError) -> None:
        if isinstance(written, SteleError):
            self._give_up(written)
            return
        failpoint(AFTER_FRAGMENTS)
        assert self.memory is not None
        removed = self.state.layout.schema.removed
        dropped = _span(self.memory.blocks()) if removed else None
        change = AddFlush(written, self.memory.txn, dropped)
        self.engine.change(self.state, change, self._saved, shown=self._shown)

    def _shown(self) -> None:
        """The layout refers to the fragments: now the memory may go. The lock is held."""
        assert self.memory is not None
        self.state.memory.finish_flush(self.memory)
        self.state.stable_txn = max(self.state.stable_txn, self.memory.txn)
        self.state.flushing = False
        self.engine.recount(self.state)
        self.engine.work_ended.notify_all()

    def _saved(self, answer: Answer) -> None:
        if isinstance(answer, ConfigEdit):
            assert self.files is not None
            self.files.settle()
            release_log(self.engine)
            self.done(None)
        else:
            assert isinstance(answer, SteleError), "a flush always fits"
            self._give_up(answer)

    def _give_up(self, error: SteleError) -> None:
        assert self.memory is not None
        assert self.files is not None
        with self.engine.lock:
            self.state.memory.abandon_flush(self.memory)
            self.state.flushing = False
            self.engine.work_ended.notify_all()
        self.files.settle()
        self.done(error)


def _span(blocks: Sequence[Block]) -> RowRange:
    """A range that holds all rows of some blocks."""
    first = min(block.row(0) for block in blocks)
    last = max(block.row(block.count - 1) for block in blocks)
    return RowRange(first, last + b"\x00")


def _parts(blocks: Sequence[Block]) -> tuple[RowRange, ...]:
    """Cut at the row that has about as many cells before it as behind it.

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


def write_groups(
    files: PendingFiles, table: str, schema: Schema, blocks: Sequence[Block]
) -> References:
    """Write sorted blocks as one fragment for each group that has cells in them."""
    references: list[Reference] = []
    for group in schema.stored_groups:
        infos = files.write(
            merged(blocks, schema, group), table=table, options=fragment_options(group)
        )
        columns = schema.column_set(group)
        references.extend(Reference(info, columns=columns) for info in infos)
    return tuple(references)


def merged(blocks: Sequence[Block], schema: Schema, group: Group) -> Iterator[Block]:
    """All cells of one group, in order. Row erasures go into every group but the hidden one."""
    columns = schema.column_set(group)
    if group is HIDDEN_GROUP:
        blocks = [hidden for block in blocks if (hidden := hidden_cells(block)).count]
    sources = [Source(block, columns) for block in blocks]
    for selection in merge_parts(sources, compaction_rule(KEEP_EVERYTHING), MERGED_CELLS):
        yield from selection.gather()


def fragment_options(group: Group) -> FragmentOptions:
    """How files of a group are written."""
    return FragmentOptions(compression=group.compression, block_cells=group.block_cells)
