"""Addresses are read strictly, and plaintext stays on this machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.rpc.addresses import (
    TcpAddress,
    UnixAddress,
    check_plaintext,
    is_loopback,
    parse_address,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7420", TcpAddress("127.0.0.1", 7420)),
        ("db.example.org:0", TcpAddress("db.example.org", 0)),
        ("[::1]:65535", TcpAddress("::1", 65535)),
        ("unix:/run/stele.sock", UnixAddress("/run/stele.sock")),
        ("unix:relative.sock", UnixAddress("relative.sock")),
    ],
)
def test_addresses_read_as_they_are_written(text: str, address: object) -> None:
    assert parse_address(text) == address
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":7",
        "host:x",
        "host:-1",
        "host:65536",
        "host:\uff17",
        "unix:",
        "unix:a\0b",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_address(text)


def test_a_socket_path_that_the_system_cannot_take_is_refused_with_its_size() -> None:
    parse_address("unix:/" + "x" * 106)
    with pytest.raises(InvalidArgument, match="takes 108 bytes, the system allows 107"):
        parse_address("unix:/" + "x" * 107)
    with pytest.raises(InvalidArgument, match="107"):
        parse_address("unix:/" + "ä" * 54)


@given(st.text(max_size=30))
def test_parsing_raises_nothing_else(text: str) -> None:
    try:
        address = parse_address(text)
    except InvalidArgument:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::1%lo", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("127.0.0.1.example.org", False),
    ],
)
def test_loopback_is_judged_by_number(host: str, inside: bool) -> None:
    assert is_loopback(host) is inside


def test_plaintext_is_refused_where_others_can_reach() -> None:
    check_plaintext(UnixAddress("/x"), ["10.0.0.1"], "listen at")
    check_plaintext(TcpAddress("localhost", 1), ["127.0.0.1", "::1"], "listen at")
    with pytest.raises(InvalidArgument, match=r"0\.0\.0\.0 is not a loopback address"):
        check_plaintext(TcpAddress("0.0.0.0", 1), ["0.0.0.0"], "listen at")


def test_a_name_counts_only_if_all_it_stands_for_does() -> None:
    with pytest.raises(InvalidArgument, match=r"10\.0\.0\.1"):
        check_plaintext(TcpAddress("localhost", 1), ["127.0.0.1", "10.0.0.1"], "connect to")
