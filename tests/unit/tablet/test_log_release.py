"""Log files that nobody needs (T47, T105)."""

from __future__ import annotations

from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import SteleError
from stele.storage.log_segments import list_files
from stele.storage.log_spares import SPARES_MAX
from stele.tablet.engine import Engine
from stele.tablet.flush import Flush
from stele.tablet.log_release import release_log
from stele.tablet.options import EngineOptions
from tests.unit.tablet.engine_support import (
    TABLE,
    SavedConfigs,
    memory_world,
    new_engine,
    puts,
    served,
)

SMALL_FILES = EngineOptions(background=False, log_file_bytes=1024)


def flush(engine: Engine) -> list[SteleError | None]:
    ended: list[SteleError | None] = []
    assert Flush.start(engine, engine.table(TABLE), ended.append)
    return ended


def fill(engine: Engine, count: int = 10) -> None:
    for number in range(count):
        engine.apply(TABLE, puts((b"row%d" % number, "f", b"x" * 400))).wait()


def log_files(engine: Engine) -> list[int]:
    return list_files(engine.world.files, engine.log_directory)


def test_t47_t105_log_files_die_when_everything_in_them_is_saved() -> None:
    engine = new_engine(memory_world(), SavedConfigs(), options=SMALL_FILES)
    served(engine)
    fill(engine, 4 * SPARES_MAX)
    files = engine.world.files
    before = files.list(engine.log_directory)
    assert len(before) > SPARES_MAX + 3
    assert flush(engine) == [None]
    assert len(files.list(engine.log_directory)) < len(before)


def test_files_that_are_given_up_are_written_once_more() -> None:
    files = MemoryFileSystem()
    engine = new_engine(memory_world(files), SavedConfigs(), options=SMALL_FILES)
    served(engine)
    files.disk.steps = []
    for _ in range(5):
        fill(engine)
        assert flush(engine) == [None]
    reused = [step for step in files.disk.steps if step.name == "reuse"]
    assert len(reused) >= 2 * SPARES_MAX
    engine.close()
    assert [name for name in files.list(engine.log_directory) if name.endswith(".spare")] == []


def test_a_log_file_that_cannot_be_deleted_does_no_harm() -> None:
    files = MemoryFileSystem(faults=Faults(Fault(Failure.EIO, 1, kinds={Call.DELETE})))
    engine = new_engine(memory_world(files), SavedConfigs(), options=SMALL_FILES)
    served(engine)
    for _ in range(2):
        fill(engine, 4 * SPARES_MAX)
        assert flush(engine) == [None]
    assert engine.failure is None
    assert files.faults.fired == 1
    assert len(log_files(engine)) < 5


def test_a_table_that_is_not_flushed_keeps_its_files() -> None:
    engine = new_engine(memory_world(), SavedConfigs(), options=SMALL_FILES)
    served(engine)
    fill(engine)
    before = engine.world.files.list(engine.log_directory)
    release_log(engine)
    assert engine.world.files.list(engine.log_directory) == before


def test_a_table_that_is_gone_keeps_no_files() -> None:
    engine = new_engine(memory_world(), SavedConfigs(), options=SMALL_FILES)
    served(engine)
    fill(engine)
    engine.remove_table(TABLE)
    release_log(engine)
    assert len(log_files(engine)) == 1
    assert len(engine.log.files) == 1


def test_a_log_that_has_ended_is_left_as_it_is() -> None:
    engine = new_engine(memory_world(), SavedConfigs(), options=SMALL_FILES)
    served(engine)
    fill(engine)
    engine.remove_table(TABLE)
    engine.log.close()
    before = engine.world.files.list(engine.log_directory)
    release_log(engine)
    assert engine.world.files.list(engine.log_directory) == before
