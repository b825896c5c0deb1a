"""Messages about numbered writes travel as they are; ``tests/unit/tserver`` runs the methods."""

from __future__ import annotations

import msgspec
import pytest

from stele.protocol.table_numbered import LastNumbered, NumberedBatch, WriterName
from stele.protocol.tables import TABLES


@pytest.mark.parametrize(
    "message",
    [
        WriterName("t1", "query q"),
        NumberedBatch("t1", "query q", (1 << 63) - 1),
        LastNumbered(),
        LastNumbered(0, 7),
    ],
)
def test_messages_come_back_as_they_were(message: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(data, type=type(message)) == message


def test_no_write_is_not_the_write_with_the_number_zero() -> None:
    assert LastNumbered().sequence is None
    assert LastNumbered(0, 1) != LastNumbered()


def test_they_belong_to_the_table_service() -> None:
    names = {method.name for method in TABLES.methods()}
    assert {"apply-numbered", "last-numbered"} <= names
