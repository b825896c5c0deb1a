"""Buffered writes: in program order, in parts, durable at the end, errors that name rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.client.batch import PART_CELLS, PARTS_IN_FLIGHT_MAX, Batch, shown_rows
from stele.client.database import Database
from stele.errors import InvalidArgument, OutOfSpace, SteleError, Throttled
from stele.model.mutations import MutationBatch
from tests.oracles.model_backend import Done, ModelBackend, ModelTable
from tests.unit.client.databases import over


def put_numbers(batch: Batch, count: int) -> None:
    for number in range(count):
        batch.put(b"%06d" % number, {"f:q": b"v"})


def test_a_batch_is_written_at_its_end(db: Database) -> None:
    table = db.create_table("t")
    with table.batch() as batch:
        put_numbers(batch, PART_CELLS + 500)
        assert batch.txn == 0
    assert batch.txn > 0
    assert table.scan().count() == PART_CELLS + 500


def test_an_exception_drops_what_was_not_sent(db: Database) -> None:
    table = db.create_table("t")

    def write() -> None:
        with table.batch() as batch:
            put_numbers(batch, PART_CELLS + 500)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert table.scan().count() == PART_CELLS


def test_a_wrong_put_leaves_the_rest_alone(db: Database) -> None:
    table = db.create_table("t")
    with table.batch() as batch:
        batch.put(b"a", {"f:q": b"v"})
        with pytest.raises(InvalidArgument):
            batch.put(b"b", {"f:q": b"v", "f:r": 3})
    assert [row.key for row in table.scan()] == [b"a"]


def test_an_ended_batch_takes_nothing(db: Database) -> None:
    with db.create_table("t").batch() as batch:
        pass
    with pytest.raises(InvalidArgument, match="ended"):
        batch.put(b"a", {"f:q": b"v"})


STEPS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from(["put", "row", "f:", "f:x", "f:y"])),
    max_size=12,
)


@settings(max_examples=60)
@given(STEPS)
def test_a_batch_means_what_its_calls_mean_one_by_one(steps: list[tuple[bytes, str]]) -> None:
    database = over(ModelBackend())
    one_by_one, buffered = database.create_table("one"), database.create_table("other")
    with buffered.batch() as batch:
        for number, (row, step) in enumerate(steps):
            for writer in (one_by_one, batch):
                if step == "put":
                    writer.put(row, {"f:x": b"%d" % number, "f:y": b"-"})
                else:
                    writer.delete(row, None if step == "row" else step)
    assert [row.to_dict() for row in buffered.scan()] == [
        row.to_dict() for row in one_by_one.scan()
    ]


class Slow:
    """A commit that ends when it is waited for, well or badly."""

    def __init__(self, table: SlowTable, txn: int, error: SteleError | None) -> None:
        self.table, self.txn, self.error = table, txn, error

    def wait(self, timeout_us: int | None = None) -> int:
        self.table.in_flight -= 1
        if self.error is not None:
            raise self.error
        return self.txn

    def then(self, callback: Callable[[SteleError | None], None]) -> None:
        self.table.in_flight -= 1
        callback(self.error)


class SlowTable:
    """Counts what is in flight; refuses or fails the parts it is told to."""

    def __init__(self, table: ModelTable, failing: tuple[int, ...], throttled: int) -> None:
        self.table, self.failing, self.throttled = table, failing, throttled
        self.in_flight = self.in_flight_max = self.parts = 0
        self.schema = table.schema
        self.id, self.name = table.id, table.name

    def within(self, timeout_us: int) -> SlowTable:
        assert timeout_us > 0
        return self

    def admission_ticket(self, timeout_us: int) -> None:
        """There is no line here."""

    def apply(
        self,
        mutations: MutationBatch,
        *,
        max_txn: int | None = None,
        identity: tuple[bytes, int] | None = None,
        ticket: None = None,
    ) -> Slow:
        if self.throttled:
            self.throttled -= 1
            raise Throttled("the budget is full")
        self.parts += 1
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight, self.in_flight_max)
        done: Done = self.table.apply(mutations, max_txn=max_txn)
        failed = self.parts in self.failing
        return Slow(self, done.txn, OutOfSpace("the disk is full") if failed else None)


class SlowBackend(ModelBackend):
    """A model with one slow table."""

    def __init__(self, failing: tuple[int, ...] = (), throttled: int = 0) -> None:
        super().__init__()
        self.failing, self.throttled = failing, throttled
        self.slow: SlowTable | None = None

    def create_table(self, *arguments: object, **named: object) -> SlowTable:  # type: ignore[override]
        table = super().create_table(*arguments, **named)  # type: ignore[arg-type]
        self.slow = SlowTable(table, self.failing, self.throttled)
        return self.slow


def test_only_so_many_parts_are_in_flight() -> None:
    backend = SlowBackend()
    with over(backend).create_table("t").batch() as batch:
        put_numbers(batch, PART_CELLS * 20)
    assert backend.slow is not None
    assert (backend.slow.in_flight_max, backend.slow.in_flight) == (PARTS_IN_FLIGHT_MAX, 0)
    assert backend.slow.parts == 20


def test_a_full_store_is_waited_for() -> None:
    pauses: list[int] = []
    backend = SlowBackend(throttled=3)
    with over(backend, pauses.append).create_table("t").batch() as batch:
        batch.put(b"a", {"f:q": b"v"})
    assert len(pauses) == 3
    assert batch.txn > 0


def test_a_failed_part_names_its_rows() -> None:
    backend = SlowBackend(failing=(2,))
    with (
        pytest.raises(OutOfSpace, match=r"rows b'001000', .* and 995 more: the disk is full"),
        over(backend).create_table("t").batch() as batch,
    ):
        put_numbers(batch, PART_CELLS * 3)


def test_a_failure_is_raised_early_and_the_rest_not_sent() -> None:
    backend = SlowBackend(failing=(1,))
    with pytest.raises(OutOfSpace), over(backend).create_table("t").batch() as batch:
        put_numbers(batch, PART_CELLS * 100)
    assert backend.slow is not None
    assert backend.slow.parts == PARTS_IN_FLIGHT_MAX
    assert backend.slow.in_flight == 0


def test_a_failed_part_does_not_take_others_with_it() -> None:
    backend = SlowBackend(failing=(1,))
    refused: list[str] = []
    with over(backend).create_table("t").batch() as batch:
        for number in range(PART_CELLS * 20):
            try:
                batch.put(b"%06d" % number, {"f:q": b"v"})
            except OutOfSpace as error:
                refused.append(str(error))
    assert backend.slow is not None
    assert [text.partition(",")[0] for text in refused] == ["rows b'000000'"]
    assert backend.slow.parts == 20, "all that was not named was sent"
    assert len({cell.row for cell in backend.slow.table.cells}) == PART_CELLS * 20


def test_shown_rows_are_few() -> None:
    assert shown_rows([b"a"]) == "rows b'a'"
    assert shown_rows([b"%d" % n for n in range(7)]).endswith("b'4' and 2 more")
