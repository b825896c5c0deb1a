"""Rules that read: scans with everything a specification can say, time travel, scans left open."""

from __future__ import annotations

from hypothesis import strategies as st

from stele.model.columns import ColumnSelection
from stele.model.filters import between, prefix, regex
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import RowRange
from tests.model.machine_base import NOTHING, MachineBase, OpenScan, row_cells, step
from tests.model.model_table import answer
from tests.model.rules_writing import rows, tables, timestamps

COLUMNS = (None, ["f:"], ["f:q", "g:"], ["h:"])
FILTERS = (
    (),
    (prefix("row", b"r3"),),
    (regex("qualifier", "^[bq]"),),
    (between("value", b"v2", b"v5"),),
    (regex("value", "[02468]$"), prefix("qualifier", b"q", b"n")),
)
SCANS_MAX = 2


class ReadingRules(MachineBase):
    """Whatever way a snapshot is read, it is the same snapshot."""

    def spec(self, at: int, **parts: object) -> ScanSpec:
        return ScanSpec(at=at, **parts)  # type: ignore[arg-type]

    @step(
        number=tables,
        columns=st.sampled_from(COLUMNS),
        versions=st.sampled_from((None, 1, 2)),
        filters=st.sampled_from(FILTERS),
        limit=st.none() | st.integers(1, 4),
        cells_per_row=st.none() | st.integers(1, 3),
        reverse=st.booleans(),
        borders=st.lists(rows, max_size=4, unique=True),
        keys=st.lists(rows, min_size=1, max_size=4, unique=True),
    )
    def read_in_every_way(
        self,
        number: int,
        columns: list[str] | None,
        versions: int | None,
        filters: tuple[object, ...],
        limit: int | None,
        cells_per_row: int | None,
        reverse: bool,
        borders: list[bytes],
        keys: list[bytes],
    ) -> None:
        name, _, _ = self.pick(number)
        ordered = sorted(borders)
        ranges = tuple(map(RowRange, ordered[0::2], [*ordered[1::2], None])) or (RowRange(),)
        spec = self.spec(
            self.readable(name),
            columns=ColumnSelection.parse(columns),
            versions=versions,
            filters=filters,
            limit=limit,
            cells_per_row=cells_per_row,
            reverse=reverse,
            ranges=ranges,
        )
        self.check_reads(name, spec, tuple(keys))

    @step(number=tables, start=timestamps, end=timestamps, versions=st.sampled_from((None, 1)))
    def read_a_time_range(self, number: int, start: int, end: int, versions: int | None) -> object:
        if start >= end:
            return NOTHING
        name, _, _ = self.pick(number)
        spec = self.spec(self.readable(name), time_start=start, time_end=end, versions=versions)
        self.check_reads(name, spec, (b"r1", b"r3"))
        return None

    @step(number=tables, row=rows)
    def get(self, number: int, row: bytes) -> None:
        """A row as it is now, with the txn of the answer."""
        name, table, _ = self.pick(number)
        found, txn = table.read_row(row, CellSpec())
        assert row_cells(found) == answer(self.base(name, txn), ReadSpec(rows=(row,)))

    @step(number=tables)
    def read_a_snapshot(self, number: int) -> object:
        """A named snapshot stays readable, whatever the horizon; but not what was truncated."""
        name, _, model = self.pick(number)
        for at in model.snapshots.values():
            if at >= model.floor:
                self.base(name, at)
            else:
                self.check_too_old(name, at)
        return None if model.snapshots else NOTHING

    @step(number=tables)
    def read_too_far_back(self, number: int) -> object:
        name, table, model = self.pick(number)
        lowest = max(self.horizon(table), model.floor)
        if not lowest:
            return NOTHING
        is_forgotten = lowest == self.horizon(table)
        self.check_too_old(name, lowest - 1, b"r1" if is_forgotten else None)
        self.base(name, lowest)
        return None

    @step(number=tables, ahead_us=st.integers(1, 400_000))
    def read_in_the_near_future(self, number: int, ahead_us: int) -> None:
        """Nothing will be committed at or below it any more."""
        name, table, model = self.pick(number)
        at = max(table.durable_txn(), self.clock.now_us()) + ahead_us
        if at - self.clock.now_us() > 500_000:
            return
        self.base(name, at)
        assert table.durable_txn() >= at
        model.moments.append(at)

    @step(number=tables, reverse=st.booleans())
    def open_scan(self, number: int, reverse: bool) -> object:
        """A scan that is left open while other things happen."""
        if len(self.scans) >= SCANS_MAX:
            return NOTHING
        name, table, model = self.pick(number)
        base = self.base(name, table.durable_txn())
        spec = ScanSpec(versions=None, reverse=reverse)
        self.scans.append(OpenScan(table.scan(spec), model, answer(base, spec)))
        return None

    @step(batches=st.integers(1, 3))
    def go_on_with_scan(self, batches: int) -> object:
        """Some batches more; at its end it has given exactly its snapshot."""
        if not self.scans:
            return NOTHING
        scan = self.scans[0]
        if not all(scan.advance() for _ in range(batches)):
            scan.finish()
            del self.scans[0]
        return None
