"""Row transactions: one moment for reading, all or nothing for writing, conflicts are found."""

from __future__ import annotations

import pytest

from stele.client.database import Database
from stele.client.table import Table
from stele.client.transaction import Transaction
from stele.errors import InvalidArgument, StaleRow
from stele.model.schema import Schema


@pytest.fixture
def table(db: Database) -> Table:
    table = db.create_table("t", Schema(columns={"f:n": "int64"}))
    table.put(b"a", {"f:n": 1, "f:q": b"x"})
    return table


def test_a_transaction_reads_and_writes(table: Table) -> None:
    with table.transaction(b"a") as transaction:
        row = transaction.get()
        assert row is not None
        transaction.put({"f:n": row["f:n"] + 1})
        transaction.delete(["f:q"])
    assert table.get(b"a").to_dict() == {"f:n": 2}  # type: ignore[union-attr]
    assert transaction.txn == table.get(b"a").cells[0].txn  # type: ignore[union-attr]


def lose(table: Table, transaction: Transaction, key: bytes) -> None:
    """Read a row, and write it after somebody else has."""
    with transaction:
        transaction.get()
        table.put(key, {"f:n": 10})
        transaction.put({"f:n": 2})


def test_a_conflict_is_found(table: Table) -> None:
    transaction = table.transaction(b"a")
    with pytest.raises(StaleRow):
        lose(table, transaction, b"a")
    assert table.get(b"a")["f:n"] == 10  # type: ignore[index]
    assert transaction.txn is None


def test_other_rows_are_no_conflict(table: Table) -> None:
    with table.transaction(b"a") as transaction:
        transaction.get()
        table.put(b"b", {"f:n": 10})
        transaction.put({"f:n": 2})
    assert table.get(b"a")["f:n"] == 2  # type: ignore[index]


def test_all_reads_are_of_one_moment(table: Table) -> None:
    with table.transaction(b"a") as transaction:
        assert transaction.get(["f:n"])["f:n"] == 1  # type: ignore[index]
        table.put(b"a", {"f:n": 10, "f:q": b"y"})
        assert transaction.get().to_dict() == {"f:n": 1, "f:q": b"x"}  # type: ignore[union-attr]
    assert transaction.txn is None


def test_a_row_that_was_truncated_meanwhile_is_stale(table: Table) -> None:
    with table.transaction(b"a") as transaction:
        assert transaction.get() is not None
        table.truncate()
        with pytest.raises(StaleRow):
            transaction.get()


def test_a_row_that_is_not_there_can_appear_once(table: Table) -> None:
    with pytest.raises(StaleRow):
        lose(table, table.transaction(b"new"), b"new")
    assert table.get(b"new")["f:n"] == 10  # type: ignore[index]


def test_without_a_read_there_is_nothing_to_be_stale(table: Table) -> None:
    with table.transaction(b"a") as transaction:
        table.put(b"a", {"f:n": 10})
        transaction.put({"f:n": 2})
    assert table.get(b"a")["f:n"] == 2  # type: ignore[index]


def test_an_exception_drops_it(table: Table) -> None:
    def write() -> None:
        with table.transaction(b"a") as transaction:
            transaction.put({"f:n": 2})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert table.get(b"a")["f:n"] == 1  # type: ignore[index]


def test_an_ended_transaction_takes_nothing(table: Table) -> None:
    with table.transaction(b"a") as transaction:
        pass
    for call in (transaction.get, transaction.delete, lambda: transaction.put({"f:n": 1})):
        with pytest.raises(InvalidArgument, match="ended"):
            call()


def test_writes_follow_each_other_as_in_the_program(table: Table) -> None:
    with table.transaction(b"a") as transaction:
        transaction.put({"f:n": 2, "f:m": b"x"})
        transaction.put({"f:n": 3})
        transaction.delete(["f:m", "f:q"])
    assert table.get(b"a").to_dict() == {"f:n": 3}  # type: ignore[union-attr]
    with table.transaction(b"a") as transaction:
        transaction.put({"f:n": 4})
        transaction.delete()
    assert table.get(b"a") is None
    with table.transaction(b"a") as transaction:
        transaction.delete()
        transaction.put({"f:n": 5})
    assert table.get(b"a").to_dict() == {"f:n": 5}  # type: ignore[union-attr]
