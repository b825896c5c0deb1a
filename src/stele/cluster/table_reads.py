"""Which view of a table a read sees, and at which txn.

A read is of one state of its table (``stele.tablet.table_state``). When the table is dropped, what
has begun ends with ``TableNotFound``, a scan at its next batch, whether or not the table comes
back: that would be another state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from stele.client.backend import Visibility
from stele.coordination.ports import Horizons
from stele.errors import NotFound
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.tablet.active_reads import ActiveReads, Hold
from stele.tablet.engine import Engine
from stele.tablet.horizon import check_floor, check_readable
from stele.tablet.import_gate import await_import
from stele.tablet.read_sources import missing_file
from stele.tablet.scan import TableScan
from stele.tablet.table_state import Ranges, TableState, TableView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableReads:
    """The reads of the tables of one store. Threads share it.

    ``ranges`` of its methods are the rows that are read, ``import_wait_us`` is how long a read
    waits for an import that is being decided.
    """

    engine: Engine
    horizons: Horizons
    active: ActiveReads

    def read(
        self,
        state: TableState,
        at: int | None,
        visibility: Visibility,
        ranges: Ranges,
        import_wait_us: int,
        read: Callable[[TableView, int], T],
    ) -> tuple[T, int]:
        """Read a view; a newer one, if the collector took a file of it before it was opened."""
        while True:
            view, txn = self._view(state, at, visibility, ranges, import_wait_us)
            try:
                return read(view, txn), txn
            except NotFound as error:
                state.check_served()
                if state.layout is view.layout:
                    raise missing_file(state.name, error) from error

    def _view(
        self,
        state: TableState,
        at: int | None,
        visibility: Visibility,
        ranges: Ranges,
        import_wait_us: int,
    ) -> tuple[TableView, int]:
        """A view that is complete for reads at a txn.

        The txn comes first: what is durable by then is in any later view. The horizon comes last: a
        compaction that is in the view used one no higher; and so do truncations. Such a read needs
        no registration, because what it reads is all in the view.
        """
        while True:
            txn = self._read_txn(state, at, visibility, import_wait_us)
            view = state.view()
            if at is not None:
                self._check_readable(state, txn, ranges)
                return view, txn
            if self.horizons.horizon(state.id) <= txn and not state.floor_over(txn, ranges):
                return view, txn

    def scan(self, state: TableState, spec: ScanSpec, import_wait_us: int) -> TableScan:
        """Begin a scan."""
        if spec.mode == "snapshot":
            return self._scan_snapshot(state, spec, import_wait_us)
        visibility = Visibility.LATEST if spec.mode == "latest" else Visibility.DURABLE

        def view(ranges: Iterable[RowRange]) -> tuple[TableView, int]:
            return self._view(state, None, visibility, lambda: ranges, import_wait_us)

        return TableScan(self.engine, state, spec, view)

    def _scan_snapshot(self, state: TableState, spec: ScanSpec, import_wait_us: int) -> TableScan:
        """A scan at one txn, which is held while somebody reads on."""
        active = self.active
        hold = self._hold(state, spec.at, import_wait_us)

        def go_on() -> None:
            if not active.use(hold):
                check_readable(state.name, hold.txn, active.granted(hold.table))

        def view(ranges: Iterable[RowRange]) -> tuple[TableView, int]:
            found = state.view()
            check_floor(state.name, hold.txn, state.floor_over(hold.txn, lambda: ranges))
            return found, hold.txn

        try:
            if spec.at is not None:
                self._check_readable(state, hold.txn, lambda: spec.ranges)
            return TableScan(
                self.engine,
                state,
                spec,
                view,
                before_batch=go_on,
                on_close=lambda: active.end(hold),
            )
        except BaseException:
            active.end(hold)
            raise

    def _hold(self, state: TableState, at: int | None, import_wait_us: int) -> Hold:
        """A txn that the horizon will not pass while the read goes on."""
        while True:
            txn = self._read_txn(state, at, Visibility.DURABLE, import_wait_us)
            hold = self.active.begin(state.id, txn)
            if hold is None:
                if at is not None:
                    check_readable(state.name, txn, self.active.granted(state.id))
            elif at is not None or self.horizons.horizon(state.id) <= txn:
                return hold
            else:
                self.active.end(hold)

    def _read_txn(
        self, state: TableState, at: int | None, visibility: Visibility, import_wait_us: int
    ) -> int:
        engine = self.engine
        if visibility is Visibility.LATEST:
            txn = engine.committed_txn
        else:
            if at is not None and at > engine.durable_txn:
                engine.reach(at)
            txn = engine.durable_txn if at is None else at
        await_import(engine, state, txn, import_wait_us)
        return txn

    def _check_readable(self, state: TableState, txn: int, ranges: Ranges) -> None:
        check_readable(state.name, txn, self.horizons.horizon(state.id))
        check_floor(state.name, txn, state.floor_over(txn, ranges))
