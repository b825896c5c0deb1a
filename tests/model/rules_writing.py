"""Rules that write: puts, every kind of erasure, batches, row transactions, commits in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from stele.errors import InvalidArgument, StaleRow
from stele.model.cells import Op
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ScanSpec
from stele.tablet.options import SMALL_COMMIT_CELLS_MAX
from tests.model.machine_base import FAMILIES, NOTHING, MachineBase, cells_of, row_cells, step

ROWS = (b"\x00", b"r1", b"r2", b"r3", b"r3\x00", b"r4", b"r5", b"r6", b"\xff\xff")
QUALIFIERS = (b"", b"q", b"\xff")
TIMESTAMPS = (-3, 5, 7)
ERASED_TIMESTAMP = 5
FLUSH_CHANCE = 0.3
COMPACTION_CHANCE = 0.1
HALF_SECOND_US = 500_000

tables = st.integers(0, 2)
rows = st.sampled_from(ROWS)
families = st.sampled_from(FAMILIES)
qualifiers = st.sampled_from(QUALIFIERS)
timestamps = st.sampled_from(TIMESTAMPS)
bounds = st.none() | timestamps
operations = st.tuples(
    st.sampled_from((Op.PUT, Op.PUT, Op.PUT, *Op)), rows, families, qualifiers, bounds
)


Wanted = tuple[Op, bytes, str, bytes, int | None]
"""Op, row, family, qualifier, and a timestamp or bound."""


def identity(wanted: Wanted) -> object:
    """What may be in a batch once: an erasure of a row has no family, one of a family no column."""
    op, row, family, qualifier, bound = wanted
    match op:
        case Op.ERASE_ROW:
            return (op, row, bound)
        case Op.ERASE_FAMILY:
            return (op, row, family, bound)
        case Op.ERASE_CELL:
            return (op, row, family, qualifier, bound or ERASED_TIMESTAMP)
    return wanted


def add(batch: MutationBatch, wanted: Wanted, value: bytes) -> None:
    op, row, family, qualifier, bound = wanted
    match op:
        case Op.PUT:
            batch.put(row, family, qualifier, value, bound)
        case Op.ERASE_ROW:
            batch.erase_row(row, bound)
        case Op.ERASE_FAMILY:
            batch.erase_family(row, family, bound)
        case Op.ERASE_COLUMN:
            batch.erase_column(row, family, qualifier, bound)
        case _:
            batch.erase_cell(row, family, qualifier, bound or ERASED_TIMESTAMP)


class WritingRules(MachineBase):
    """Every commit is atomic, and visible from its txn on."""

    def served(self, number: int, family: str) -> bool:
        """Whether a table takes cells of a family: it may have been removed."""
        return self.pick(number)[1].schema.allows(family)

    def family(self, number: int) -> str:
        """A family that the table takes."""
        return next(family for family in FAMILIES if self.served(number, family))

    def build(self, number: int, wanted: Sequence[Wanted]) -> MutationBatch:
        """A batch of what the schema allows, nothing twice."""
        batch = MutationBatch()
        seen: set[object] = set()
        for one in wanted:
            if self.served(number, one[2]) and identity(one) not in seen:
                seen.add(identity(one))
                add(batch, one, self.value())
        return batch

    def write(self, number: int, batch: MutationBatch) -> object:
        if not len(batch):
            return NOTHING
        self.commit(self.pick(number)[0], batch)
        return None

    @step(number=tables, row=rows, family=families, qualifier=qualifiers)
    def put(self, number: int, row: bytes, family: str, qualifier: bytes) -> object:
        return self.write(number, self.build(number, [(Op.PUT, row, family, qualifier, None)]))

    @step(number=tables, row=rows, family=families, qualifier=qualifiers, timestamp=timestamps)
    def put_at_timestamp(
        self, number: int, row: bytes, family: str, qualifier: bytes, timestamp: int
    ) -> object:
        return self.write(number, self.build(number, [(Op.PUT, row, family, qualifier, timestamp)]))

    @step(number=tables, row=rows, until=bounds)
    def erase_row(self, number: int, row: bytes, until: int | None) -> object:
        return self.write(number, self.build(number, [(Op.ERASE_ROW, row, "f", b"", until)]))

    @step(number=tables, row=rows, family=families, until=bounds)
    def erase_family(self, number: int, row: bytes, family: str, until: int | None) -> object:
        return self.write(number, self.build(number, [(Op.ERASE_FAMILY, row, family, b"", until)]))

    @step(number=tables, row=rows, family=families, qualifier=qualifiers, until=bounds)
    def erase_column(
        self, number: int, row: bytes, family: str, qualifier: bytes, until: int | None
    ) -> object:
        wanted = [(Op.ERASE_COLUMN, row, family, qualifier, until)]
        return self.write(number, self.build(number, wanted))

    @step(number=tables, row=rows, family=families, qualifier=qualifiers, timestamp=timestamps)
    def erase_cell(
        self, number: int, row: bytes, family: str, qualifier: bytes, timestamp: int
    ) -> object:
        wanted = [(Op.ERASE_CELL, row, family, qualifier, timestamp)]
        return self.write(number, self.build(number, wanted))

    @step(number=tables, wanted=st.lists(operations, min_size=2, max_size=12))
    def mixed_batch(self, number: int, wanted: list[Wanted]) -> object:
        return self.write(number, self.build(number, wanted))

    @step()
    def many_commits(self) -> None:
        """A stretch of small commits, flushes and compactions: what makes overlapping files.

        It takes nothing from Hypothesis, which therefore chooses it most often.
        """
        dice = self.dice
        number = dice.randrange(len(self.models))
        for _ in range(dice.randrange(3, 15)):
            wanted = [
                (
                    dice.choice((Op.PUT, Op.PUT, Op.PUT, *Op)),
                    dice.choice(ROWS),
                    dice.choice(FAMILIES),
                    dice.choice(QUALIFIERS),
                    dice.choice((None, None, *TIMESTAMPS)),
                )
                for _ in range(dice.randrange(1, 5))
            ]
            self.write(number, self.build(number, wanted))
            if dice.random() < FLUSH_CHANCE:
                self.pick(number)[1].flush()
            if dice.random() < COMPACTION_CHANCE:
                self.compact_what_is_due(number)
            self.clock.advance(dice.choice((0, 0, 1, HALF_SECOND_US)))

    @step(
        number=tables, some=st.lists(rows, min_size=2, max_size=4, unique=True), arrow=st.booleans()
    )
    def large_batch(self, number: int, some: list[bytes], arrow: bool) -> None:
        """More cells than row records are made for: the way of an Arrow batch."""
        name, table, model = self.pick(number)
        family = self.family(number)
        batch = MutationBatch()
        each = SMALL_COMMIT_CELLS_MAX // len(some) + 1
        for row in some:
            batch.erase_column(row, family, b"q")
            for place in range(each):
                batch.put(row, family, b"b%02d" % place, self.value())
        assert len(batch) > SMALL_COMMIT_CELLS_MAX
        txn = table.apply(batch.to_arrow() if arrow else batch).wait()
        model.commit(batch, txn)
        assert name in self.models

    @step(
        number=tables,
        row=rows,
        stale=st.booleans(),
        between=st.sampled_from(("nothing", "elsewhere", "split", "join", "flush", "compact")),
    )
    def row_transaction(self, number: int, row: bytes, stale: bool, between: str) -> None:
        """Commits iff its row did not change after it was read; nothing else matters."""
        name, table, _ = self.pick(number)
        _, read_at = self.latest(table, row)
        batch = self.erasure_and_put(number, row)
        if stale:
            self.commit(name, self.erasure_and_put(number, row))
        borders = [tablet.rows.start for tablet in table.tablets()][1:]
        actions: dict[str, Callable[[], object]] = {
            "nothing": lambda: None,
            "elsewhere": lambda: self.commit(name, self.erasure_and_put(number, row + b"'")),
            "split": lambda: table.split(b"r4"),
            "join": lambda: table.join(borders[-1]) if borders else None,
            "flush": table.flush,
            "compact": table.compact,
        }
        actions[between]()
        self.compacted(number)
        if not stale:
            self.commit(name, batch, max_txn=read_at)
            return
        try:
            table.apply(batch, max_txn=read_at)
        except StaleRow:
            return
        raise AssertionError("a row that changed was overwritten")

    def erasure_and_put(self, number: int, row: bytes) -> MutationBatch:
        family = self.family(number)
        batch = MutationBatch()
        batch.erase_column(row, family, b"t")
        batch.put(row, family, b"t", self.value())
        return batch

    @step(number=tables, some=st.lists(rows, min_size=2, max_size=4))
    def commits_in_flight(self, number: int, some: list[bytes]) -> None:
        """Before it is durable a commit is seen by reads of the latest data only."""
        name, table, model = self.pick(number)
        before = self.base(name, table.durable_txn())
        batches = [self.erasure_and_put(number, row) for row in some]
        pending = [table.apply(batch) for batch in batches]
        assert cells_of(table.scan(ScanSpec(versions=None))) == before
        found, _ = self.latest(table, some[-1])
        assert batches[-1].records()[-1][-1] in [cell.value for cell in found]
        heard: list[object] = []
        pending[0].then(heard.append)
        for commit, batch in zip(pending, batches, strict=True):
            model.commit(batch, commit.wait())
        assert heard == [None]

    @step(number=tables, row=rows)
    def refused_request(self, number: int, row: bytes) -> None:
        """Bad input leaves no trace."""
        _, table, _ = self.pick(number)
        before, at = table.read_row(row, CellSpec(versions=None))
        twice = MutationBatch()
        twice.put(row, "f", b"q", b"1", 1)
        twice.put(row, "f", b"q", b"2", 1)
        for bad in (MutationBatch(), twice):
            try:
                table.apply(bad)
            except InvalidArgument:
                continue
            raise AssertionError("bad input was taken")
        after, _ = table.read_row(row, CellSpec(versions=None, at=at))
        assert row_cells(before) == row_cells(after)
