"""Numbered writes: the last number of each writer is committed with the data, in either form.

A small write is one commit of the log that also holds the hidden cell of its writer. A large one is
an import, and the cell is one more file of it, prepared, decided and shown with the others. Whoever
writes looks first, and nobody writes for the same writer in between; so a write that comes again,
in whichever form, is answered with the txn of the commit that has its number or a higher one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import pyarrow as pa

from stele.env.failpoints import declare, failpoint
from stele.errors import SteleError
from stele.kernels.block import Block
from stele.kernels.order import first_disorder
from stele.model.cells import cells_to_batch
from stele.model.columns import HIDDEN_COLUMNS
from stele.model.groups import HIDDEN_GROUP
from stele.model.mutations import insert_record
from stele.model.numbered_writes import (
    LastWrite,
    NumberedWrite,
    check_numbered,
    check_writer,
    writer_cell,
    writer_record,
    writer_row,
)
from stele.model.validation import validate_mutations
from stele.storage.admission_line import AdmissionTicket
from stele.storage.fragment_format import FragmentInfo
from stele.storage.group_merge import fragment_options
from stele.storage.import_columns import ImportColumns
from stele.storage.references import Reference, References
from stele.tablet.engine import Engine
from stele.tablet.import_gate import await_import
from stele.tablet.imports import Imports
from stele.tablet.table_state import TableState

AFTER_APPLY = declare("tablet.numbered.after_apply")
AFTER_IMPORT = declare("tablet.numbered.after_import")

LOCKS = 64
"""Writes of one writer are made one after the other; others seldom wait for them."""


class NumberedWrites:
    """The numbered writes of one store. Threads share it."""

    def __init__(self, engine: Engine, imports: Imports):
        self._engine = engine
        self._imports = imports
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    def last(self, state: TableState, writer: str) -> LastWrite | None:
        """The last write of a writer, durable; ``None`` if it never wrote, or very long ago."""
        check_writer(writer)
        while True:
            await_import(self._engine, state, self._engine.committed_txn)
            last = self._engine.retries.last(state, writer_row(writer), writer.encode())
            if last is None or last[1] <= self._engine.durable_txn:
                return None if last is None else LastWrite(*last)
            # Not durable yet: what is queued now shares its fate, and the disk may refuse both.
            with suppress(SteleError):
                self._engine.advance_clock().wait()
            if self._engine.failure is not None:
                raise self._engine.failure

    def apply(
        self,
        state: TableState,
        write: NumberedWrite,
        mutations: pa.RecordBatch,
        ticket: AdmissionTicket | None = None,
    ) -> int:
        """Commit mutations, of any tablets, in one commit of the log, unless it was done; the txn.

        No mutations are a write too: it is remembered that it was made. A ``ticket`` is one of
        the engine: whoever waits with it does so without keeping other writers out.
        """
        with self._first_time(state, write) as known:
            if known is not None:
                return known
            if mutations.num_rows:
                validate_mutations(mutations, state.layout.schema, order_check=first_disorder)
            record = writer_record(write, self._now_us())
            traced = insert_record(mutations, record)
            txn = self._engine.apply_to(state, traced, ticket=ticket, trusted=True).wait()
            failpoint(AFTER_APPLY)
            return txn

    def commit_import(
        self,
        state: TableState,
        job: str,
        token: str,
        files: Sequence[FragmentInfo],
        write: NumberedWrite,
        *,
        replaces: bool = False,
        columns: ImportColumns | None = None,
    ) -> int:
        """Commit an import, unless the write was done; the txn. The job is over in both cases.

        The writer remembers what was done, so nobody has to remember the job.
        """
        with self._first_time(state, write) as known:
            if known is None:
                commit = partial(
                    self._imports.commit,
                    state,
                    job,
                    token,
                    files,
                    replaces=replaces,
                    columns=columns,
                )
                txn = self._traced(state, write, commit)
            else:
                txn = known
        self._imports.forget(state, job, token)
        return txn

    def _traced(
        self, state: TableState, write: NumberedWrite, commit: Callable[[References], int]
    ) -> int:
        """Commit with a file that remembers the write."""
        cell = writer_cell(write, self._now_us())
        with self._engine.fragments.writing() as pending:
            infos = pending.write(
                [Block.from_batch(cells_to_batch([cell]))],
                table=state.id,
                options=fragment_options(HIDDEN_GROUP),
            )
            traces = tuple(Reference(info, columns=HIDDEN_COLUMNS) for info in infos)
            txn = commit(traces)
        failpoint(AFTER_IMPORT)
        return txn

    @contextmanager
    def _first_time(self, state: TableState, write: NumberedWrite) -> Iterator[int | None]:
        """Alone with a writer: the txn of its write if that is done already."""
        check_numbered(write)
        with self._locks[hash(write.writer) % LOCKS]:
            last = self.last(state, write.writer)
            yield last.txn if last is not None and last.sequence >= write.sequence else None

    def _now_us(self) -> int:
        """Never below that of an earlier write: of two cells of a writer the newer one stays."""
        return max(self._engine.world.clock.now_us(), self._engine.committed_txn)
