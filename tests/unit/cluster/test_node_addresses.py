"""Addresses that a node announces can be called."""

from __future__ import annotations

import pytest

from stele.cluster.node_addresses import check_callable, place_to_listen
from stele.errors import AlreadyExists, InvalidArgument
from stele.rpc.addresses import TcpAddress
from stele.rpc.listening import bind_tcp
from tests.unit.rpc.addresses import free_address


@pytest.mark.parametrize("text", ["127.0.0.1:7420", "[::1]:7420", "node-1.example:7420", "unix:/s"])
def test_what_others_can_call(text: str) -> None:
    check_callable(text, "--advertise")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "--advertise: address 'nonsense' is neither host:port"),
        ("127.0.0.1", "--advertise: address"),
        ("127.0.0.1:99999", "--advertise: port 99999"),
        ("127.0.0.1:0", "names no port"),
        ("0.0.0.0:7420", "is every interface"),
        ("[::]:7420", "is every interface"),
    ],
)
def test_what_nobody_can_call(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        check_callable(text, "--advertise")


def test_a_port_that_is_left_open_is_chosen() -> None:
    host, _, port = place_to_listen("127.0.0.1:0", "", has_tls=False).rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0
    given = free_address()
    assert place_to_listen(given, "", has_tls=False) == given
    assert place_to_listen("unix:/run/s", "", has_tls=False) == "unix:/run/s"


def test_what_cannot_be_listened_at_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="neither host:port"):
        place_to_listen("nonsense", "", has_tls=False)
    with pytest.raises(InvalidArgument, match="without TLS"):
        place_to_listen("0.0.0.0:7420", "", has_tls=False)
    with pytest.raises(InvalidArgument, match="--advertise HOST:PORT"):
        place_to_listen("0.0.0.0:7420", "", has_tls=True)
    taken, address = bind_tcp(TcpAddress("127.0.0.1", 0), has_tls=False)
    with taken:
        taken.listen()
        with pytest.raises(AlreadyExists):
            place_to_listen(str(address), "", has_tls=False)
