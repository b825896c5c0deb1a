"""Rules that read, decide and write through the public API: conditions, counters, values that grow.

What a call did is told to the model by the txn that the call returns, or that its cell has.
"""

from __future__ import annotations

from hypothesis import strategies as st

from stele.client.table import Table
from stele.errors import InvalidArgument
from stele.model.columns import Column
from stele.model.mutations import MutationBatch
from tests.model.machine_base import NOTHING, step
from tests.model.rules_writing import WritingRules, families, qualifiers, rows, tables

INT64_MAX = (1 << 63) - 1


class UpdateRules(WritingRules):
    """An update is decided by what the row holds at that moment, durable or not."""

    def newest(self, table: Table, row: bytes, column: Column) -> tuple[bytes | None, int]:
        """The newest value of a column and its txn; ``None`` and 0 if there is none."""
        found = table.get(row, [column])
        return (None, 0) if found is None else (found.cells[0].value, found.cells[0].txn)

    @step(
        number=tables,
        row=rows,
        family=families,
        qualifier=qualifiers,
        holds=st.booleans(),
        in_flight=st.booleans(),
        delete=st.booleans(),
    )
    def mutate_if(
        self,
        number: int,
        row: bytes,
        family: str,
        qualifier: bytes,
        holds: bool,
        in_flight: bool,
        delete: bool,
    ) -> object:
        """It writes if the condition holds, also by a commit that is not durable yet; otherwise it
        answers when what it has seen cannot be lost."""
        if not self.served(number, family):
            return NOTHING
        name, backend, model = self.pick(number)
        table, column = self.database.table(name), Column(family, qualifier)
        if table.schema.typed_column(column) is not None:
            return NOTHING  # the values of these rules are bytes
        before, _ = self.newest(table, row, column)
        waiting = None
        if in_flight:
            batch, before = MutationBatch(), self.value()
            batch.erase_column(row, family, qualifier)
            batch.put(row, family, qualifier, before)
            waiting = (backend.apply(batch), batch)
        expected = before if holds else self.value()
        value = self.value()
        txn = table.mutate_if(row, {column: expected}, put={column: value}, delete=delete)
        assert (txn is not None) is holds
        if waiting is not None:
            assert backend.durable_txn() >= waiting[0].txn, "it was answered by what may be lost"
            model.commit(waiting[1], waiting[0].wait())
        if txn is not None:
            batch = MutationBatch()
            if delete:
                batch.erase_row(row)
            batch.put(row, family, qualifier, value)
            model.commit(batch, txn)
        return None

    @step(number=tables, row=rows, times=st.integers(1, 4), by=st.integers(-5, 5))
    def increment(self, number: int, row: bytes, times: int, by: int) -> None:
        """A counter that several handles raise loses nothing, and does not overflow."""
        name, _, model = self.pick(number)
        column = Column(self.family(number), b"n")
        batch = MutationBatch()
        batch.erase_column(row, column.family, column.qualifier)
        self.commit(name, batch)
        for time in range(1, times + 1):
            table = self.database.table(name)
            assert table.increment(row, column, by) == time * by
            value, txn = self.newest(table, row, column)
            assert value is not None
            model.commit(_put(row, column, value), txn)
        if by > 0:
            try:
                table.increment(row, column, INT64_MAX)
            except InvalidArgument:
                return
            raise AssertionError("a counter went over its end")

    @step(number=tables, row=rows)
    def append(self, number: int, row: bytes) -> None:
        """A value grows by what is appended, from whatever it was."""
        name, _, model = self.pick(number)
        table, column = self.database.table(name), Column(self.family(number), b"a")
        before, _ = self.newest(table, row, column)
        tail = self.value()
        assert table.append(row, column, tail) == (before or b"") + tail
        value, txn = self.newest(table, row, column)
        assert value is not None
        model.commit(_put(row, column, value), txn)


def _put(row: bytes, column: Column, value: bytes) -> MutationBatch:
    batch = MutationBatch()
    batch.put(row, column.family, column.qualifier, value)
    return batch
