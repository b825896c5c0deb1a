from __future__ import annotations

from pathlib import Path

import pytest

import stele
from stele.cluster.embedded import open_embedded
from stele.env.posix import PosixFileSystem
from stele.errors import AlreadyExists, Conflict, InvalidArgument, NotFound
from stele.model.cells import Cell
from stele.model.mutations import MutationBatch
from stele.model.numbered_writes import LastWrite, NumberedWrite
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.storage.fragment_writer import write_fragment
from stele.storage.import_files import writer_names
from tests.unit.tablet.engine_support import block
from tests.unit.tserver.serving import remote

MINUTE_US = 60_000_000


def rows_of(table: object) -> list[bytes]:
    found: list[bytes] = []
    for batch in table.scan(ScanSpec()):  # type: ignore[attr-defined]
        found += batch.column("row").to_pylist()
    return found


def test_what_operators_do_is_done_by_the_store(tmp_path: Path) -> None:
    backend = open_embedded(str(tmp_path / "db"))
    with remote(backend, tmp_path) as (client, _):
        table = client.create_table("t", Schema(), [b"m"])
        batch = MutationBatch()
        for row in (b"a", b"k", b"p", b"z"):
            batch.put(row, "f", b"q", b"v")
        txn = table.apply(batch).wait()
        assert table.durable_txn() >= txn
        table.flush()
        # The first tablet has one more, for the name of the write.
        assert [tablet.fragments for tablet in table.tablets()] == [2, 1]
        table.split(b"k")
        assert [tablet.rows.start for tablet in table.tablets()] == [b"", b"k", b"m"]
        table.join(b"k")
        with pytest.raises(InvalidArgument, match="begins at"):
            table.join(b"k")
        assert table.tablets() == backend.table("t").tablets()
        assert table.sample_keys(1) == tuple(backend.table("t").sample_keys(1))
        assert table.snapshot("s") >= txn
        with pytest.raises(AlreadyExists):
            table.snapshot("s")
        assert table.snapshots() == backend.table("t").snapshots()
        table.truncate(RowRange(b"k", b"q"))
        table.compact()
        assert rows_of(table) == [b"a", b"z"]
        table.drop_snapshot("s")
        with pytest.raises(NotFound, match="'s'"):
            table.drop_snapshot("s")
    backend.close()


def test_a_pin_says_which_files_to_read(tmp_path: Path) -> None:
    with stele.open(tmp_path / "db") as db:
        db.create_table("t").put(b"a", {"f:q": b"v"})
    backend = open_embedded(str(tmp_path / "db"))
    with remote(backend, tmp_path) as (client, _):
        table = client.table("t")
        plan = table.pin(None, MINUTE_US)
        assert plan.table == table.id
        assert sum(len(tablet.references) for tablet in plan.tablets) >= 1
        assert table.renew_pin(plan.lease, 2 * MINUTE_US) > plan.expires_us
        table.release_pin(plan.lease)
        with pytest.raises(NotFound):
            table.renew_pin(plan.lease, MINUTE_US)
    backend.close()


def test_an_import_from_another_process(tmp_path: Path) -> None:
    backend = open_embedded(str(tmp_path / "db"))
    with remote(backend, tmp_path) as (client, _):
        table = client.create_table("t", Schema(), [b"m"])
        ticket = table.begin_import("job", MINUTE_US)
        assert ticket.location == str(tmp_path / "db" / "fragments")
        (info,) = write_fragment(
            PosixFileSystem(ticket.location),
            "",
            writer_names(ticket.token, 0, 0),
            [block(Cell(b"a", "f", b"q", 1), Cell(b"z", "f", b"q", 1))],
            table=ticket.table,
        )
        assert table.renew_import("job", ticket.token, MINUTE_US) > 0
        txn = table.commit_import("job", ticket.token, [info])
        assert table.begin_import("job", MINUTE_US).txn == txn
        assert rows_of(table) == [b"a", b"z"]
        other = table.begin_import("other", MINUTE_US)
        table.abort_import("other", other.token)
        with pytest.raises(Conflict, match="given up"):
            table.commit_import("other", other.token, ())
    backend.close()


def test_numbered_writes_from_another_process(tmp_path: Path) -> None:
    backend = open_embedded(str(tmp_path / "db"))
    with remote(backend, tmp_path) as (client, _):
        table = client.create_table("t", Schema(), [b"m"])
        assert table.last_numbered("w") is None
        batch = MutationBatch()
        for row in (b"a", b"z"):
            batch.put(row, "f", b"q", b"v")
        txn = table.apply_numbered(NumberedWrite("w", 4), batch.to_arrow())
        assert table.apply_numbered(NumberedWrite("w", 3), batch.to_arrow()) == txn
        assert table.last_numbered("w") == LastWrite(4, txn)
        ticket = table.begin_import("job", MINUTE_US)
        assert table.commit_import("job", ticket.token, (), NumberedWrite("w", 4)) == txn
        ticket = table.begin_import("job", MINUTE_US)
        assert table.commit_import("job", ticket.token, (), NumberedWrite("w", 5)) > txn
        ticket = table.begin_import("job", MINUTE_US)
        table.forget_import("job", ticket.token)
        with pytest.raises(NotFound, match="no job"):
            table.renew_import("job", ticket.token, MINUTE_US)
        with pytest.raises(InvalidArgument, match="name of a writer"):
            table.apply_numbered(NumberedWrite("", 1), batch.to_arrow())
        assert rows_of(table) == [b"a", b"z"]
    backend.close()
