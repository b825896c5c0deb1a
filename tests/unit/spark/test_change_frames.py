"""``ss.changes`` refuses what makes no sense before Spark is asked for anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stele
from stele.errors import InvalidArgument, SnapshotTooOld
from stele.spark.change_frames import changes


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"changes": "some"}, "net or all"),
        ({"changes": "all", "shape": "rows"}, "shape='cells'"),
        ({"versions": None}, "one version"),
        ({"since": None}, "since=0"),
        ({"since": 7, "until": 5}, "rising"),
        ({"lease": "soon"}, "lease"),
        ({"partitions": 0}, "partitions"),
        ({"columns": ["other:"], "names": "short"}, "names is one of"),
    ],
)
def test_arguments_are_checked(tmp_path: Path, arguments: dict[str, Any], reason: str) -> None:
    with stele.open(tmp_path) as db:
        table = db.create_table("t", stele.Schema(columns={"info:age": "int64"}))
        with pytest.raises(InvalidArgument, match=reason):
            changes(None, table, **{"since": 0, **arguments})


def test_forgotten_changes_are_refused(tmp_path: Path) -> None:
    with stele.open(tmp_path) as db:
        table = db.create_table("t", stele.Schema(columns={"info:age": "int64"}))
        since = table.put(b"a", {"info:age": 1})
        table.truncate()
        with pytest.raises(SnapshotTooOld, match="forgotten"):
            changes(None, table, since=since)
