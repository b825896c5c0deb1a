from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from stele.client.backend import Visibility
from stele.env.real import SystemRandom
from stele.errors import (
    InvalidArgument,
    InvalidCells,
    LimitExceeded,
    StaleRow,
    TableNotFound,
    Throttled,
    Unavailable,
)
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.schema import Schema
from stele.protocol import tables as protocol
from stele.rpc.backoff_policy import BackoffPolicy
from stele.rpc.wire_errors import decode_error
from stele.tserver import patience, table_service
from stele.tserver.table_service import TableService
from tests.oracles.model_backend import ModelBackend, ModelScan, ModelTable
from tests.unit.tserver.serving import link_to, remote

SECOND_US = 1_000_000


def one_put(row: bytes, value: bytes = b"v") -> MutationBatch:
    batch = MutationBatch()
    batch.put(row, "f", b"q", value)
    return batch


def write(row: bytes, sequence: int, table: str = "t0", lane: int = 0) -> protocol.Write:
    return protocol.Write(table, lane, sequence, tuple(one_put(row).records()))


def test_all_methods_are_bound() -> None:
    service = TableService(ModelBackend(), SystemRandom())
    assert len(service.bindings()) == len(list(protocol.TABLES.methods()))
    service.close()


def test_each_of_a_frame_is_answered_by_itself(tmp_path: Path) -> None:
    backend = ModelBackend()
    table = backend.create_table("t", Schema())
    table.apply(one_put(b"a"))
    with remote(backend, tmp_path) as (_, served):
        link = link_to(served.address)
        reads = protocol.PointReads(
            (
                protocol.PointRead("t0", b"a"),
                protocol.PointRead("nonsense", b"a"),
                protocol.PointRead("t0", b"missing"),
            )
        )
        good, bad, none = link.call(
            protocol.READ_POINTS, reads, 60 * SECOND_US, repeat=True
        ).message.answers
        assert good.cells is not None
        assert good.cells[0][4] == b"v"
        assert bad.error is not None
        assert isinstance(decode_error(bad.error), TableNotFound)
        assert none.cells is None
        assert none.txn == backend.clock
        writes = protocol.Writes(b"c", (write(b"x", 1), write(b"y", 2, "nonsense"), write(b"z", 3)))
        answers = link.call(protocol.WRITE, writes, 60 * SECOND_US, repeat=False).message.answers
        assert [answer.error is None for answer in answers] == [True, False, True]
        assert answers[0].txn < answers[2].txn
        link.close()


def test_a_write_that_comes_again_takes_effect_once(tmp_path: Path) -> None:
    backend = ModelBackend()
    table = backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (_, served):
        link = link_to(served.address)
        writes = protocol.Writes(b"c", (write(b"x", 1), write(b"x", 1, lane=1)))
        first = link.call(protocol.WRITE, writes, 60 * SECOND_US, repeat=False).message
        repeated = protocol.Writes(
            b"c", tuple(msgspec.structs.replace(one, is_again=True) for one in writes.writes)
        )
        again = link.call(protocol.WRITE, repeated, 60 * SECOND_US, repeat=False).message
        assert first == again
        assert len(table.cells) == 2
        link.close()


def test_what_an_old_connection_still_holds_is_not_taken_for_new(tmp_path: Path) -> None:
    backend = ModelBackend()
    table = backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (_, served):
        link = link_to(served.address)
        again = msgspec.structs.replace(write(b"x", 1), is_again=True)
        link.call(protocol.WRITE, protocol.Writes(b"c", (again,), 2), 60 * SECOND_US, repeat=False)
        leftover = protocol.Writes(b"c", (write(b"x", 1),), 1)
        with pytest.raises(Unavailable):
            link.call(protocol.WRITE, leftover, 60 * SECOND_US, repeat=False)
        assert len(table.cells) == 1
        link.close()


def test_frames_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    backend = ModelBackend()
    backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (_, served):
        link = link_to(served.address)
        without = protocol.Writes(b"c", (protocol.Write("t0", 0, 1),))
        with pytest.raises(InvalidArgument, match="attachments"):
            link.call(protocol.WRITE, without, 60 * SECOND_US, repeat=False)
        many = protocol.PointReads(
            (protocol.PointRead("t0", b"a"),) * (protocol.READS_PER_FRAME_MAX + 1)
        )
        with pytest.raises(LimitExceeded, match="257 reads"):
            link.call(protocol.READ_POINTS, many, 60 * SECOND_US, repeat=False)
        link.close()


class FullTable(ModelTable):
    """Refuses the first writes, as a store does whose memory is full."""

    refusals = 3

    def apply(self, mutations, **more):  # type: ignore[no-untyped-def]
        if self.refusals:
            self.refusals -= 1
            raise Throttled("memory is full")
        return super().apply(mutations, **more)


