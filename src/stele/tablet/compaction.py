"""Compaction: some references of a tablet and group become one, and what nobody needs goes.

What may be dropped depends on the horizon, and on whether the inputs are *rooted*: whether they
are all there is of the tablet's rows and the group's columns. What is in memory is no input, and it
can be older than what an import has put into files; so nothing is dropped for the sake of anything
above the oldest txn that is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from stele.env.failpoints import declare, failpoint
from stele.errors import SteleError, Unavailable
from stele.kernels.block import Block
from stele.kernels.compact import CompactionPlan
from stele.kernels.sources import Source
from stele.model.groups import HIDDEN_GROUP, Group
from stele.model.operations import OperationKind
from stele.model.ranges import RowRange
from stele.storage.compaction_merge import compacted
from stele.storage.group_merge import fragment_options
from stele.storage.reference_streams import runs
from stele.storage.references import Reference, References
from stele.tablet.changes import Refused, ReplaceReferences
from stele.tablet.compaction_policy import CompactionChoice, SourceFacts, choose_compaction
from stele.tablet.config import TabletConfig
from stele.tablet.config_writer import Answer
from stele.tablet.engine import Engine
from stele.tablet.fragment_store import FragmentStore, PendingFiles
from stele.tablet.operations import RunningOperation
from stele.tablet.parallel import cut, write_parts
from stele.tablet.read_sources import stream_sources
from stele.tablet.restrictions import group_references
from stele.tablet.table_state import TableState
from stele.tablet.tablet_sizes import reference_bytes

AFTER_FRAGMENTS = declare("tablet.compaction.after_fragments")

RUN_FILE_BYTES_MIN = 4 << 20
"""Files of this size are worth opening on their own, even if they continue one another."""

GIVEN_UP = "the store is being closed: the compaction was given up"

CompactionDone = Callable[[SteleError | None], None]


def _never() -> bool:
    return False


@dataclass(slots=True)
class Compaction:
    """One compaction, from its start to its end."""

    engine: Engine
    state: TableState
    config: TabletConfig
    group: str
    inputs: References
    horizon_of: Callable[[], int]
    """Gives the table's horizon, made durable: asked in the job, because that takes time."""
    done: CompactionDone
    is_cancelled: Callable[[], bool] = _never
    """Asked before each block: a compaction can be done again, a closing store should not wait."""
    files: PendingFiles | None = None
    operation: RunningOperation | None = None
    horizon: int = 0
    settled_txn: int = 0
    """Up to here everything there was at the start is in files."""

    def start(self) -> bool:
        """Begin, unless the tablet is being compacted or is changing, or has changed."""
        with self.engine.lock:
            if not self.state.is_served or self.state.keeps_compactions_away(self.config.id):
                return False
            current = self.state.layout.tablets.find(self.config.rows.start)
            if current is None or not set(self.inputs) <= set(current.references):
                return False
            self.config = current
            self.settled_txn = self.state.settled_txn
            self.state.compacting.add(self.config.id)
        self.operation = self.engine.operations.begin(
            OperationKind.COMPACTION,
            self.state.name,
            self.config.id,
            detail=f"group {self.group}",
            bytes_in=sum(reference.file.total_bytes for reference in self.inputs),
        )
        self.engine.world.tasks.spawn(f"compact {self.config.id}", self.run)
        return True

    def run(self) -> None:
        """Write the output and hand the change over."""
        self.files = self.engine.fragments.begin()
        try:
            self.horizon = self.horizon_of()
            parts = [partial(self._write, rows) for rows in self._parts()]
        except SteleError as error:
            self._end(error)
            return
        write_parts(self.engine.world.tasks, f"compact {self.config.id}", parts, self._written)

    def _parts(self) -> tuple[RowRange, ...]:
        """Cut where the largest input has its middle row group."""
        largest = max(self.inputs, key=lambda reference: reference.file.summary.cells)
        fragment = self.engine.fragments.open(largest.file)
        groups = fragment.groups(largest.rows)
        middle = fragment.reader.index.first_row(groups[len(groups) // 2]) if groups else None
        return cut(sum(ref.file.summary.cells for ref in self.inputs), middle)

    def _write(self, rows: RowRange) -> References:
        assert self.files is not None
        schema = self.state.layout.schema
        group = schema.group(self.group)
        infos = self.files.write(
            self._merged(group, rows),
            table=self.state.id,
            options=fragment_options(group),
            typed=schema.typed_columns(group),
        )
        columns = schema.column_set(group)
        return tuple(Reference(info, self.config.rows, columns) for info in infos)

    def _written(self, written: References | SteleError) -> None:
        if isinstance(written, SteleError):
            self._end(written)
            return
        failpoint(AFTER_FRAGMENTS)
        assert self.operation is not None
        self.operation.wrote(reference.file for reference in written)
        change = ReplaceReferences(self.config.id, self.inputs, written)
        self.engine.change(self.state, change, self._answered)

    def _merged(self, group: Group, rows: RowRange) -> Iterator[Block]:
        schema = self.state.layout.schema
        everything = group_references(self.config, schema, group)
        plan = group_plan(
            self.engine,
            group,
            horizon=min(self.horizon, self.settled_txn),
            rooted=set(everything) == set(self.inputs),
        )
        stream_of = partial(_stream, self.engine.fragments)
        columns = schema.column_set(group)
        for block in compacted(self.inputs, rows, columns, plan, stream_of):
            if self.is_cancelled():
                raise Unavailable(GIVEN_UP)
            yield block

    def _answered(self, answer: Answer) -> None:
        """Saved, or refused because the tablet changed meanwhile: then the files are garbage."""
        if isinstance(answer, Refused):
            assert self.operation is not None
            self.operation.cancelled(answer.reason)
        self._end(answer if isinstance(answer, SteleError) else None)

    def _end(self, error: SteleError | None) -> None:
        assert self.files is not None
        self.files.settle()
        self._report(error)
        with self.engine.lock:
            self.state.compacting.discard(self.config.id)
            self.engine.work_ended.notify_all()
        self.done(error)

    def _report(self, error: SteleError | None) -> None:
        """Say how the operation ended, unless it was refused, which has been said."""
        assert self.operation is not None
        if error is None:
            self.operation.done()
        elif isinstance(error, Unavailable) and self.is_cancelled():
            self.operation.cancelled(GIVEN_UP)
        else:
            self.operation.failed(error)


def _stream(store: FragmentStore, reference: Reference) -> Iterator[Source]:
    """The blocks of a reference in order, not through the cache: each is used once."""
    fragment = store.open(reference.file)
    groups = fragment.groups(reference.rows)
    return stream_sources(fragment, reference, fragment.reader.read_block, groups)


def group_plan(engine: Engine, group: Group, *, horizon: int, rooted: bool) -> CompactionPlan:
    """What a compaction of a group may drop now, given the horizon of its table."""
    return CompactionPlan(
        # Nobody reads hidden cells as they were.
        horizon=engine.durable_txn if group is HIDDEN_GROUP else horizon,
        # Nor does anything show through where one of them goes.
        rooted=group is HIDDEN_GROUP or rooted,
        clauses=(() if group.purge is None else group.purge.cutoffs(engine.world.clock.now_us())),
    )


def plan_compaction(
    engine: Engine, state: TableState, config: TabletConfig, *, busy: bool = False
) -> tuple[str, References] | None:
    """The best compaction of a tablet, over all its groups."""
    best: tuple[CompactionChoice, str, References] | None = None
    schema = state.layout.schema
    for group in schema.stored_groups:
        sources = _sources(group_references(config, schema, group))
        facts = [
            SourceFacts(
                str(place),
                sum(reference_bytes(engine.fragments, reference) for reference in source),
                sum(reference.file.total_bytes for reference in source),
            )
            for place, source in enumerate(sources)
        ]
        choice = choose_compaction(facts, engine.options.compaction, busy=busy)
        if choice is not None and (
            best is None or choice.benefit_per_byte > best[0].benefit_per_byte
        ):
            chosen = tuple(ref for place in choice.names for ref in sources[int(place)])
            best = (choice, group.name, chosen)
    return None if best is None else (best[1], best[2])


def _sources(references: References) -> list[list[Reference]]:
    """What a read meets as one source each: large files that follow each other count as one.

    Rewriting those would make no read quicker. Small ones count for themselves, or a table that is
    written in the order of its rows would end as very many files.
    """
    large = [
        reference
        for reference in references
        if reference.shows_whole_file and reference.file.size >= RUN_FILE_BYTES_MIN
    ]
    return [*runs(large), *([reference] for reference in references if reference not in large)]
