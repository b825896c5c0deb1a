"""``ss.check`` in a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.errors import DirectoryInUse

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_a_check_finds_a_flipped_bit(spark: Any, tmp_path: Path) -> None:
    with stele.open(tmp_path) as db:
        users = db.create_table("users", splits=[b"m"])
        for row in (b"a", b"n"):
            users.put(row, {"f:q": b"x" * 100})
            users.flush()
        assert ss.check(spark, users).collect() == []
        with users.files() as files:
            path = Path(files.paths()[0])
        data = bytearray(path.read_bytes())
        data[8] ^= 1
        path.write_bytes(data)
        (line,) = ss.check(spark, users).collect()
        assert (line.kind, line.table, line.subject) == ("damaged-file", "users", path.name)


def test_a_database_that_nobody_has_open(spark: Any, tmp_path: Path) -> None:
    with stele.open(tmp_path) as db:
        users = db.create_table("users")
        users.put(b"a", {"f:q": b"x" * 100})
        users.flush()
        with users.files() as files:
            path = Path(files.paths()[0])
        with pytest.raises(DirectoryInUse):
            ss.check_database(spark, tmp_path)
    assert not ss.check_database(spark, tmp_path, repair=True).is_damaged
    data = bytearray(path.read_bytes())
    data[8] ^= 1
    path.write_bytes(data)
    report = ss.check_database(spark, tmp_path)
    assert report.is_damaged
    assert [finding.subject for finding in report.findings] == [path.name]
