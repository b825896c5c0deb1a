"""The metastore's messages: short, stable, and readable by a later version."""

from __future__ import annotations

import msgspec
import pytest

from stele.protocol import metastore as p
from stele.protocol.metastore_values import Identity, KeyRange, Put

MESSAGES = [
    (p.GetRequest("/a", 7, serializable=True), b"\x93\xa2/a\x07\xc3"),
    (p.ReadIndexRequest(), b"\x90"),
    (
        p.ExecuteRequest(Identity(1, 2, 0), (Put("/a", b"v"),)),
        b"\x94\x94\x01\x02\x00\x00\x91\x94\x01\xa2/a\xc4\x01v\x00\x90\x90",
    ),
    (p.WatchRequest(KeyRange("/a/", "/a0"), 3), b"\x92\x92\xa3/a/\xa3/a0\x03"),
    (p.LockResponse(4, 9), b"\x93\x04\x09\xc2"),
]


@pytest.mark.parametrize(("message", "data"), MESSAGES)
def test_bytes_do_not_change(message: msgspec.Struct, data: bytes) -> None:
    assert msgspec.msgpack.encode(message) == data
    assert msgspec.msgpack.decode(data, type=type(message)) == message


def test_a_field_that_is_not_known_yet_is_passed_over() -> None:
    assert msgspec.msgpack.decode(b"\x92\x07\xc3", type=p.IndexResponse) == p.IndexResponse(7)


def test_numbers_of_methods_are_never_used_again() -> None:
    assert {method.number & 0xFF: method.name for method in p.METASTORE.methods()} == {
        1: "get",
        2: "range",
        3: "read-index",
        4: "execute",
        5: "commit",
        6: "open-session",
        7: "keep-alive",
        8: "close-session",
        9: "acquire",
        10: "await-lock",
        11: "leave-lock",
        12: "release",
        13: "watch",
        14: "status",
        15: "change-members",
        16: "transfer",
        17: "join",
        18: "backup",
        19: "clear-alarm",
        20: "set-acl",
        21: "switch-acl",
        22: "set-quota",
        23: "get-acl",
        24: "get-many",
        25: "execute-many",
    }
