"""One commit of what tasks answered: as mutations or as files, once, and for the right table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import stele
from stele.env.failpoints import armed, fail
from stele.errors import Conflict, InvalidCells, NotFound, SteleError
from stele.model.numbered_writes import LastWrite, NumberedWrite
from stele.spark.write_commit import commit_parts, give_up
from stele.spark.write_form import write_form
from stele.spark.write_task import WriteTask, WrittenPart, run_write
from stele.spark.writing import write_task

HOUR_US = 3_600_000_000
SCHEMA = stele.Schema(columns={"info:age": "int64"})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[stele.Database]:
    with stele.open(tmp_path / "db") as database:
        yield database


@pytest.fixture
def table(db: stele.Database) -> stele.Table:
    return db.create_table("people", SCHEMA, splits=[b"p000003"])


def new_task(table: stele.Table, job: str = "job") -> WriteTask:
    form = write_form(table.schema, {"id": "string", "info:age": "bigint"}, row="id")
    return write_task(table, form, table.core.backend.begin_import(job, HOUR_US))


def part(task: WriteTask, first: int, count: int, number: int = 0, attempt: int = 0) -> WrittenPart:
    ids = [f"p{place:06}" for place in range(first, first + count)]
    lines = pa.RecordBatch.from_pydict({"id": ids, "info:age": list(range(count))})
    return run_write(task, [lines], number, attempt)


WRITE = NumberedWrite("query q", 3)


@pytest.mark.parametrize("mutation_bytes_max", [1 << 20, 1])
@pytest.mark.parametrize("write", [None, WRITE])
def test_all_parts_are_one_commit(
    table: stele.Table, mutation_bytes_max: int, write: NumberedWrite | None
) -> None:
    task = new_task(table)
    parts = [part(task, 0, 3, 0), part(task, 3, 3, 1)]
    done = commit_parts(table, task, parts, write, mutation_bytes_max)
    assert (done.lines, done.cells) == (6, 6)
    assert bool(done.files) == (mutation_bytes_max == 1)
    assert {cell.txn for row in table.scan() for cell in row.cells} == {done.txn}
    assert [row["info:age"] for row in table.scan()] == [0, 1, 2] * 2
    with pytest.raises(NotFound, match="no job"):
        table.core.backend.renew_import("job", task.ticket.token, HOUR_US)


def test_a_large_answer_takes_the_small_ones_along(table: stele.Table) -> None:
    task = new_task(table)
    small = part(task, 0, 3, 0)
    large = part(msgspec.structs.replace(task, inline_bytes_max=1), 3, 3, 1)
    assert large.files
    done = commit_parts(table, task, [small, large], WRITE)
    assert len([row.key for row in table.scan()]) == 6
    assert done.files == 2
    assert table.core.backend.last_numbered("query q") == LastWrite(3, done.txn)


def test_only_the_attempts_that_are_named_count(table: stele.Table) -> None:
    task = msgspec.structs.replace(new_task(table), inline_bytes_max=1)
    part(task, 0, 5, 0, attempt=0)  # a task that died after it had written
    commit_parts(table, task, [part(task, 0, 3, 0, attempt=1)])
    assert len(list(table.scan())) == 3


def test_a_commit_that_took_effect_and_then_failed_is_not_made_again(table: stele.Table) -> None:
    task = new_task(table)
    with armed("spark.write.after_commit", fail()), pytest.raises(SteleError):
        commit_parts(table, task, [part(task, 0, 3)], WRITE)
    give_up(table, task)
    txn = table.core.backend.last_numbered("query q")
    table.delete(b"p000001")
    again = new_task(table, "another job")
    assert commit_parts(table, again, [part(again, 0, 3)], WRITE, 1).txn == txn.txn  # type: ignore[union-attr]
    assert [row.key for row in table.scan()] == [b"p000000", b"p000002"]


def test_nothing_is_a_write_too_if_it_has_a_number(table: stele.Table) -> None:
    task = new_task(table)
    assert commit_parts(table, task, []).lines == 0
    task = new_task(table)
    commit_parts(table, task, [part(task, 0, 0)], WRITE)
    assert table.core.backend.last_numbered("query q") is not None


@pytest.mark.parametrize("write", [None, WRITE])
def test_a_write_that_replaces(table: stele.Table, write: NumberedWrite | None) -> None:
    for row in (b"a", b"z"):
        table.put(row, {"info:age": 7})
    for count in (3, 0):
        task = msgspec.structs.replace(new_task(table, f"job {count}"), replaces=True)
        commit_parts(table, task, [part(task, 0, count)], write)
        if write is not None:
            table.put(b"b", {"info:age": 1})
            again = msgspec.structs.replace(new_task(table, "again"), replaces=True)
            commit_parts(table, again, [part(again, 5, 1)], write)
            assert table.get(b"b") is not None, "what was done is not done again"
            table.delete(b"b")
            write = NumberedWrite(write.writer, write.sequence + 1)
        assert len(list(table.scan())) == count


def test_the_same_row_in_two_parts_is_refused(table: stele.Table) -> None:
    task = new_task(table)
    with pytest.raises(InvalidCells, match="there twice"):
        commit_parts(table, task, [part(task, 0, 3, 0), part(task, 2, 3, 1)])
    assert not list(table.scan())


def test_a_table_that_was_made_anew_meanwhile(db: stele.Database, table: stele.Table) -> None:
    task = new_task(table)
    done = part(task, 0, 3)
    db.drop_table("people")
    again = db.create_table("people", SCHEMA)
    with pytest.raises(Conflict, match="dropped and made anew while the job ran"):
        commit_parts(again, task, [done])
    with pytest.raises(SteleError, match=r"people|not served"):
        commit_parts(table, task, [done])


def test_a_table_that_was_altered_meanwhile(db: stele.Database, table: stele.Table) -> None:
    task = new_task(table)
    done = part(task, 0, 3)
    other = stele.Schema(columns={"info:age": "int64", "info:name": "string"})
    altered = db.alter_table("people", other)
    commit_parts(altered, task, [done])
    task = new_task(altered, "job 2")
    done = part(task, 3, 3)
    without = db.alter_table("people", stele.Schema(columns={"info:name": "string"}))
    with pytest.raises(Conflict, match="'info:age' was int64 and is not declared"):
        commit_parts(without, task, [done])
    assert len(list(without.scan())) == 3
