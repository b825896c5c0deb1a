"""Following a table: what its feed tells between two moments is what the model has there."""

from __future__ import annotations

from stele.model.cells import Cell, batch_to_cells
from stele.model.columns import EVERY_COLUMN
from stele.model.predicates import CellSpec
from stele.model.ranges import EVERYTHING
from stele.storage.change_lines import net_cell_lines
from stele.storage.change_reader import ChangeReader
from stele.storage.change_window import ChangeWindow
from stele.storage.read_plan import ReadPlan
from tests.model.machine_base import MachineBase
from tests.model.model_table import key_of

TTL_US = 60_000_000
WINDOW_CELLS = 3
VALUE = ("row", "family", "qualifier", "timestamp", "value")

Place = tuple[object, ...]


class ChangeChecks(MachineBase):
    """What a feed tells leads from one moment to the other."""

    def check_changes(self, name: str) -> None:
        """From a moment that can still be read up to now."""
        table, model = self.backend.table(name), self.models[name]
        since = self.readable(name)
        plan = table.pin_changes(since, None, TTL_US)
        files = self.backend.store.world.files
        reader = ChangeReader(files, plan.location, since, plan.txn, plan.schema.served)
        told = self._mutations(reader, plan)
        assert told == sorted(set(told), key=lambda cell: (cell.txn, cell.key()))
        expected = {
            key_of(cell)
            for cells in model.rows.values()
            for cell in cells
            if since < cell.txn <= plan.txn
        }
        assert {key_of(cell) for cell in told} == expected
        before, after = (self._visible(name, at) for at in (since, plan.txn))
        assert self._followed(before, reader, plan) == after
        table.release_pin(plan.lease)

    def _mutations(self, reader: ChangeReader, plan: ReadPlan) -> list[Cell]:
        """All tablets at once, by txn, in windows that are much too small."""
        references = [reference for tablet in plan.tablets for reference in tablet.references]
        window = ChangeWindow(cells_max=WINDOW_CELLS)
        batches = reader.mutations(references, EVERYTHING, EVERY_COLUMN, window)
        return [cell for batch in batches for cell in batch_to_cells(batch)]

    def _visible(self, name: str, at: int) -> set[Place]:
        return {
            (cell.row, cell.family, cell.qualifier, cell.timestamp, cell.value)
            for cell in self.base(name, at)
        }

    @staticmethod
    def _followed(before: set[Place], reader: ChangeReader, plan: ReadPlan) -> set[Place]:
        """What net changes make of a moment."""
        found = set(before)
        spec = CellSpec(versions=None)
        for tablet in plan.tablets:
            for part in reader.net(tablet.references, tablet.rows, spec):
                for line in net_cell_lines(part, by_version=True).to_pylist():
                    place = tuple(line[name] for name in VALUE)
                    if line["_change_type"] in ("delete", "update_preimage"):
                        found.remove(place)
                    else:
                        assert place not in found
                        found.add(place)
        return found
