"""Which fragment files may go (T105–T110)."""

from __future__ import annotations

import pytest

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY
from stele.tablet.gc import (
    AFTER_DELETE,
    AFTER_TRASH,
    TRASH_DIRECTORY,
    GcFacts,
    choose_garbage,
    delete_garbage,
    empty_trash,
    move_to_trash,
)

OLD = [f"s00000001-0000000{number}.parquet" for number in range(3)]
OURS = [f"s00000002-0000000{number}.parquet" for number in range(3)]


def test_t106_a_file_goes_only_if_no_config_refers_to_it() -> None:
    facts = GcFacts(OLD, referenced={OLD[1]}, live={})
    assert choose_garbage(facts) == [OLD[0], OLD[2]]


def test_t107_t110_files_of_a_living_session_go_only_below_its_low_water() -> None:
    facts = GcFacts([*OURS, *OLD], referenced=(), live={"s00000002": 1})
    assert choose_garbage(facts) == [*OLD, OURS[0]]
    assert choose_garbage(GcFacts(OURS, (), {"s00000002": 0})) == []


def test_t109_a_session_is_known_by_its_whole_name() -> None:
    recovered = "s00000002.r-00000000.parquet"
    assert choose_garbage(GcFacts([recovered], (), {"s00000002": 0})) == [recovered]


def test_names_that_are_not_ours_are_never_touched() -> None:
    strange = ["README", ".hidden", "s1.parquet", "x-0.parquet.tmp", "_SUCCESS"]
    assert choose_garbage(GcFacts(strange, (), {})) == []


def with_files(*names: str) -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.mkdir(FRAGMENT_DIRECTORY)
    for name in names:
        files.write_atomic(f"{FRAGMENT_DIRECTORY}/{name}", b"x")
    return files


def test_garbage_is_deleted_a_round_later() -> None:
    files = with_files(*OLD)
    move_to_trash(files, FRAGMENT_DIRECTORY, OLD[:2])
    assert files.list(FRAGMENT_DIRECTORY) == [OLD[2]]
    assert files.list(TRASH_DIRECTORY) == OLD[:2]
    assert empty_trash(files) == OLD[:2]
    assert files.list(TRASH_DIRECTORY) == []
    assert empty_trash(files) == []


def test_a_file_that_is_gone_already_is_passed_over() -> None:
    files = with_files(OLD[2])
    move_to_trash(files, FRAGMENT_DIRECTORY, OLD)
    assert files.list(TRASH_DIRECTORY) == [OLD[2]]


def test_without_garbage_there_is_no_trash() -> None:
    files = with_files()
    move_to_trash(files, FRAGMENT_DIRECTORY, [])
    assert not files.exists(TRASH_DIRECTORY)
    assert empty_trash(files) == []


@pytest.mark.parametrize("name", [AFTER_TRASH, AFTER_DELETE])
def test_a_round_that_was_cut_short_is_taken_up_by_the_next(name: str) -> None:
    files = with_files(*OLD)

    def round_of_two() -> None:
        move_to_trash(files, FRAGMENT_DIRECTORY, OLD[:2])
        empty_trash(files)

    with armed(name, crash(), hit=1), pytest.raises(SimulatedCrash):
        round_of_two()
    after = files.restarted()
    move_to_trash(after, FRAGMENT_DIRECTORY, OLD[:2])
    empty_trash(after)
    assert after.list(FRAGMENT_DIRECTORY) == [OLD[2]]
    assert after.list(TRASH_DIRECTORY) == []


def test_files_of_an_import_that_may_be_committed_stay() -> None:
    files = ["i01.0.3-00000000.parquet", "i02.0.3-00000000.parquet"]
    assert choose_garbage(GcFacts(files, (), {}, importing={"i01"})) == files[1:]


def test_garbage_is_deleted_at_once_when_that_is_asked_for() -> None:
    files = MemoryFileSystem()
    files.mkdir(FRAGMENT_DIRECTORY)
    for name in OLD[:2]:
        files.write_atomic(f"{FRAGMENT_DIRECTORY}/{name}", b"x")
    delete_garbage(files, FRAGMENT_DIRECTORY, [OLD[0], OLD[2]])
    assert files.list(FRAGMENT_DIRECTORY) == [OLD[1]]
    assert not files.exists(TRASH_DIRECTORY)
