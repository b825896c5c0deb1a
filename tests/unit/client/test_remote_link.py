from __future__ import annotations

from pathlib import Path

import pytest

from stele.client import remote_link
from stele.client.remote_link import RemoteLink
from stele.client.waiting import ClientWorld
from stele.env.real import SystemClock, SystemRandom
from stele.errors import DeadlineExceeded, TableNotFound, Unavailable
from stele.protocol.tables import DROP, STATUS, DroppedTable, Nothing
from tests.oracles.model_backend import ModelBackend
from tests.unit.tserver.serving import FixedLocation, ServedBackend

SECOND_US = 1_000_000


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_link, "RECONNECT_US", SECOND_US // 5)


def make_link(location: FixedLocation) -> RemoteLink:
    return RemoteLink(location, ClientWorld(SystemClock(), SystemRandom()))


def test_a_look_survives_a_lost_connection(tmp_path: Path) -> None:
    served = ServedBackend(ModelBackend(), tmp_path / "s")
    link = make_link(FixedLocation(served.address))
    for _ in range(3):
        assert (
            link.call(STATUS, Nothing(), 60 * SECOND_US, repeat=True).message.values["tables"] == 0
        )
        served.cut()
    link.close()
    served.close()


def test_errors_of_the_store_are_not_taken_for_losses(tmp_path: Path) -> None:
    served = ServedBackend(ModelBackend(), tmp_path / "s")
    link = make_link(FixedLocation(served.address))
    with pytest.raises(TableNotFound, match="'x'"):
        link.call(DROP, DroppedTable("x", 0), 60 * SECOND_US, repeat=False)
    link.close()
    served.close()


def test_a_store_that_has_gone_is_explained(tmp_path: Path) -> None:
    served = ServedBackend(ModelBackend(), tmp_path / "s")
    location = FixedLocation(served.address)
    link = make_link(location)
    link.call(STATUS, Nothing(), 60 * SECOND_US, repeat=True)
    served.close()
    for repeat in (True, False):
        with pytest.raises(Unavailable, match="explained"):
            link.call(STATUS, Nothing(), 5 * SECOND_US, repeat=repeat)
    location.here = None
    with pytest.raises(Unavailable, match="explained: the store is nowhere"):
        link.call(STATUS, Nothing(), 5 * SECOND_US, repeat=True)
    link.close()


def test_the_deadline_comes_before_patience_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_link, "RECONNECT_US", 60 * SECOND_US)
    link = make_link(FixedLocation(f"unix:{tmp_path / 'nobody'}"))
    with pytest.raises(DeadlineExceeded):
        link.call(STATUS, Nothing(), SECOND_US // 5, repeat=True)
    link.close()


def test_a_store_that_moved_is_found(tmp_path: Path) -> None:
    here = ServedBackend(ModelBackend(), tmp_path / "a")
    location = FixedLocation(here.address)
    link = make_link(location)
    link.call(STATUS, Nothing(), 60 * SECOND_US, repeat=True)
    there = ServedBackend(ModelBackend(start_txn=5), tmp_path / "b")
    location.here = there.address
    here.close()
    assert (
        link.call(STATUS, Nothing(), 60 * SECOND_US, repeat=True).message.values["durable_txn"] == 5
    )
    link.close()
    there.close()