class FullBackend(ModelBackend):
    def table(self, name: str) -> ModelTable:
        table = super().table(name)
        table.__class__ = FullTable
        return table


def test_a_full_store_is_waited_for_and_nothing_overtakes(tmp_path: Path) -> None:
    backend = FullBackend()
    backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (client, _):
        table = client.table("t")
        pending = [table.apply(one_put(b"row", b"%d" % number)) for number in range(20)]
        txns = [one.wait(60 * SECOND_US) for one in pending]
    assert txns == sorted(txns)
    assert backend.table("t").refusals == 0  # type: ignore[attr-defined]
    assert [cell.value for cell in backend.table("t").cells] == [b"%d" % n for n in range(20)]


def test_a_store_that_stays_full_is_told_when_no_time_is_left_for_another_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_us = 3600 * SECOND_US
    monkeypatch.setattr(patience, "BACKOFF", BackoffPolicy(hour_us, hour_us))
    backend = FullBackend()
    backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (client, _):
        table = client.table("t")
        backend.table("t").refusals = 1_000_000  # type: ignore[attr-defined]
        with pytest.raises(Throttled, match="memory is full"):
            table.within(60 * SECOND_US).apply(one_put(b"r")).wait(60 * SECOND_US)
        backend.table("t").refusals = 0  # type: ignore[attr-defined]
        table.apply(one_put(b"r")).wait(60 * SECOND_US)
    assert len(backend.table("t").cells) == 1


def test_reads_writes_and_conflicts_through_the_socket(tmp_path: Path) -> None:
    backend = ModelBackend()
    backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (client, _):
        table = client.table("t")
        txn = table.apply(one_put(b"a")).wait()
        found, read_txn = table.read_row(b"a", CellSpec(), Visibility.LATEST)
        assert found is not None
        assert [cell.value for cell in found.cells()] == [b"v"]
        assert read_txn >= txn
        cells, _ = table.read_rows(ReadSpec(rows=(b"a", b"b")))
        assert cells.num_rows == 1
        with pytest.raises(StaleRow):
            table.apply(one_put(b"a"), max_txn=txn - 1)
        table.apply(one_put(b"a"), max_txn=txn)
        with pytest.raises(InvalidCells):
            table.apply(MutationBatch())


def test_answers_that_fill_a_frame_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_service, "ANSWER_BYTES_MAX", 100)
    backend = ModelBackend()
    table = backend.create_table("t", Schema())
    for number in range(5):
        table.apply(one_put(b"%d" % number, bytes(60)))
    with remote(backend, tmp_path) as (_, served):
        link = link_to(served.address)
        reads = protocol.PointReads(
            tuple(protocol.PointRead("t0", b"%d" % number) for number in range(5))
        )
        answers = link.call(
            protocol.READ_POINTS, reads, 60 * SECOND_US, repeat=True
        ).message.answers
        assert [answer.later for answer in answers] == [False, False, True, True, True]
        link.close()


def test_scans_are_closed_when_their_reader_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_service, "SCANS_MAX", 2)
    backend = ModelBackend()
    table = backend.create_table("t", Schema())
    batch = MutationBatch()
    for number in range(120):
        batch.put(b"%05d" % number, "f", b"q", bytes(100_000))
    table.apply(batch)
    with remote(backend, tmp_path) as (client, _):
        far = client.table("t")
        first, second = far.scan(ScanSpec()), far.scan(ScanSpec())
        assert next(first).num_rows > 0
        with pytest.raises(Throttled, match="2 scans"):
            far.scan(ScanSpec())
        first.close()
        second.close()
        wait_until_closed(table.open_scans)
        assert far.scan(ScanSpec(limit=1)).txn == backend.clock


def test_scans_are_closed_when_their_readers_process_is_gone(tmp_path: Path) -> None:
    backend = ModelBackend()
    table = backend.create_table("t", Schema())
    batch = MutationBatch()
    for number in range(120):
        batch.put(b"%05d" % number, "f", b"q", bytes(100_000))
    table.apply(batch)
    with remote(backend, tmp_path) as (client, served):
        scan = client.table("t").scan(ScanSpec())
        assert next(scan).num_rows > 0
        assert not table.open_scans[0].closed
        served.cut()
        wait_until_closed(table.open_scans)
        with pytest.raises(Unavailable, match="explained"):
            list(scan)


def wait_until_closed(scans: list[ModelScan]) -> None:
    for _ in range(1_000):
        if all(scan.closed for scan in scans):
            return
        threading.Event().wait(0.01)
    raise AssertionError("a scan stayed open")
