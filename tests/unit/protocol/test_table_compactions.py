"""Messages of compactions elsewhere survive the wire, and who may send them is said."""

from __future__ import annotations

import msgspec
import pytest

from stele.model.ranges import RowRange
from stele.protocol import table_compactions as protocol
from stele.protocol.tables import TABLES
from stele.storage.compaction_work import UnitOutcome


@pytest.mark.parametrize(
    "message",
    [
        protocol.PlanCompaction("t", RowRange(b"a"), 1 << 40, 7),
        protocol.CompactionPlanned(b"\x00"),
        protocol.CompactedUnits("t", "job", "token", b"\xff"),
        protocol.CompactionPublished((UnitOutcome(1), UnitOutcome(0, ("gone",)))),
    ],
)
def test_messages_survive_the_wire(message: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(data, type=type(message)) == message


def test_they_belong_to_the_table_service() -> None:
    names = {method.name for method in TABLES.methods()}
    assert {"plan-compaction", "publish-compaction"} <= names
