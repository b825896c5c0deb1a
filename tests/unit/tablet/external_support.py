"""Compactions as an executor would carry them out, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.model.ranges import EVERYTHING, RowRange
from stele.spark.compact_task import write_unit
from stele.storage.compaction_work import (
    CompactedUnit,
    CompactionUnit,
    CompactionWork,
    UnitOutcome,
)
from stele.storage.import_files import ImportTicket, writer_names

HOUR_US = 3_600_000_000
UNLIMITED = 1 << 60

_ATTEMPTS = count()


def planned(
    table: EmbeddedTable, rows: RowRange = EVERYTHING, bytes_max: int = UNLIMITED
) -> CompactionWork:
    return table.plan_compaction(rows, bytes_max, HOUR_US)


def carried_out(
    backend: EmbeddedBackend, ticket: ImportTicket, work: CompactionWork
) -> list[CompactedUnit]:
    """Every unit merged and written."""
    names = writer_names(ticket.token, 0, next(_ATTEMPTS))

    def files_of(unit: CompactionUnit) -> CompactedUnit:
        outputs = write_unit(
            backend.store.world.files, work.location, names, work.table, work.schema, unit
        )
        return CompactedUnit(unit.rows, unit.columns, unit.inputs, outputs)

    return [files_of(unit) for unit in work.units]


def compact_elsewhere(
    backend: EmbeddedBackend, table: EmbeddedTable, job: str = "job"
) -> tuple[UnitOutcome, ...]:
    """A whole compaction of one round."""
    ticket = table.begin_import(job, HOUR_US)
    work = planned(table)
    outcomes = published(table, ticket, carried_out(backend, ticket, work))
    table.release_pin(work.lease)
    table.commit_import(job, ticket.token, ())
    return outcomes


def published(
    table: EmbeddedTable, ticket: ImportTicket, units: Iterable[CompactedUnit]
) -> tuple[UnitOutcome, ...]:
    return table.publish_compaction(ticket.job, ticket.token, tuple(units))
