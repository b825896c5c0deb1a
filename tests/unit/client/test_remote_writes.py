from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from stele.client import remote_writes
from stele.client.remote_table import RemoteTable
from stele.client.remote_writes import Lanes
from stele.errors import DeadlineExceeded, InvalidCells, SteleError, Throttled, Unavailable
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.schema import Schema
from tests.oracles.model_backend import Done, ModelBackend, ModelTable
from tests.unit.tserver.serving import remote

SECOND_US = 1_000_000


def put(row: bytes, value: bytes, family: str = "f") -> MutationBatch:
    batch = MutationBatch()
    batch.put(row, family, b"q", value)
    return batch


def values_of(table: ModelTable) -> list[bytes]:
    return [cell.value for cell in table.cells]


def test_lanes_are_used_again_when_the_outcome_is_known() -> None:
    lanes = Lanes()
    assert [lanes.take() for _ in range(3)] == [0, 1, 2]
    lanes.give_back(1)
    lanes.give_back(0)
    assert [lanes.take() for _ in range(3)] == [0, 1, 3]


def test_lanes_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_writes, "LANES_MAX", 1)
    lanes = Lanes()
    lanes.take()
    with pytest.raises(Unavailable, match="outcome"):
        lanes.take()


def test_writes_arrive_in_the_order_of_their_sending(tmp_path: Path) -> None:
    backend = ModelBackend()
    table = backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (client, _):
        far = client.table("t")
        heard: list[SteleError | None] = []
        pending = [far.apply(put(b"r", b"%d" % number)) for number in range(1_000)]
        pending[0].then(heard.append)
        txns = [one.wait(30 * SECOND_US) for one in pending]
        assert [one.txn for one in pending] == txns == sorted(txns)
        assert heard == [None]
    assert values_of(table) == [b"%d" % number for number in range(1_000)]


def test_the_error_of_one_is_not_that_of_its_neighbours(tmp_path: Path) -> None:
    backend = ModelBackend()
    backend.create_table("t", Schema([Group("g", ["f"])]))
    with remote(backend, tmp_path) as (client, _):
        far = client.table("t")
        pending = [far.apply(put(b"r", b"1", family)) for family in ("f", "other", "f")]
        pending[0].wait(60 * SECOND_US)
        with pytest.raises(InvalidCells, match="other"):
            pending[1].wait(60 * SECOND_US)
        pending[2].wait(60 * SECOND_US)


class CuttingTable(ModelTable):
    """Commits, and then has the connection cut before the answer is sent."""

    cut: Any = None
    cuts_left = 5
    every = 7

    def apply(self, mutations: Any, **more: Any) -> Done:
        done = super().apply(mutations, **more)
        if self.cuts_left and len(self.cells) % self.every == 0:
            self.cuts_left -= 1
            self.cut()
        return done


def cutting(backend: ModelBackend) -> CuttingTable:
    table = backend.create_table("t", Schema())
    table.__class__ = CuttingTable
    assert isinstance(table, CuttingTable)
    return table


def test_what_was_lost_is_sent_again_and_takes_effect_once_and_in_order(tmp_path: Path) -> None:
    backend = ModelBackend()
    table = cutting(backend)
    with remote(backend, tmp_path) as (client, served):
        table.cut = served.cut
        far = client.table("t")
        pending = [far.apply(put(b"r", b"%d" % number)) for number in range(100)]
        txns = [one.wait(30 * SECOND_US) for one in pending]
        assert txns == sorted(txns)
    assert table.cuts_left == 0
    assert values_of(table) == [b"%d" % number for number in range(100)]


def test_a_store_that_does_not_come_back_fails_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_writes, "RECONNECT_US", SECOND_US // 5)
    backend = ModelBackend()
    backend.create_table("t", Schema())
    with remote(backend, tmp_path) as (client, served):
        far = client.table("t")
        far.apply(put(b"r", b"0")).wait(60 * SECOND_US)
        served.stop()
        pending = [far.apply(put(b"r", b"%d" % number)) for number in range(50)]
        for one in pending:
            with pytest.raises(Unavailable, match="explained"):
                one.wait(60 * SECOND_US)
        served.start()
        far.apply(put(b"r", b"again")).wait(60 * SECOND_US)


class SlowTable(ModelTable):
    """Takes writes when the test allows it."""

    gate: threading.Event

    def apply(self, mutations: Any, **more: Any) -> Done:
        self.gate.wait(60)
        return super().apply(mutations, **more)


def slow(backend: ModelBackend) -> SlowTable:
    table = backend.create_table("t", Schema())
    table.__class__ = SlowTable
    assert isinstance(table, SlowTable)
    table.gate = threading.Event()
    return table


def test_so_much_may_be_under_way_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_writes, "QUEUED_BYTES_MAX", 10_000)
    backend = ModelBackend()
    table = slow(backend)
    with remote(backend, tmp_path) as (client, _):
        far = client.table("t")
        large = far.apply(put(b"r", bytes(20_000)))
        with pytest.raises(Throttled, match="the limit is 10000"):
            far.apply(put(b"r", b"small"))
        table.gate.set()
        large.wait(60 * SECOND_US)
        far.apply(put(b"r", b"small")).wait(60 * SECOND_US)


def test_a_write_that_is_late_says_so_and_its_lane_is_given_up(tmp_path: Path) -> None:
    backend = ModelBackend()
    table = slow(backend)
    with remote(backend, tmp_path) as (client, _):
        far: RemoteTable = client.table("t")
        late = far.within(SECOND_US).apply(put(b"r", b"late"))
        with pytest.raises(DeadlineExceeded):
            late.wait(60 * SECOND_US)
        table.gate.set()
        following = far.apply(put(b"r", b"next"))
        following.wait(60 * SECOND_US)
        assert following.lane != late.lane
    assert values_of(table) == [b"late", b"next"]


def test_closing_waits_for_what_is_under_way(tmp_path: Path) -> None:
    backend = ModelBackend()
    table = slow(backend)
    with remote(backend, tmp_path) as (client, _):
        far = client.table("t")
        for number in range(10):
            far.apply(put(b"r", b"%d" % number))
        threading.Timer(0.05, table.gate.set).start()
    assert values_of(table) == [b"%d" % number for number in range(10)]
