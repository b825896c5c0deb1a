"""One table inside an engine: its layout, its memory, what is being done to it.

The engine's lock guards everything that changes here. Readers take a :class:`TableView` without it:

* a layout is replaced, never changed;
* when a flush is published, the layout with the new references is shown *before* the memory goes.
  So a reader that finds the same layout before and after it took the memory has a complete pair;
  one that finds a new layout and old memory sees cells twice, which a merge does not mind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field
from functools import cached_property

from stele.errors import SteleError, TableNotFound
from stele.model.cells import TIMESTAMP_MAX
from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.storage.memory_table import MemoryTable, MemoryVersion
from stele.tablet.commit_ring import CommitRing
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from stele.tablet.events import FragmentsReplaced, RowRangeChanged, TabletEventNotice
from stele.tablet.families import FamilyNames
from stele.tablet.fragment_graph import FragmentGraph
from stele.tablet.range_map import RangeMap
from stele.tablet.truncations import Truncations
from stele.tablet.waiting_line import WaitingLine

Ranges = Callable[[], Iterable[RowRange]]
"""The rows that somebody reads; asked only where it matters which they are."""


@dataclass(frozen=True, eq=False)
class TableLayout:
    """The schema and the tablets of a table at one moment."""

    schema: Schema
    tablets: RangeMap[TabletConfig]
    served: ColumnSet = field(init=False)
    """The families that some group holds: removed ones are not served (T71)."""

    families: FamilyNames = field(init=False)
    """The names of families that requests may write to."""

    indexes: dict[tuple[str, ColumnSet | None], object] = field(default_factory=dict)
    """What point reads have made of tablets, by tablet and groups. It goes with the layout, and
    with it the files and the memory that it refers to."""

    before: InitVar[FamilyNames | None] = None
    """Of the layout before."""

    def __post_init__(self, before: FamilyNames | None) -> None:
        object.__setattr__(self, "served", self.schema.served)
        names = FamilyNames(self.schema, self._families()) if before is None else before
        object.__setattr__(self, "families", names.under(self.schema))

    def _families(self) -> set[str]:
        """The families that are in files."""
        references = (ref for config in self.tablets for ref in config.all_references)
        return {family for reference in references for family in reference.file.summary.families}

    @cached_property
    def sources_max(self) -> int:
        """References of one tablet and one column set, where there are most of them."""
        counts = (Counter(ref.columns for ref in config.references) for config in self.tablets)
        return max((max(count.values(), default=0) for count in counts), default=0)

    @cached_property
    def floor_max(self) -> int:
        """The highest floor of history of any tablet."""
        return max((config.history_floor for config in self.tablets), default=0)

    @cached_property
    def graph(self) -> FragmentGraph:
        """Which tablets refer to which files."""
        return FragmentGraph(self.tablets)


@dataclass(frozen=True, slots=True, eq=False)
class TableView:
    """What one read sees."""

    layout: TableLayout
    memory: MemoryVersion


class TableState:
    """See the module docstring for who may touch what."""

    def __init__(self, table: str, name: str, layout: TableLayout, clock: int):
        self.id = table
        self.name = name
        self.layout = layout
        self.memory = MemoryTable()
        self.counted_bytes = 0
        """Its part of the engine's count of memory."""
        self.rings = {config.id: CommitRing(clock) for config in layout.tablets}
        self.last_txn = clock
        """Of the last commit."""
        self.truncations = Truncations()
        """Reads below them are refused, though configs may not say so yet."""
        self.stable_txn = clock
        """Everything at or below is in fragments whose configs are saved."""
        self.flushing = False
        self.flushed_us: int | None = None
        """When the last flush ended well, by the monotonic clock."""
        self.merging = False
        self.was_read = False
        """Since memory was last merged: nobody else needs it to be in few runs."""
        self.compacting: set[str] = set()
        """Tablets with a compaction under way."""
        self.is_served = True
        """False once the table was dropped. If it comes back, that is another state."""
        self.takes_writes = True
        """False while the table is being dropped: what comes later must not be acknowledged."""
        self.changing_layout = False
        """A split, join or regrouping is under way; no second one starts."""
        self.line = WaitingLine()
        """Who waits to begin with its files or its layout."""
        self.undecided_txn: int | None = None
        """Of an import that is being decided: reads at or above it wait for the outcome."""
        self.undecided_why: SteleError | None = None
        """Why the outcome cannot be shown now: reads that would wait are told so."""

    def check_served(self) -> None:
        """Refuse to go on with a table that was dropped: what is here may be out of date."""
        if not self.is_served:
            raise TableNotFound(f"table {self.name!r} was dropped since it was opened")

    @property
    def keeps_flushes_away(self) -> bool:
        """Whether no flush may begin now. The lock is held.

        Who waits to change the layout keeps the next one away, but not while a compaction is in the
        way as well: that may take long, and commits would be refused when memory is full.
        """
        is_next = self.line.layout_is_next and not self.compacting
        return self.flushing or self.changing_layout or is_next

    def keeps_compactions_away(self, tablet: str) -> bool:
        """Whether no compaction of a tablet may begin now. The lock is held."""
        return tablet in self.compacting or self.changing_layout or self.line.layout_is_next

    @property
    def settled_txn(self) -> int:
        """Everything there is at or below it is in files that tablets show. The lock is held.

        Memory can be older than files: an import gets its txn when it is decided, and hides or
        replaces what was written before, wherever that is.
        """
        waiting = (self.memory.oldest_txn, self.undecided_txn)
        return min((txn - 1 for txn in waiting if txn is not None), default=TIMESTAMP_MAX)

    @property
    def floor_max(self) -> int:
        """Below it some row cannot be read any more, because rows were truncated."""
        noted = self.truncations.floor_max  # first: what goes from here is in the layout by then
        return max(noted, self.layout.floor_max)

    def floor_over(self, txn: int, ranges: Ranges) -> int:
        """Where the history of some rows begins, if that is above a txn; 0 if it is not.

        Ask after a view was taken, which may show less than there was. Takes no lock.
        """
        if txn >= self.floor_max:
            return 0
        wanted = tuple(ranges())
        noted = self.truncations.floor_of(wanted)  # first, as above
        tablets = self.layout.tablets
        floors = (config.history_floor for rows in wanted for config in tablets.overlapping(rows))
        floor = max(noted, *floors, 0)
        return floor if txn < floor else 0

    def view(self, *, for_a_read: bool = True) -> TableView:
        """A layout and a memory that belong together. Takes no lock."""
        if for_a_read:
            self.was_read = True
        while True:
            layout = self.layout
            memory = self.memory.version
            if self.layout is layout:
                return TableView(layout, memory)

    def publish(
        self, edit: ConfigEdit, schema: Schema | None = None
    ) -> tuple[TabletEventNotice, ...]:
        """Show a saved edit. Call it under the engine's lock; dispatch what it returns after."""
        before = by_id(self.layout.tablets)
        replaced = [before[config.id] for config in edit.written if config.id in before]
        tablets = self.layout.tablets.replace([*edit.removed, *replaced], edit.written)
        self._carry_rings(edit)
        changed = {config.id for config in (*edit.removed, *edit.written)}
        known = self.layout.indexes.copy().items()  # reads add to it
        kept = {key: one for key, one in known if key[0] not in changed}
        names = self.layout.families
        self.layout = TableLayout(schema or self.layout.schema, tablets, kept, names)
        return tuple(_events(before, edit))

    def _carry_rings(self, edit: ConfigEdit) -> None:
        """Split copies the ring, join takes the higher floor, truncation raises it."""
        parents = [(config, self.rings.pop(config.id, None)) for config in edit.removed]
        for config in edit.written:
            if config.id in self.rings:
                self.rings[config.id].raise_floor(config.history_floor)
                continue
            rings = [
                ring
                for parent, ring in parents
                if ring is not None and parent.rows.overlaps(config.rows)
            ]
            ring = rings[0].copy() if rings else CommitRing(config.clock)
            for other in rings[1:]:
                ring = CommitRing.joined(ring, other)
            self.rings[config.id] = ring


def _events(before: dict[str, TabletConfig], edit: ConfigEdit) -> list[TabletEventNotice]:
    events: list[TabletEventNotice] = []
    for config in edit.removed:
        heirs = [new for new in edit.written if new.rows.overlaps(config.rows)]
        smaller = [heir.rows for heir in heirs if heir.rows.start == config.rows.start]
        events.append(RowRangeChanged(config.id, smaller[0] if smaller else None))
    for config in edit.written:
        old = before.get(config.id)
        if old is None:
            events.append(RowRangeChanged(config.id, config.rows))
            continue
        removed, added = old.files() - config.files(), config.files() - old.files()
        if removed or added:
            events.append(
                FragmentsReplaced(config.id, tuple(sorted(removed)), tuple(sorted(added)))
            )
    return events
