"""What executors do for a compaction: pieces of units become files, and tasks say which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import stele
from stele.client.remote_table import RemoteTable
from stele.errors import NotFound
from stele.model.ranges import EVERYTHING, RowRange
from stele.spark.compact_policy import UnitPiece
from stele.spark.compact_task import make_task, run_compactions, run_task
from stele.spark.compacting import finished
from stele.storage.compaction_work import CompactionWork, UnitOutcome
from stele.storage.import_files import decode_files, token_of
from stele.storage.references import file_references

HOUR_US = 3_600_000_000


@pytest.fixture
def table(tmp_path: Path) -> Iterator[stele.Table]:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("users", splits=[b"m"])
        for turn in range(3):
            for row in (b"a", b"b", b"n"):
                table.put(row, {"f:q": b"%d" % turn})
            table.flush()
        yield table


def planned(table: stele.Table) -> CompactionWork:
    return table.core.backend.plan_compaction(EVERYTHING, 1 << 60, HOUR_US)


def test_pieces_of_a_unit_are_files_of_their_own(table: stele.Table) -> None:
    work = planned(table)
    assert len(work.units) == 2
    pieces = [
        [UnitPiece(0, RowRange(b"", b"b"), 1), UnitPiece(0, RowRange(b"b", b"m"), 1)],
        [UnitPiece(1, RowRange(b"m"), 1)],
    ]
    tasks = [make_task(work, "token", each) for each in pieces]
    numbers = [pa.record_batch({"id": [0]}), pa.record_batch({"id": [1]})]
    lines = [
        line for batch in run_compactions(tasks, iter(numbers), 9) for line in batch.to_pylist()
    ]
    assert [(line["unit"], line["cells"]) for line in lines] == [(0, 3), (0, 3), (1, 3)]
    files = [info for line in lines for info in decode_files(line["files"])]
    assert [info.summary.first_row for info in files] == [b"a", b"b", b"n"]
    assert [token_of(info.name) for info in files] == ["token"] * 3
    assert [info.name.partition("-")[0] for info in files] == ["token.0.9"] * 2 + ["token.1.9"]
    assert [line["bytes"] for line in lines] == [info.total_bytes for info in files]


def test_a_piece_knows_only_what_it_reads(table: stele.Table) -> None:
    work = planned(table)
    whole = make_task(work, "token", [UnitPiece(0, RowRange(b"", b"m"), 1)])
    empty = make_task(work, "token", [UnitPiece(0, RowRange(b"", b"a"), 1)])
    assert len(empty) < len(whole)
    (line,) = run_task(empty, 0, 0).to_pylist()
    assert (line["cells"], line["bytes"], decode_files(line["files"])) == (0, 0, ())


def test_a_directory_that_is_not_seen_is_named(table: stele.Table, tmp_path: Path) -> None:
    work = planned(table)
    task = make_task(work, "token", [UnitPiece(0, EVERYTHING, 1)])
    (tmp_path / "db").rename(tmp_path / "elsewhere")
    try:
        with pytest.raises(NotFound, match=r"'users'.*does not see"):
            run_task(task, 0, 0)
    finally:
        (tmp_path / "elsewhere").rename(tmp_path / "db")


def test_a_file_that_is_gone_is_named(table: stele.Table) -> None:
    work = planned(table)
    name = next(file_references(work.units[0].inputs)).file.name
    (Path(work.location) / name).unlink()
    with pytest.raises(NotFound, match=name):
        run_task(make_task(work, "token", [UnitPiece(0, EVERYTHING, 1)]), 0, 0)


def test_a_driver_in_another_process(table: stele.Table, tmp_path: Path) -> None:
    """As far as the owner is concerned: what is asked and answered travels through its socket."""
    before = table.scan(versions=None).to_arrow()
    with stele.open(tmp_path / "db") as attached:
        backend = attached.table("users").core.backend
        assert isinstance(backend, RemoteTable)
        ticket = backend.begin_import("job", HOUR_US)
        work = backend.plan_compaction(EVERYTHING, 1 << 60, HOUR_US)
        task = make_task(
            work, ticket.token, [UnitPiece(n, unit.rows, 1) for n, unit in enumerate(work.units)]
        )
        units = finished(work, run_task(task, 0, 0).to_pylist())
        for _ in range(2):
            outcomes = backend.publish_compaction("job", ticket.token, units)
            assert outcomes == (UnitOutcome(1), UnitOutcome(1))
        backend.renew_pin(work.lease, HOUR_US)
        backend.release_pin(work.lease)
        backend.commit_import("job", ticket.token, ())
    assert [tablet.fragments for tablet in table.tablets()] == [1, 1]
    assert table.scan(versions=None).to_arrow() == before
