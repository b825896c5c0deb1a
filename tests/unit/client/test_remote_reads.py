from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stele.client.backend import Visibility
from stele.client.remote_reads import FRAMES_MAX, PointReader
from stele.errors import DeadlineExceeded, TableNotFound
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec
from stele.model.row import RowCells
from stele.model.schema import Schema
from stele.protocol.tables import PointRead
from stele.tserver import table_service
from tests.oracles.model_backend import ModelBackend, ModelTable
from tests.unit.tserver.serving import link_to, remote

SECOND_US = 1_000_000
READERS = 40


class Gated(ModelTable):
    """Reads wait for the test, and say how many of them wait at once."""

    def arm(self) -> None:
        self.gate = threading.Event()
        self.threads: set[int] = set()

    def read_row(
        self, row: bytes, spec: CellSpec, visibility: Visibility = Visibility.DURABLE
    ) -> tuple[RowCells | None, int]:
        self.threads.add(threading.get_ident())
        self.gate.wait(60)
        return super().read_row(row, spec, visibility)


def gated_backend() -> tuple[ModelBackend, Gated]:
    backend = ModelBackend()
    table = backend.create_table("t", Schema())
    batch = MutationBatch()
    for number in range(READERS):
        batch.put(b"%02d" % number, "f", b"q", b"value %02d" % number)
    table.apply(batch)
    table.__class__ = Gated
    assert isinstance(table, Gated)
    table.arm()
    return backend, table


def test_reads_of_many_threads_travel_together(tmp_path: Path) -> None:
    backend, table = gated_backend()
    frames: list[int] = []
    read_all = table_service.TableService._read_all

    def counted(self: table_service.TableService, reads: tuple[PointRead, ...]) -> object:
        frames.append(len(reads))
        return read_all(self, reads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_service.TableService, "_read_all", counted)
        with remote(backend, tmp_path) as (_, served), ThreadPoolExecutor(READERS) as pool:
            link = link_to(served.address)
            reader = PointReader(link)
            jobs = [
                pool.submit(reader.read, PointRead("t0", b"%02d" % n), 60 * SECOND_US)
                for n in range(READERS)
            ]
            # All frames are on their way; fewer, if the readers were quicker than the first ones.
            while len(table.threads) < FRAMES_MAX and sum(frames) < READERS:
                threading.Event().wait(0.01)
            threading.Event().wait(0.05)
            table.gate.set()
            values = [job.result().cells[0][4] for job in jobs]  # type: ignore[index]
            link.close()
    assert values == [b"value %02d" % n for n in range(READERS)]
    assert sum(frames) == READERS
    assert len(frames) < READERS


def test_an_error_belongs_to_its_read(tmp_path: Path) -> None:
    backend, table = gated_backend()
    table.gate.set()
    with remote(backend, tmp_path) as (_, served):
        link = link_to(served.address)
        reader = PointReader(link)
        with pytest.raises(TableNotFound):
            reader.read(PointRead("nonsense", b"01"), 60 * SECOND_US)
        assert reader.read(PointRead("t0", b"01"), 60 * SECOND_US).cells is not None
        link.close()


def test_a_read_ends_at_its_deadline_and_others_go_on(tmp_path: Path) -> None:
    backend, table = gated_backend()
    with remote(backend, tmp_path) as (_, served):
        link = link_to(served.address)
        reader = PointReader(link)
        with pytest.raises(DeadlineExceeded):
            reader.read(PointRead("t0", b"01"), SECOND_US // 10)
        table.gate.set()
        assert reader.read(PointRead("t0", b"02"), 60 * SECOND_US).cells is not None
        link.close()


def test_answers_that_come_later_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_service, "ANSWER_BYTES_MAX", 1)
    backend, table = gated_backend()
    with remote(backend, tmp_path) as (_, served), ThreadPoolExecutor(READERS) as pool:
        link = link_to(served.address)
        reader = PointReader(link)
        jobs = [
            pool.submit(reader.read, PointRead("t0", b"%02d" % n), 60 * SECOND_US)
            for n in range(READERS)
        ]
        table.gate.set()
        assert [job.result().cells[0][4] for job in jobs] == [  # type: ignore[index]
            b"value %02d" % n for n in range(READERS)
        ]
        link.close()
