"""The values that clients, servers and the log share."""

from __future__ import annotations

import msgspec
import pytest

from stele.protocol.metastore_values import (
    Change,
    Changes,
    Compare,
    CompareField,
    Delete,
    Get,
    Identity,
    KeyRange,
    KeyValue,
    Operation,
    Put,
    Relation,
)

VALUES = [
    KeyValue("/a", b"v", 3, 2, 1),
    Compare("/a", CompareField.VALUE, Relation.EQUAL, b"v"),
    Compare("/a", CompareField.TOKEN, Relation.GREATER, 7),
    KeyRange("/a/", "/a0"),
    Identity(1, 2, 3),
    Changes(7, (Change("/a", None), Change("/b", b"x", 1, 2, 3))),
]


@pytest.mark.parametrize("value", VALUES)
def test_they_survive_the_wire(value: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(value)
    assert msgspec.msgpack.decode(data, type=type(value)) == value


def test_operations_are_told_apart_by_their_tags() -> None:
    operations: tuple[Operation, ...] = (Put("/a", b"v"), Delete("/a"), Get("/a"))
    data = msgspec.msgpack.encode(operations)
    assert msgspec.msgpack.decode(data, type=tuple[Operation, ...]) == operations
    assert [item[0] for item in msgspec.msgpack.decode(data)] == [1, 2, 3]
