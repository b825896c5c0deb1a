"""``ss.recover`` in a real Spark: a killed database is as its next owner would have made it."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.cli.output import Output
from stele.cli.spark_recover import recover as recover_command
from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.errors import Corruption, DirectoryInUse
from tests.unit.cluster import crashed_directory
from tests.unit.cluster.crashed_directory import copied

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at the end of a session.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crashed") / "db"
    crashed_directory.make(path)
    return path


def test_it_is_what_the_next_owner_would_have_made(
    spark: Any, crashed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stele.spark.recover_policy.PART_BYTES_MIN", 8 << 10)
    expected = crashed_directory.contents(copied(crashed, tmp_path / "owner"))
    path = copied(crashed, tmp_path / "spark")
    for name in ("spark.recover.after_plan", "spark.recover.after_tasks"):
        with armed(name, crash()), pytest.raises(SimulatedCrash):
            ss.recover(spark, path)
    report = ss.recover(spark, path)
    assert (report.tables, report.tablets) == (3, 13)
    assert report.log_files > 5
    assert report.cells > 300
    assert report.files > 4, "of several parts"
    found = crashed_directory.contents(path)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name


def test_damage_is_named(spark: Any, crashed: Path, tmp_path: Path) -> None:
    path = copied(crashed, tmp_path / "db")
    log = sorted((path / "log" / "s00000001").glob("*.log"))[2]
    data = log.read_bytes()
    log.write_bytes(data[:500] + bytes([data[500] ^ 1]) + data[501:])
    with pytest.raises(Corruption, match=log.name):
        ss.recover(spark, path)


def test_from_the_command_line(spark: Any, crashed: Path, tmp_path: Path) -> None:
    path = copied(crashed, tmp_path / "db")
    for cells in (True, False):
        out = io.StringIO()
        recover_command(spark, str(path), Namespace(), Output(out, io.StringIO(), as_json=True))
        report = json.loads(out.getvalue())
        assert bool(report["cells"]) is cells, "a second time there is nothing to do"
    with (
        stele.open(path, crashed_directory.BY_HAND),
        pytest.raises(DirectoryInUse, match="needs no recovery"),
    ):
        ss.recover(spark, path)
