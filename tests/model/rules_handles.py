"""Rules for tables that somebody keeps while they are dropped, brought back, renamed or replaced.

Other rules take each table anew from the catalog. Here one is kept for many steps: it has to be the
table that it was, however it is called by now, or to say that it was dropped.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from stele.client.table import Table
from stele.errors import TableNotFound
from stele.model.columns import Column
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from tests.model.machine_base import FAMILIES, NOTHING, TABLES_MAX, OpenScan, step
from tests.model.model_table import ModelTable, answer
from tests.model.rules_layout import LayoutRules
from tests.model.rules_writing import rows, tables

HANDLES_MAX = 6
CALLS: tuple[Callable[[Table], object], ...] = (
    lambda table: table.put(b"r1", {"f:k": b"lost"}),
    lambda table: table.get(b"r1"),
    lambda table: table.get_many([b"r1", b"r5"]),
    lambda table: table.scan().count(),
    lambda table: table.mutate_if(b"r1", {"f:k": b"never"}, put={"f:k": b"lost"}),
    lambda table: table.increment(b"r1", "f:k"),
    lambda table: table.tablets(),
    lambda table: table.sample_keys(),
    lambda table: table.split(b"r4"),
    lambda table: table.flush(),
    lambda table: table.compact(),
    lambda table: table.truncate(),
    lambda table: table.snapshot("of nothing"),
    lambda table: table.snapshots(),
    lambda table: table.changes(),
    lambda table: table.files(),
    lambda table: table.clone("of nothing"),
)

choices = st.integers(0, HANDLES_MAX - 1)


class HandleRules(LayoutRules):
    """A table in somebody's hands is one table for ever."""

    @step(number=tables)
    def keep_handle(self, number: int) -> object:
        if len(self.handles) >= HANDLES_MAX:
            return NOTHING
        name, _, model = self.pick(number)
        self.handles.append((self.database.table(name), model))
        return None

    def kept(self, choice: int, *, dropped: bool) -> tuple[Table, ModelTable] | None:
        """A kept table that is dropped, or is not, if there is one."""
        running = [id(model) for model in self.models.values()]
        found = [kept for kept in self.handles if (id(kept[1]) not in running) is dropped]
        return found[choice % len(found)] if found else None

    @step(choice=choices, row=rows)
    def use_kept_handle(self, choice: int, row: bytes) -> object:
        """What is written through it is seen by all, and what all have written is seen by it."""
        kept = self.kept(choice, dropped=False)
        if kept is None:
            return NOTHING
        table, model = kept
        name = next(name for name, one in self.models.items() if one is model)
        assert table.name == name
        family = next(family for family in FAMILIES if table.schema.allows(family))
        column, value = Column(family, b"k"), self.value()
        batch = MutationBatch()
        batch.erase_column(row, family, b"k")
        batch.put(row, family, b"k", value)
        with table.batch() as written:
            written.delete(row, [column])
            written.put(row, {column: value})
        found = table.get(row, [column])
        assert found is not None
        model.commit(batch, found.cells[0].txn)
        seen = [cell for one in table.scan(versions=None) for cell in one.cells]
        assert seen == self.base(name, self.backend.table(name).durable_txn())
        assert table.snapshots() == model.snapshots
        return None

    @step(
        choice=choices,
        row=rows,
        what=st.sampled_from(("flush", "compact", "split", "tablets")),
    )
    def work_through_kept_handle(self, choice: int, row: bytes, what: str) -> object:
        """Its files and tablets are those of the table as it is now."""
        kept = self.kept(choice, dropped=False)
        if kept is None:
            return NOTHING
        table, model = kept
        backend = self.backend.table(table.name)
        actions: dict[str, Callable[[], object]] = {
            "flush": table.flush,
            "compact": table.compact,
            "split": lambda: table.split(row),
            "tablets": table.tablets,
        }
        actions[what]()
        model.allow_purge(self.horizon(backend), self.clock.now_us())
        assert table.tablets() == backend.tablets()
        return None

    @step(choice=choices)
    def use_dropped_handle(self, choice: int) -> object:
        """Every call says that the table was dropped, also if another has its name now."""
        kept = self.kept(choice, dropped=True)
        if kept is None:
            return NOTHING
        for call in CALLS:
            with pytest.raises(TableNotFound, match=repr(kept[0].name)):
                call(kept[0])
        return None

    @step(number=tables)
    def reuse_name(self, number: int) -> object:
        """A new table under the name of one that was dropped is another table."""
        names = sorted(self.dropped.keys() - self.models.keys())
        if not names or len(self.models) >= TABLES_MAX:
            return NOTHING
        self.create(names[number % len(names)])
        return None

    @step(number=tables, reverse=st.booleans())
    def scan_across_a_drop(self, number: int, reverse: bool) -> object:
        """A scan under way ends with an error, though the table comes back at once."""
        name, table, model = self.pick(number)
        spec = ScanSpec(versions=None, reverse=reverse)
        expected = answer(self.base(name, table.durable_txn()), spec)
        scan = OpenScan(table.scan(spec), model, expected)
        if not scan.advance():
            return NOTHING
        self.finish_scans()
        self.clock.advance(1)
        self.backend.drop_table(name)
        self.backend.undrop_table(name)
        try:
            scan.advance()
        except TableNotFound:
            return None
        raise AssertionError("a scan went on over a drop")
