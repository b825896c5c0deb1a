"""The plain model of one table: every cell ever committed, in lists, row by row.

The model is told the txn of every commit and never numbers one itself. A read looks at all cells
of a row and follows the definitions (``tests.oracles``). Where the answer depends on when a purge
policy ran, the model knows two bounds instead of one answer:

    may see    all puts that no erasure hides and no newer put replaces
    must see   those of them that no compaction so far was allowed to purge
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from stele.model.cells import TIMESTAMP_MAX, Cell, Op
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from tests.oracles import cells as oracle
from tests.oracles.reads import filtered, rows_of

CellKey = tuple[bytes, str, bytes, int, int]
"""Row, family, qualifier, timestamp and txn: what tells a put from all others."""


def key_of(cell: Cell) -> CellKey:
    return (cell.row, cell.family, cell.qualifier, cell.timestamp, cell.txn)


def stamped(batch: MutationBatch, txn: int) -> list[Cell]:
    """The cells that a batch becomes when it is committed."""
    return [
        replace(
            cell,
            txn=txn,
            timestamp=txn
            if cell.op is Op.PUT and cell.timestamp == TIMESTAMP_MAX
            else cell.timestamp,
        )
        for cell in batch.cells()
    ]


@dataclass
class ModelTable:
    """One table. ``rows`` holds what was committed, in no particular order."""

    schema: Schema
    rows: dict[bytes, list[Cell]] = field(default_factory=dict)
    purged: set[CellKey] = field(default_factory=set)
    """Puts that some compaction was allowed to drop."""
    floor: int = 0
    """Reads below are refused: something was truncated."""
    snapshots: dict[str, int] = field(default_factory=dict)
    moments: list[int] = field(default_factory=list)
    """Txns that were read at: each must give the same answer for as long as it is readable."""

    def copy(self) -> ModelTable:
        return ModelTable(
            self.schema,
            {row: list(cells) for row, cells in self.rows.items()},
            set(self.purged),
            self.floor,
            moments=list(self.moments),
        )

    # Changes.

    def commit(self, batch: MutationBatch, txn: int) -> None:
        for cell in stamped(batch, txn):
            self.rows.setdefault(cell.row, []).append(cell)

    def truncate(self, rows: RowRange, floor: int) -> None:
        for row in [row for row in self.rows if rows.contains(row)]:
            del self.rows[row]
        self.floor = max(self.floor, floor)

    def remove_family(self, family: str) -> None:
        for row, cells in self.rows.items():
            self.rows[row] = [cell for cell in cells if cell.family != family]

    def allow_purge(self, horizon: int, now_us: int) -> None:
        """A compaction ran: remember what it may have dropped, whichever files it had.

        It may have had newer versions but not the erasures that hide them, so what counts is how
        many newer puts there ever were, up to the horizon.
        """
        for cells in self.rows.values():
            puts = [cell for cell in cells if cell.op is Op.PUT and cell.txn <= horizon]
            for put in puts:
                group = self.schema.group_of(put.family)
                if group is None or group.purge is None:
                    continue
                newer = {
                    other.timestamp
                    for other in puts
                    if (other.family, other.qualifier) == (put.family, put.qualifier)
                    and other.timestamp > put.timestamp
                }
                if group.purge.drops(len(newer), put.timestamp, now_us):
                    self.purged.add(key_of(put))

    def surely_purged(self, horizon: int, now_us: int) -> set[CellKey]:
        """What a compaction of everything has dropped, judged by the puts that are surely there."""
        found: set[CellKey] = set()
        for cells in self.rows.values():
            known = [cell for cell in cells if key_of(cell) not in self.purged]
            for group in self.schema.groups:
                if group.purge is None:
                    continue
                columns = self.schema.column_set(group)
                part = [oracle.Reference(known, columns)]
                clauses = group.purge.cutoffs(now_us)
                found.update(map(key_of, oracle.purgeable(part, horizon, clauses)))
        return found

    # Reads.

    def may_see(self, at: int) -> list[Cell]:
        """Every put visible at a txn, all versions, in cell order."""
        found: list[Cell] = []
        for row in sorted(self.rows):
            found += oracle.visible([oracle.Reference(self.rows[row])], at)
        return found

    def check(self, seen: Sequence[Cell], at: int) -> None:
        """Compare what a scan of everything gave, all versions, with what it had to give."""
        may = self.may_see(at)
        expected = [cell for cell in may if key_of(cell) not in self.purged or cell in seen]
        assert list(seen) == expected, _difference(seen, expected, at)


def _difference(seen: Iterable[Cell], expected: Iterable[Cell], at: int) -> str:
    lost = [cell for cell in expected if cell not in set(seen)]
    back = [cell for cell in seen if cell not in set(expected)]
    return f"read at {at}: lost {lost}, should not be there {back}"


def answer(base: Sequence[Cell], spec: CellSpec) -> list[Cell]:
    """What a read answers whose snapshot, all versions resolved, is ``base``."""
    ranges = [RowRange()]
    if isinstance(spec, ScanSpec):
        ranges = list(spec.ranges)
    if isinstance(spec, ReadSpec):
        ranges = list(map(RowRange.row, spec.rows))
    inside = [cell for cell in base if any(part.contains(cell.row) for part in ranges)]
    early = CellSpec(
        columns=spec.columns, filters=spec.filters_on("row") + spec.filters_on("qualifier")
    )
    timely = [
        cell
        for cell in filtered(inside, early)
        if spec.time_start <= cell.timestamp < spec.time_end
    ]
    newest = [
        cell
        for row in rows_of(timely)
        for cell in oracle.sort_cells(oracle.read([oracle.Reference(row)], versions=spec.versions))
    ]
    rows = rows_of(filtered(newest, spec))
    if isinstance(spec, ScanSpec):
        rows = (rows[::-1] if spec.reverse else rows)[: spec.limit]
    return [cell for row in rows for cell in row]
