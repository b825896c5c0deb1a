"""Work of a recovery survives its bytes."""

from __future__ import annotations

import msgspec

from stele.model.column_set import ALL_COLUMNS
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.log_pieces import LogPiece
from stele.storage.recovery_work import LostTablet, LostTableWork, RecoveryWork
from stele.storage.references import FlushMark

WORK = RecoveryWork(
    location="/data",
    fragments="fragments",
    token="s1.x",
    tables=(
        LostTableWork(
            "t1",
            "users",
            "{}",
            (
                LostTablet(RowRange(b"", b"m"), (FlushMark(EVERYTHING, ALL_COLUMNS, 7),), "log/s1"),
                LostTablet(RowRange(b"m"), (), None),
            ),
        ),
    ),
    pieces=(LogPiece("log/s1", 1, 100), LogPiece("log/s1", 2, 50)),
)


def test_work_survives_its_bytes() -> None:
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(WORK), type=RecoveryWork)
    assert found == WORK
    assert found.log_bytes == 150
    assert found.pieces[1].path == "log/s1/00000002.log"
