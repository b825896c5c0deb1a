"""Flushing: a durable prefix of a table's memory becomes fragments, and the memory goes.

The order of durable steps: fragment files, their directory, the configs that refer to them (and the
flush mark, in the same write), only then memory and log. Failing anywhere before the configs are
saved leaves everything as it was, plus files that nobody refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from stele.env.failpoints import declare, failpoint
from stele.errors import SteleError
from stele.kernels.block import Block
from stele.kernels.search import slice_rows
from stele.model.operations import OperationKind
from stele.model.ranges import RowRange
from stele.storage.group_merge import write_groups
from stele.storage.memory_table import FlushSet
from stele.storage.references import References
from stele.tablet.changes import AddFlush
from stele.tablet.config import ConfigEdit
from stele.tablet.config_writer import Answer
from stele.tablet.engine import Engine
from stele.tablet.fragment_store import PendingFiles
from stele.tablet.log_release import release_log
from stele.tablet.operations import RunningOperation
from stele.tablet.parallel import halves, write_parts
from stele.tablet.table_state import TableState

AFTER_FRAGMENTS = declare("tablet.flush.after_fragments")

FlushDone = Callable[[SteleError | None], None]


@dataclass(slots=True)
class Flush:
    """One flush of one table, from its start to its end."""

    engine: Engine
    state: TableState
    done: FlushDone
    memory: FlushSet | None = None
    files: PendingFiles | None = None
    operation: RunningOperation | None = None

    @staticmethod
    def start(engine: Engine, state: TableState, done: FlushDone) -> bool:
        """Begin, if there is something durable to flush and no flush of the table is under way.

        The work is done in a job. ``done`` hears how it ended; it is not called when this
        returns False.
        """
        flush = Flush(engine, state, done)
        with engine.lock:
            if state.keeps_flushes_away:
                return False
            flush.memory = state.memory.begin_flush(engine.durable_txn)
            if flush.memory is None:
                return False
            state.flushing = True
        flush.operation = engine.operations.begin(
            OperationKind.FLUSH, state.name, bytes_in=flush.memory.size_bytes
        )
        engine.world.tasks.spawn(f"flush {state.name}", flush.run)
        return True

    def run(self) -> None:
        """Write the fragments and hand the change over."""
        assert self.memory is not None
        self.files = self.engine.fragments.begin()
        blocks = self.memory.blocks()
        parts = [partial(self._write, blocks, rows) for rows in halves(blocks)]
        write_parts(self.engine.world.tasks, f"flush {self.state.name}", parts, self._written)

    def _write(self, blocks: Sequence[Block], rows: RowRange) -> References:
        assert self.files is not None
        inside = [slice_rows(block, rows) for block in blocks]
        return write_groups(self.files.write, self.state.id, self.state.layout.schema, inside)

    def _written(self, written: References | SteleError) -> None:
        if isinstance(written, SteleError):
            self._give_up(written)
            return
        failpoint(AFTER_FRAGMENTS)
        assert self.memory is not None
        assert self.operation is not None
        self.operation.wrote(reference.file for reference in written)
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
            assert self.operation is not None
            self.files.settle()
            release_log(self.engine)
            self.operation.done()
            self.done(None)
        else:
            assert isinstance(answer, SteleError), "a flush always fits"
            self._give_up(answer)

    def _give_up(self, error: SteleError) -> None:
        assert self.memory is not None
        assert self.files is not None
        assert self.operation is not None
        with self.engine.lock:
            self.state.memory.abandon_flush(self.memory)
            self.state.flushing = False
            self.engine.work_ended.notify_all()
        self.files.settle()
        self.operation.failed(error)
        self.done(error)


def _span(blocks: Sequence[Block]) -> RowRange:
    """A range that holds all rows of some blocks."""
    first = min(block.row(0) for block in blocks)
    last = max(block.row(block.count - 1) for block in blocks)
    return RowRange(first, last + b"\x00")
