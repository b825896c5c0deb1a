from __future__ import annotations

import msgspec
import pytest

from stele.errors import InvalidArgument
from stele.model.columns import ColumnSelection
from stele.model.filters import prefix
from stele.model.limits import BATCH_BYTES_MAX, BATCH_CELLS_MAX
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import RowRange
from stele.protocol import tables as protocol
from stele.rpc.identity import PeerIdentity, Proof, Role

RICH = CellSpec(
    columns=ColumnSelection.parse(["f:q", "g:"]),
    time_start=-5,
    versions=None,
    filters=(prefix("value", b"\x00\xff"),),
    at=7,
)


def rich_fields() -> dict[str, object]:
    return msgspec.structs.asdict(RICH)


@pytest.mark.parametrize(
    "message",
    [
        protocol.PointReads((protocol.PointRead("t", b"\xff\x00", True, RICH),)),
        protocol.PointReads((protocol.PointRead("t", b"r"),)),
        protocol.ReadRows("t", ReadSpec(rows=(b"a", b"b"), **rich_fields())),  # type: ignore[arg-type]
        protocol.ScanRows("t", ScanSpec(ranges=(RowRange(b"a", b"b"),), limit=3, reverse=True)),
        protocol.TableRange("t", RowRange(b"x")),
        protocol.Writes(
            b"client",
            (
                protocol.Write("t", 3, 9, ((b"r", "f", 2, b"q", 1 << 63, 4, b"v"),), 5),
                protocol.Write("t", 0, 10),
            ),
        ),
        protocol.PointAnswers((protocol.PointAnswer(3, 1, (("f", b"q", -4, 3, b"v"),)),)),
        protocol.TabletDescriptions(
            (protocol.TabletDescription("t.1", RowRange(), "active", 2, 9, {"files": ["a"]}),)
        ),
    ],
)
def test_a_message_survives_the_wire(message: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(data, type=type(message)) == message


def test_a_specification_is_checked_when_it_comes_in() -> None:
    data = msgspec.msgpack.encode({"table": "t", "spec": {"kind": "scan", "limit": 0}})
    with pytest.raises(InvalidArgument, match="limit"):
        protocol.SCAN.decode_request(data)


def test_a_lane_that_is_no_lane_is_refused() -> None:
    data = msgspec.msgpack.encode(
        {"client": b"c", "writes": [["t", protocol.LANES_MAX, 1, None, None]]}
    )
    with pytest.raises(msgspec.ValidationError):
        protocol.WRITE.decode_request(data)


def test_only_clients_and_admins_may_call() -> None:
    for method in protocol.TABLES.methods():
        admitted = {
            role
            for role in Role
            if method.permission.admits(PeerIdentity(frozenset({role}), "", Proof.KERNEL))
        }
        assert admitted == {Role.CLIENT, Role.ADMIN}, method.full_name


def test_the_largest_batch_fits_into_a_frame() -> None:
    overhead_bytes = 48
    assert BATCH_BYTES_MAX + BATCH_CELLS_MAX * overhead_bytes < protocol.FRAME_BYTES_MAX
    assert protocol.TABLE_LIMITS.outbox_bytes_max > protocol.FRAME_BYTES_MAX
