"""Recovery by other hands: the same as recovery by the next owner, and repeatable at every step."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stele
from stele.cluster.offline_recovery import recovering
from stele.env.failpoints import SimulatedCrash, armed, crash, declared
from stele.errors import Corruption, DirectoryInUse, NotFound
from stele.spark.recover_task import encode_task, read_pieces, write_parts
from stele.spark.recovering import gathered, planned_parts
from stele.storage.recovery_work import RecoveryWork
from tests.unit.cluster import crashed_directory
from tests.unit.cluster.crashed_directory import copied

FAILPOINTS = sorted(
    name
    for name in declared()
    if name.startswith(("cluster.recovery.", "spark.recover.after_read"))
)

_ATTEMPTS = count()


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crashed") / "db"
    crashed_directory.make(path)
    return path


@pytest.fixture(scope="module")
def expected(crashed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the next owner makes of it by itself."""
    return crashed_directory.contents(copied(crashed, tmp_path_factory.mktemp("expected") / "db"))


@pytest.fixture
def path(crashed: Path, tmp_path: Path) -> Path:
    return copied(crashed, tmp_path / "db")


def carried_out(work: RecoveryWork, processors: int = 2) -> list[dict[str, Any]]:
    """What writers say, without Spark: each piece and each part in its turn."""
    parts = planned_parts(work, processors)
    task = encode_task(work, parts)
    moved: dict[int, list[bytes]] = {}
    for number in range(len(work.pieces)):
        for batch in read_pieces(task, iter([pa.record_batch({"id": [number]})])):
            for line in batch.to_pylist():
                moved.setdefault(line["part"], []).append(line["data"])
    return [
        line
        for part, runs in moved.items()
        for batch in write_parts(task, iter([_runs(part, runs)]), next(_ATTEMPTS))
        for line in batch.to_pylist()
    ]


def _runs(part: int, runs: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch({"part": pa.array([part] * len(runs), pa.int32()), "data": runs})


def recovered(path: Path) -> int:
    """Recover a directory; how many cells were in the log."""
    with recovering(str(path)) as recovery:
        lines = carried_out(recovery.work)
        recovery.publish(*gathered(recovery.work, lines))
    return sum(line["cells"] for line in lines)


def test_all_is_as_if_the_next_owner_had_done_it(path: Path, expected: dict[str, object]) -> None:
    with recovering(str(path)) as recovery:
        assert len(recovery.work.pieces) > 5
        assert len(recovery.work.tables) == 3
    assert recovered(path) > 300
    found = crashed_directory.contents(path)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name


def test_nothing_is_left_for_the_next_owner(path: Path) -> None:
    recovered(path)
    assert recovered(path) == 0, "a second time there is nothing to do"
    with recovering(str(path)) as recovery:
        assert recovery.work.pieces == ()
        assert {tablet.log for lost in recovery.work.tables for tablet in lost.tablets} == {None}
    with stele.open(path, crashed_directory.BY_HAND) as db:
        assert db.table("many").put(b"00", {"x:y": b"1"}) > 0
    assert not list((path / "log").glob("s00000001/*.log")), "the old logs are gone"


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_crash_anywhere_is_repeated(path: Path, expected: dict[str, object], name: str) -> None:
    with armed(name, crash()), pytest.raises(SimulatedCrash):
        recovered(path)
    recovered(path)
    found = crashed_directory.contents(path)
    assert found["many stored"] == expected["many stored"]
    assert found["many at None"] == expected["many at None"]


def test_a_crash_leaves_it_to_whoever_opens_next(path: Path, expected: dict[str, object]) -> None:
    with armed("cluster.recovery.after_check", crash()), pytest.raises(SimulatedCrash):
        recovered(path)
    assert crashed_directory.contents(path) == expected


def test_damage_is_named_and_nothing_is_changed(path: Path, expected: dict[str, object]) -> None:
    log = sorted((path / "log" / "s00000001").glob("*.log"))[2]
    data = log.read_bytes()
    log.write_bytes(data[:500] + bytes([data[500] ^ 1]) + data[501:])
    with pytest.raises(Corruption, match=log.name):
        recovered(path)
    log.unlink()
    with pytest.raises(Corruption):
        recovered(path)
    log.write_bytes(data)
    recovered(path)
    assert crashed_directory.contents(path)["many stored"] == expected["many stored"]


def test_a_piece_that_nobody_read_is_noticed(path: Path) -> None:
    with recovering(str(path)) as recovery:
        facts, references = gathered(recovery.work, carried_out(recovery.work))
        with pytest.raises(Corruption, match="on record is"):
            recovery.publish(facts[:-1], references)
        fake = {"t": tuple(ref for refs in references.values() for ref in refs)[:1]}
        (path / "fragments" / fake["t"][0].file.name).unlink()
        with pytest.raises(NotFound):
            recovery.publish(facts, fake)


def test_a_directory_that_is_open_or_none_is_refused(path: Path, tmp_path: Path) -> None:
    with (
        stele.open(path, crashed_directory.BY_HAND),
        pytest.raises(DirectoryInUse, match="needs no recovery"),
        recovering(str(path)),
    ):
        pass
    for empty in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotFound, match="no database"), recovering(str(empty)):
            pass
