"""What the driver does with the answers of tasks: one commit, as mutations or as files.

A small write is one commit of the log, a large one an import; both have one txn, and both remember
the number of the write, if it has one. What there was to keep of the job is forgotten afterwards:
nobody asks for a job that has a random name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from stele.client.table import Table
from stele.env.failpoints import declare, failpoint
from stele.errors import Conflict, SteleError
from stele.model.numbered_writes import NumberedWrite
from stele.spark.erasures import LINES
from stele.spark.write_mutations import sorted_mutations
from stele.spark.write_task import WriteTask, WrittenPart, write_files
from stele.storage.fragment_format import FragmentInfo

AFTER_TASKS = declare("spark.write.after_tasks")
AFTER_COMMIT = declare("spark.write.after_commit")

MUTATION_BYTES_MAX = 8 << 20
"""Above this a write goes in as files: else the log would hold it, then memory, then files too."""

DRIVER_PART = 1 << 31
"""The part that the driver writes itself, of many small answers: no task has that number."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a write has become."""

    txn: int
    lines: int = 0
    cells: int = 0
    size_bytes: int = 0
    files: int = 0


def commit_parts(
    handle: Table,
    task: WriteTask,
    parts: Sequence[WrittenPart],
    write: NumberedWrite | None = None,
    mutation_bytes_max: int = MUTATION_BYTES_MAX,
) -> Committed:
    """Make what tasks have answered part of the table, at one txn; again: nothing more happens."""
    failpoint(AFTER_TASKS)
    batches = [batch for part in parts if (batch := part.mutations) is not None]
    files = [info for part in parts for info in part.files]
    _check_same(handle, task, _families(batches, files))
    small = sum(batch.nbytes for batch in batches) <= mutation_bytes_max
    if files or task.replaces or not small:
        if batches:
            tables = (pa.Table.from_batches([batch]).cast(LINES) for batch in batches)
            files += write_files(task, tables, DRIVER_PART, 0)
        txn = _commit_files(handle, task, files, write)
    else:
        txn = _commit_mutations(handle, batches, write)
    failpoint(AFTER_COMMIT)
    give_up(handle, task)
    return Committed(
        txn,
        lines=sum(part.lines for part in parts),
        cells=sum(part.cells for part in parts),
        size_bytes=sum(part.size_bytes for part in parts),
        files=len(files),
    )


def give_up(handle: Table, task: WriteTask) -> None:
    """Forget the job of a write. What is committed stays so; what is not never will be."""
    with suppress(SteleError):  # out of reach: its time runs out
        handle.core.backend.forget_import(task.ticket.job, task.ticket.token)


def _commit_files(
    handle: Table, task: WriteTask, files: list[FragmentInfo], write: NumberedWrite | None
) -> int:
    ticket = task.ticket
    return handle.core.backend.commit_import(
        ticket.job, ticket.token, files, write, replaces=task.replaces, columns=task.columns
    )


def _commit_mutations(
    handle: Table, batches: list[pa.RecordBatch], write: NumberedWrite | None
) -> int:
    core = handle.core
    tables = [pa.Table.from_batches([batch]).cast(LINES) for batch in batches]
    batch = sorted_mutations(pa.concat_tables([LINES.empty_table(), *tables]))
    deadline = core.world.deadline()
    if write is not None:
        return deadline.insist_in_line(
            lambda ticket: core.timely(deadline).apply_numbered(write, batch, ticket=ticket),
            core.backend.admission_ticket,
        )
    if not batch.num_rows:
        return core.backend.durable_txn()
    return core.start(batch, deadline).wait(deadline.remaining_us())


def _families(batches: Iterable[pa.RecordBatch], files: Iterable[FragmentInfo]) -> set[str]:
    """The families that a write has cells of."""
    found = {name for info in files for name in info.summary.families}
    for batch in batches:
        found.update(batch.column("family").dictionary.to_pylist())
    return found


def _check_same(handle: Table, task: WriteTask, families: Collection[str]) -> None:
    """Refuse what was made for another table, or for types that columns no longer have."""
    if handle.id != task.ticket.table:
        raise Conflict(
            f"table {handle.name!r} was dropped and made anew while the job ran: nothing was "
            f"written; run it again"
        )
    task.columns.check(handle.schema, handle.name, families)
