"""Compactions that somebody else carries out: planned here, shown here, and nothing in between.

Unlike a compaction of our own, one of these may take hours, and nobody stops the table for it. So

* *planning* names the exact references, under a lease: their files stay, whatever becomes of the
  tablets. What may be dropped is decided here and now (horizon, purge, whether anything is left to
  hide); all of that stays right for ever, because a horizon only rises and later cells have
  higher txns;
* *publishing* compares: a tablet takes the new files iff it still shows everything that was
  merged, else it stays as it is, and they are garbage. Splits, joins and regroupings in between do
  not matter. That is a change of configs like any other, so of two compactions of the same files
  one is shown, and nothing that came meanwhile is lost.

The order of planning is what makes the horizon safe. First the horizon, then what is not in files
yet, then META: whatever META does not show at that moment was in memory or came later, and is above
what is dropped for (``TableState.settled_txn``).

New files carry the token of a job, which keeps the collector away from them until the job ends. It
is the record of an import (:mod:`stele.tablet.imports`) that has no files of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from stele.coordination.ports import Jobs
from stele.coordination.records import JobState
from stele.env.failpoints import declare, failpoint
from stele.errors import Conflict, InvalidArgument, NotFound
from stele.kernels.compact import CompactionPlan
from stele.model.cells import TIMESTAMP_MAX
from stele.model.column_set import ColumnSet
from stele.model.operations import OperationKind
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_json import schema_to_json
from stele.storage.compaction_work import (
    CompactedUnit,
    CompactionUnit,
    CompactionWork,
    UnitOutcome,
)
from stele.storage.fragment_format import COLUMNS_LAYOUT
from stele.storage.import_files import token_of
from stele.storage.read_plan import KeySample
from stele.storage.reference_streams import runs
from stele.storage.references import Reference, References, restrict
from stele.tablet.changes import Refused, SwapReferences
from stele.tablet.compaction import RUN_FILE_BYTES_MIN, group_plan
from stele.tablet.config import TabletConfig
from stele.tablet.engine import Engine
from stele.tablet.pins import Pins
from stele.tablet.restrictions import group_references
from stele.tablet.table_state import TableState
from stele.tablet.tablet_sizes import row_samples

AFTER_LEASE = declare("tablet.external_compaction.after_lease")
AFTER_CHECK = declare("tablet.external_compaction.after_check")
AFTER_SWAP = declare("tablet.external_compaction.after_swap")

SAMPLES_PER_UNIT_MAX = 256
"""Keys of a unit in the work: a tablet of 16 GiB can be cut into parts of 64 MiB."""


@dataclass(frozen=True, slots=True)
class ExternalCompactions:
    """Those of one store. Threads share it."""

    engine: Engine
    jobs: Jobs
    pins: Pins
    horizon_of: Callable[[TableState], int]
    """Gives the table's horizon, made durable."""
    undisturbed: Callable[[], AbstractContextManager[None]]
    """Keeps the collector of garbage and changes of the catalog out."""

    def plan(
        self, state: TableState, rows: RowRange, bytes_max: int, ttl_us: int
    ) -> CompactionWork:
        """What there is to do in the tablets that overlap ``rows``, up to so many bytes.

        At least one tablet with work is in it, however large, if there is one.
        """
        horizon = self.horizon_of(state)
        with self.engine.lock:
            horizon = min(horizon, state.settled_txn)
        with self.pins.holding_files(state, ttl_us) as (lease, configs):
            failpoint(AFTER_LEASE)
            schema = state.layout.schema
            units: list[CompactionUnit] = []
            looked_at, size_bytes, next_row = 0, 0, None
            for config in configs:
                if not config.rows.overlaps(rows):
                    continue
                if size_bytes >= bytes_max:
                    next_row = config.rows.start
                    break
                found = list(self._units(schema, config, horizon))
                units += found
                size_bytes += sum(unit.size_bytes for unit in found)
                looked_at += 1
            return CompactionWork(
                location=self.pins.location,
                table=state.id,
                name=state.name,
                schema_json=schema_to_json(schema).decode(),
                lease=lease,
                units=tuple(units),
                tablets=looked_at,
                next_row=next_row,
            )

    def _units(
        self, schema: Schema, config: TabletConfig, horizon: int
    ) -> Iterator[CompactionUnit]:
        for group in schema.stored_groups:
            inputs = group_references(config, schema, group)
            columns = schema.column_set(group)
            near = {ref for ref in config.references if ref.columns.overlaps(columns)}
            plan = group_plan(self.engine, group, horizon=horizon, rooted=near == set(inputs))
            typed = bool(schema.typed_columns(group))
            if not inputs or is_settled(inputs, columns, plan, typed):
                continue
            yield CompactionUnit(
                rows=config.rows,
                group=group.name,
                columns=columns,
                inputs=inputs,
                horizon=plan.horizon,
                rooted=plan.rooted,
                clauses=plan.clauses,
                samples=self._samples(inputs),
            )

    def _samples(self, inputs: References) -> tuple[KeySample, ...]:
        """Rows of all inputs in order, each with the bytes up to the next."""
        store = self.engine.fragments
        found = sorted(
            (sample for ref in inputs for sample in row_samples(store, ref)),
            key=lambda sample: sample.row,
        )
        step = max(1, -(-len(found) // SAMPLES_PER_UNIT_MAX))
        parts = (found[at : at + step] for at in range(0, len(found), step))
        return tuple(
            KeySample(part[0].row, sum(sample.size_bytes for sample in part)) for part in parts
        )

    def publish(
        self, state: TableState, job: str, token: str, units: Sequence[CompactedUnit]
    ) -> tuple[UnitOutcome, ...]:
        """Show finished units, each wherever it still fits.

        ``Conflict`` if the job has ended: its files may be gone.
        """
        with self.undisturbed():
            state.check_served()  # it may have been dropped meanwhile
            self._check_running(state, job, token)
            with self.engine.operations.during(
                OperationKind.COMPACTION, state.name, detail=f"job {job}"
            ) as operation:
                inputs = {ref.file for unit in units for ref in unit.inputs}
                operation.account(bytes_in=sum(file.total_bytes for file in inputs))
                operation.wrote(info for unit in units for info in unit.outputs)
                for unit in units:
                    self._check_files(state, token, unit)
                failpoint(AFTER_CHECK)
                outcomes = tuple(self._swap(state, unit) for unit in units)
                lost = [reason for outcome in outcomes for reason in outcome.lost]
                if lost and not any(outcome.swapped for outcome in outcomes):
                    operation.cancelled(lost[0])
                return outcomes

    def _check_running(self, state: TableState, job: str, token: str) -> None:
        found = next((one for one in self.jobs.jobs(state.id) if one.name == job), None)
        if found is None:
            raise NotFound(f"table {state.name!r} has no job {job!r}: begin it again")
        if found.token != token:
            raise InvalidArgument(
                f"another attempt at job {job!r} has begun since: this one can publish nothing"
            )
        if found.state is not JobState.RUNNING:
            raise Conflict(f"job {job!r} is {found.state.value}: it can publish nothing more")

    def _check_files(self, state: TableState, token: str, unit: CompactedUnit) -> None:
        for info in unit.outputs:
            metadata = self.engine.fragments.open(info).reader.index.metadata
            if token_of(info.name) != token or metadata.table != state.id:
                raise InvalidArgument(f"{info.name} was not written for this attempt at the job")

    def _swap(self, state: TableState, unit: CompactedUnit) -> UnitOutcome:
        schema = state.layout.schema
        groups = tuple((group.name, schema.column_set(group)) for group in schema.stored_groups)
        outputs = tuple(Reference(info, unit.rows, unit.columns) for info in unit.outputs)
        change = SwapReferences(unit.rows, unit.inputs, outputs, groups)
        answer = self.engine.change_and_wait(state, change)
        failpoint(AFTER_SWAP)
        if isinstance(answer, Refused):
            return UnitOutcome(0, (answer.reason,))
        layout = state.layout
        written = {config.id for config in answer.written}
        here = [
            config
            for config in layout.tablets.overlapping(unit.rows)
            if restrict(unit.inputs, config.rows)
        ]
        lost = [
            config.id
            for config in here
            if config.id not in written and change.swapped(config) is None
        ]
        reasons = tuple(f"{name} no longer shows all that was merged" for name in lost)
        return UnitOutcome(len(here) - len(lost), reasons)


def is_settled(inputs: References, columns: ColumnSet, plan: CompactionPlan, typed: bool) -> bool:
    """Whether a compaction would only write the same again, as far as can be told from outside."""
    if len(runs(inputs)) > 1:
        return False
    small = [ref for ref in inputs if ref.file.total_bytes < RUN_FILE_BYTES_MIN]
    if small and len(inputs) > 1:
        return False
    return all(_is_as_new(ref, columns, plan, typed) for ref in inputs)


def _is_as_new(ref: Reference, columns: ColumnSet, plan: CompactionPlan, typed: bool) -> bool:
    summary = ref.file.summary
    oldest = summary.put_timestamps[0] if summary.put_timestamps else TIMESTAMP_MAX
    return (
        ref.columns == columns
        and ref.shows_whole_file
        and ref.txn is None
        and summary.is_clean
        and (ref.file.layout == COLUMNS_LAYOUT or not typed)
        and not any(limit == 0 and oldest < cutoff for limit, cutoff in plan.clauses)
    )
