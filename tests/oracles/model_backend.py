"""A whole database as a list of cells: the plain model that every backend is compared with.

Nothing is forgotten, nothing is indexed: a read looks at every cell ever written and follows
``stele.model.predicates`` step by step. Everything is durable at once. Time passes by calls only.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stele.client.backend import KEPT_US_DEFAULT, TableInfo, TabletInfo, Visibility
from stele.client.waiting import TIMEOUT_US_DEFAULT
from stele.errors import (
    AlreadyExists,
    Conflict,
    InvalidArgument,
    InvalidCells,
    NotFound,
    SnapshotTooOld,
    StaleRow,
    SteleError,
    TableNotFound,
    Unavailable,
)
from stele.model.cells import ROW_ERASURE_FAMILY, Cell, batch_to_cells, cells_to_batch
from stele.model.mutations import MutationBatch, stamp
from stele.model.numbered_writes import LastWrite, NumberedWrite
from stele.model.operations import Operation
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import EVERYTHING, RowRange, check_row
from stele.model.schema import Schema
from stele.model.validation import validate_mutations
from stele.storage.admission_line import AdmissionTicket
from stele.storage.compaction_work import CompactedUnit, CompactionWork, UnitOutcome
from stele.storage.fragment_format import FragmentInfo
from stele.storage.import_columns import ImportColumns
from stele.storage.import_files import ImportTicket
from stele.storage.read_plan import ReadPlan
from tests.oracles.cells import Reference, read, sort_cells
from tests.oracles.reads import filtered, rows_of

ROWS_PER_BATCH = 3
"""Few, so that a scan of a small table has several batches."""


@dataclass(frozen=True)
class Done:
    """``Pending`` of a commit that is durable already."""

    txn: int

    def wait(self, timeout_us: int | None = None) -> int:
        assert timeout_us is None or timeout_us >= 0
        return self.txn

    def then(self, callback: Callable[[SteleError | None], None]) -> None:
        callback(None)


@dataclass
class ModelScan:
    """``CellStream`` over an answer that is known already."""

    table: ModelTable
    drops: int
    """Of the table when it began."""
    txn: int
    rows: list[list[Cell]]
    closed: bool = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self.closed:
            raise StopIteration
        self.table.check(self.drops)
        if not self.rows:
            raise StopIteration
        part, self.rows = self.rows[:ROWS_PER_BATCH], self.rows[ROWS_PER_BATCH:]
        return cells_to_batch(cell for row in part for cell in row)

    def close(self) -> None:
        self.closed = True

    def explain(self) -> dict[str, Any]:
        return {"rows_left": sum(map(len, self.rows))}


@dataclass
class ModelTable:
    """``TableBackend``."""

    backend: ModelBackend
    id: str
    name: str
    schema: Schema
    borders: list[bytes]
    cells: list[Cell] = field(default_factory=list)
    snapshot_txns: dict[str, int] = field(default_factory=dict)
    floor: int = 0
    """Reads below are refused: what was there has been truncated."""
    dropped: bool = False
    drops: int = 0
    """How often: a scan does not survive one, though the table comes back."""
    requests: dict[tuple[bytes, bytes], tuple[int, int]] = field(default_factory=dict)
    """First row and client of requests that were named: their last number and its txn."""
    open_scans: list[ModelScan] = field(default_factory=list)

    def check(self, drops: int | None = None) -> None:
        """Refuse calls of a table that was dropped, or whose database is closed."""
        self.backend.check_open()
        if self.dropped or drops not in (None, self.drops):
            raise TableNotFound(f"table {self.name!r} was dropped since it was opened")

    def within(self, timeout_us: int) -> ModelTable:
        assert timeout_us >= 0
        return self

    def apply(
        self,
        mutations: MutationBatch | pa.RecordBatch,
        *,
        max_txn: int | None = None,
        identity: tuple[bytes, int] | None = None,
        is_first: bool = False,
        ticket: AdmissionTicket | None = None,
    ) -> Done:
        self.check()
        batch = mutations.to_arrow() if isinstance(mutations, MutationBatch) else mutations
        validate_mutations(batch, self.schema)
        if not batch.num_rows:
            raise InvalidCells("a batch has at least one mutation")
        rows = set(batch.column("row").to_pylist())
        if identity is not None:
            known = self.requests.get((min(rows), identity[0]))
            if known is not None and known[0] >= identity[1]:
                assert not is_first, "it was sent before"
                return Done(known[1])
        if max_txn is not None and any(c.txn > max_txn and c.row in rows for c in self.cells):
            raise StaleRow(f"a row of table {self.name!r} changed after txn {max_txn}")
        txn = self.backend.next_txn()
        self.cells += batch_to_cells(stamp(batch, txn))
        if identity is not None:
            self.requests[min(rows), identity[0]] = (identity[1], txn)
        return Done(txn)

    def admission_ticket(self, timeout_us: int) -> None:
        assert timeout_us >= 0

    def read_row(
        self, row: bytes, spec: CellSpec, visibility: Visibility = Visibility.DURABLE
    ) -> tuple[pa.RecordBatch | None, int]:
        assert visibility in Visibility
        found, txn = self._answer(spec, [RowRange.row(check_row(row))])
        return (cells_to_batch(found[0]) if found else None), txn

    def read_rows(self, spec: ReadSpec) -> tuple[pa.RecordBatch, int]:
        found, txn = self._answer(spec, list(map(RowRange.row, spec.rows)))
        return cells_to_batch(cell for row in found for cell in row), txn

    def scan(self, spec: ScanSpec) -> ModelScan:
        found, txn = self._answer(spec, spec.ranges)
        if spec.reverse:
            found.reverse()
        scan = ModelScan(self, self.drops, txn, found[: spec.limit])
        self.open_scans = [one for one in self.open_scans if not one.closed] + [scan]
        return scan

    def _answer(self, spec: CellSpec, ranges: Sequence[RowRange]) -> tuple[list[list[Cell]], int]:
        """The rows of the answer, each a list of cells; and the txn of the read."""
        self.check()
        txn = self.backend.clock if spec.at is None else spec.at
        if txn < self.floor:
            raise SnapshotTooOld(f"the history of table {self.name!r} begins at {self.floor}")
        self.backend.clock = max(self.backend.clock, txn)
        inside = [cell for cell in self.cells if any(part.contains(cell.row) for part in ranges)]
        served = [
            cell
            for cell in inside
            if cell.family == ROW_ERASURE_FAMILY or self.schema.allows(cell.family)
        ]
        early = spec.filters_on("row") + spec.filters_on("qualifier")
        before = cell_part(spec, filters=early, cells_per_row=None)
        seen = read([Reference(served)], txn=txn)
        timely = [
            c for c in filtered(seen, before) if spec.time_start <= c.timestamp < spec.time_end
        ]
        newest = read([Reference(timely)], versions=spec.versions)
        return rows_of(sort_cells(filtered(newest, spec))), txn

    def durable_txn(self) -> int:
        self.check()
        return self.backend.clock

    def tablets(self) -> tuple[TabletInfo, ...]:
        self.check()
        ends = [*self.borders, None]
        return tuple(
            TabletInfo(f"{self.id}.{number}", RowRange(start, end), "active", 1, 0)
            for number, (start, end) in enumerate(zip([b"", *self.borders], ends, strict=True))
        )

    def sample_keys(self, count: int) -> Sequence[bytes]:
        self.check()
        if count < 1:
            raise InvalidArgument(f"a number of samples is at least 1, not {count}")
        rows = sorted({cell.row for cell in self.cells})
        return sorted({rows[len(rows) * i // (count + 1)] for i in range(1, count + 1) if rows})

    def split(self, row: bytes) -> None:
        self.check()
        self.borders = sorted({*self.borders, check_row(row)})

    def join(self, row: bytes) -> None:
        self.check()
        if row not in self.borders:
            raise InvalidArgument(f"no tablet of table {self.name!r} begins at row {row!r}")
        self.borders.remove(row)

    def flush(self) -> None:
        self.check()

    def compact(self, rows: RowRange = EVERYTHING) -> None:
        assert rows.start is not None
        self.check()

    def truncate(self, rows: RowRange = EVERYTHING) -> None:
        self.check()
        self.cells = [cell for cell in self.cells if not rows.contains(cell.row)]
        self.floor = self.backend.next_txn()

    def pin(self, at: int | None, ttl_us: int, name: str | None = None) -> ReadPlan:
        self.check()
        raise Unavailable(f"the model has no files to pin: {at}, {ttl_us}, {name}")

    def renew_pin(self, lease: str, ttl_us: int) -> int:
        raise NotFound(f"the pin {lease!r} has ended, {ttl_us}")

    def release_pin(self, lease: str) -> None:
        assert lease

    def look_for_changes(self, since: int) -> tuple[int, bool]:
        self.check()
        return self.durable_txn(), any(cell.txn > since for cell in self.cells)

    def pin_changes(self, since: int, until: int | None, ttl_us: int) -> ReadPlan:
        self.check()
        raise Unavailable(f"the model has no files to pin: {since}, {until}, {ttl_us}")

    def begin_import(self, job: str, ttl_us: int) -> ImportTicket:
        raise Unavailable(f"the model takes no files: {job}, {ttl_us}")

    def renew_import(self, job: str, token: str, ttl_us: int) -> int:
        raise NotFound(f"no job {job!r}, {token}, {ttl_us}")

    def commit_import(
        self,
        job: str,
        token: str,
        files: Sequence[FragmentInfo],
        write: NumberedWrite | None = None,
        *,
        replaces: bool = False,
        columns: ImportColumns | None = None,
    ) -> int:
        what = (len(files), write, replaces, columns)
        raise NotFound(f"no job {job!r}, {token}, {what}")

    def abort_import(self, job: str, token: str) -> None:
        raise NotFound(f"no job {job!r}, {token}")

    def forget_import(self, job: str, token: str) -> None:
        """There are none."""

    def apply_numbered(
        self,
        write: NumberedWrite,
        mutations: pa.RecordBatch,
        *,
        ticket: AdmissionTicket | None = None,
    ) -> int:
        raise Unavailable(f"the model numbers no writes: {write}, {mutations.num_rows}")

    def last_numbered(self, writer: str) -> LastWrite | None:
        raise Unavailable(f"the model numbers no writes: {writer}")

    def plan_compaction(self, rows: RowRange, bytes_max: int, ttl_us: int) -> CompactionWork:
        raise Unavailable(f"the model has no files to compact: {rows}, {bytes_max}, {ttl_us}")

    def publish_compaction(
        self, job: str, token: str, units: Sequence[CompactedUnit]
    ) -> tuple[UnitOutcome, ...]:
        raise NotFound(f"no job {job!r}, {token}, {len(units)} units")

    def snapshot(self, name: str) -> int:
        self.check()
        if name in self.snapshot_txns:
            raise AlreadyExists(f"table {self.name!r} has a snapshot {name!r} already")
        self.snapshot_txns[name] = self.backend.next_txn()
        return self.snapshot_txns[name]

    def drop_snapshot(self, name: str) -> None:
        self.check()
        if self.snapshot_txns.pop(name, None) is None:
            raise NotFound(f"table {self.name!r} has no snapshot {name!r}")

    def snapshots(self) -> dict[str, int]:
        self.check()
        return dict(self.snapshot_txns)


def cell_part(spec: CellSpec, **changes: Any) -> CellSpec:
    """A plain ``CellSpec`` with the cell part of any specification, changed."""
    same = {name: getattr(spec, name) for name in CellSpec.__struct_fields__}
    return CellSpec(**(same | changes))


class ModelBackend:
    """``Backend``. Not for threads; nothing here waits, so timeouts say nothing."""

    def __init__(self, start_txn: int = 1_000_000) -> None:
        self.clock = start_txn
        self._tables: list[ModelTable] = []
        self._closed = False

    def next_txn(self) -> int:
        self.clock += 1
        return self.clock

    def check_open(self) -> None:
        if self._closed:
            raise Unavailable("the database is closed: open it again")

    def tables(self, *, dropped: bool = False) -> tuple[TableInfo, ...]:
        self.check_open()
        return tuple(
            TableInfo(table.id, table.name, table.schema, dropped)
            for table in self._tables
            if table.dropped is dropped
        )

    def table(self, name: str) -> ModelTable:
        self.check_open()
        running = {table.name: table for table in self._tables if not table.dropped}
        if name not in running:
            near = difflib.get_close_matches(name, running, 3)
            hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
            raise TableNotFound(f"there is no table {name!r}{hint}")
        return running[name]

    def create_table(
        self,
        name: str,
        schema: Schema,
        splits: Sequence[bytes] = (),
        *,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> ModelTable:
        self.check_open()
        self._check_free(name)
        if not name or "/" in name:
            raise InvalidArgument(f"{name!r} is not a name for a table")
        borders = sorted(set(map(check_row, splits)))
        self._tables.append(ModelTable(self, f"t{len(self._tables)}", name, schema, borders))
        return self._tables[-1]

    def alter_table(
        self, name: str, schema: Schema, *, timeout_us: int = TIMEOUT_US_DEFAULT
    ) -> ModelTable:
        table = self.table(name)
        if schema.version <= table.schema.version:
            raise Conflict(f"the table is at version {table.schema.version}")
        table.schema = schema
        return table

    def drop_table(
        self,
        name: str,
        *,
        keep_us: int = KEPT_US_DEFAULT,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> None:
        table = self.table(name)
        table.dropped = True
        table.drops += 1

    def undrop_table(self, name: str, *, timeout_us: int = TIMEOUT_US_DEFAULT) -> ModelTable:
        self._check_free(name)
        gone = [table for table in self._tables if table.dropped and table.name == name]
        if not gone:
            raise TableNotFound(f"no dropped table has the name {name!r}")
        gone[-1].dropped = False
        return gone[-1]

    def rename_table(
        self, name: str, new_name: str, *, timeout_us: int = TIMEOUT_US_DEFAULT
    ) -> ModelTable:
        self._check_free(new_name)
        table = self.table(name)
        table.name = new_name
        return table

    def clone_table(
        self,
        name: str,
        new_name: str,
        *,
        table_id: str | None = None,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> ModelTable:
        running = [table for table in self._tables if table.id == table_id and not table.dropped]
        if table_id is not None and not running:
            raise TableNotFound(f"table {name!r} was dropped since it was opened")
        source = running[0] if running else self.table(name)
        clone = self.create_table(new_name, source.schema, source.borders)
        clone.cells, clone.floor = list(source.cells), source.floor
        return clone

    def _check_free(self, name: str) -> None:
        if any(table.name == name and not table.dropped for table in self._tables):
            raise AlreadyExists(f"there is a table {name!r} already")

    def status(self) -> dict[str, Any]:
        return {"tables": len(self.tables()), "durable_txn": self.clock}

    def operations(self) -> tuple[Operation, ...]:
        """Nothing takes time here."""
        return ()

    def close(self) -> None:
        self._closed = True
