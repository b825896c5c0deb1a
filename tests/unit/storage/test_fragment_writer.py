"""Runs of files: where they are cut, what is durable when, and what a failure leaves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.disk import Step
from stele.env.failpoints import SimulatedCrash, armed, counting, crash, fail
from stele.env.faults import Call, Failure, Fault, Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import InvalidArgument, OutOfSpace, SteleError, StorageFailed
from stele.model.cells import Cell
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_writer import FragmentWriter, write_fragment
from tests.unit.storage.fragment_cases import (
    DIRECTORY,
    ROWS,
    SMALL,
    SORTED_CELLS,
    TABLE,
    new_fs,
    plain_cells,
    read_all,
    to_blocks,
    write,
)

FAILPOINTS = [
    "storage.fragment.after_create",
    "storage.fragment.after_group",
    "storage.fragment.after_footer",
    "storage.fragment.after_sync",
    "storage.fragment.after_sync_dir",
]


def check_run(infos: tuple[FragmentInfo, ...]) -> None:
    """Files of one run have distinct names and rows in order."""
    assert len({info.name for info in infos}) == len(infos)
    for before, after in pairwise(infos):
        assert before.summary.last_row < after.summary.first_row


@settings(max_examples=60)
@given(SORTED_CELLS, st.integers(1, 50), st.integers(1, 8), st.integers(1, 3))
def test_a_run_of_files_is_the_cells_in_order(
    cells: list[Cell], block_size: int, block_cells: int, file_groups: int
) -> None:
    fs = new_fs()
    options = FragmentOptions(block_cells=block_cells, file_groups=file_groups)
    infos = write(fs, cells, options, block_size=block_size)
    check_run(infos)
    assert read_all(fs, infos) == cells
    assert sum(info.summary.cells for info in infos) == len(cells)


def test_a_file_ends_after_its_row_groups() -> None:
    infos = write(new_fs(), plain_cells(160), FragmentOptions(block_cells=16, file_groups=4))
    assert [info.summary.cells for info in infos] == [64, 64, 32]


def test_a_file_ends_after_its_bytes() -> None:
    cells = [Cell(b"%05d" % at, "f", b"", 0, bytes(1_000)) for at in range(64)]
    options = FragmentOptions(block_cells=4, file_bytes=20_000, compression="none")
    infos = write(new_fs(), cells, options)
    check_run(infos)
    assert 3 <= len(infos) <= 5


def test_long_first_rows_end_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stele.storage.fragment_file.FIRST_ROWS_BYTES_MAX", 1_000)
    cells = [Cell(b"%05d" % at + bytes(300), "f", b"", 0) for at in range(16)]
    assert len(write(new_fs(), cells, FragmentOptions(block_cells=1))) == 4


def test_a_row_is_never_in_two_files() -> None:
    infos = write(
        new_fs(), plain_cells(300, per_row=100), FragmentOptions(block_cells=10, file_groups=2)
    )
    assert [info.summary.rows for info in infos] == [1, 1, 1]


@settings(max_examples=60)
@given(SORTED_CELLS, st.sets(ROWS, max_size=5), st.integers(1, 50))
def test_no_file_crosses_a_border(cells: list[Cell], rows: set[bytes], block_size: int) -> None:
    borders = sorted(rows)
    fs = new_fs()
    infos = write(fs, cells, SMALL, block_size=block_size, borders=borders)
    check_run(infos)
    assert read_all(fs, infos) == cells
    for info in infos:
        assert not any(info.summary.first_row < row <= info.summary.last_row for row in borders)
    sides = {sum(border <= cell.row for border in borders) for cell in cells}
    assert len(infos) == len(sides)


def test_borders_must_ascend() -> None:
    with pytest.raises(InvalidArgument, match="must ascend"):
        write(new_fs(), plain_cells(4), borders=[b"b", b"a"])


def test_no_cells_make_no_file() -> None:
    fs = new_fs()
    assert write(fs, []) == ()
    assert fs.list(DIRECTORY) == []


def test_a_name_we_would_not_make_is_refused() -> None:
    fs = new_fs()
    with pytest.raises(InvalidArgument, match="is not the name of a fragment"):
        write_fragment(fs, DIRECTORY, lambda: "../x", to_blocks(plain_cells(4)), table=TABLE)
    assert fs.list(DIRECTORY) == []


def test_nothing_is_promised_before_finish() -> None:
    fs = new_fs()
    with FragmentWriter(fs, DIRECTORY, NameSequence("s"), table=TABLE, options=SMALL) as writer:
        for block in to_blocks(plain_cells(100), 10):
            writer.append(block)
        assert fs.list(DIRECTORY) == ["s-00000000.parquet"]
    assert fs.list(DIRECTORY) == [], "leaving without finish removes the files"


def test_a_finished_fragment_stays() -> None:
    fs = new_fs()
    with FragmentWriter(fs, DIRECTORY, NameSequence("s"), table=TABLE, options=SMALL) as writer:
        writer.append(to_blocks(plain_cells(100))[0])
        infos = writer.finish()
    assert read_all(fs, infos) == plain_cells(100)
    with pytest.raises(AssertionError, match="is finished"):
        writer.finish()


def test_every_failpoint_is_passed() -> None:
    with counting() as passes:
        write(new_fs(), plain_cells(64), FragmentOptions(block_cells=16, file_groups=2))
    assert passes == {
        "storage.fragment.after_create": 2,
        "storage.fragment.after_group": 4,
        "storage.fragment.after_footer": 2,
        "storage.fragment.after_sync": 2,
        "storage.fragment.after_sync_dir": 1,
    }


@pytest.mark.parametrize("name", FAILPOINTS)
def test_an_error_leaves_nothing_behind(name: str) -> None:
    fs = new_fs()
    with armed(name, fail()), pytest.raises(StorageFailed, match=name):
        write(fs, plain_cells(64))
    assert fs.list(DIRECTORY) == []


@pytest.mark.parametrize("name", FAILPOINTS)
def test_a_crash_leaves_only_what_nobody_was_told_of(name: str) -> None:
    fs = new_fs()
    with armed(name, crash()), pytest.raises(SimulatedCrash):
        write(fs, plain_cells(64))
    for found in fs.crash_image().list(DIRECTORY):
        assert found == "session-1-00000000.parquet"


def test_the_order_of_what_is_made_durable() -> None:
    """The data of each file, then the names of all."""
    fs = new_fs()
    steps: list[Step] = []
    fs.disk.steps = steps
    write(fs, plain_cells(64), FragmentOptions(block_cells=16, file_groups=2))
    first, second = (f"{DIRECTORY}/session-1-0000000{n}.parquet" for n in (0, 1))
    said = [(step.name, step.path) for step in steps if step.name in ("make", "sync")]
    assert said == [
        ("make", first),
        ("sync", first),
        ("make", second),
        ("sync", second),
        ("sync", DIRECTORY),
    ]
    writes = [at for at, step in enumerate(steps) if step.name == "write" and step.path == first]
    synced = next(at for at, step in enumerate(steps) if step.name == "sync")
    assert max(writes) < synced


def test_a_full_disk_is_named_and_the_space_given_back() -> None:
    fs = MemoryFileSystem(capacity_bytes=6_000)
    fs.mkdir(DIRECTORY)
    cells = [Cell(b"%05d" % at, "f", b"", 0, bytes([at % 256]) * 999) for at in range(400)]
    with pytest.raises(OutOfSpace):
        write(fs, cells, FragmentOptions(block_cells=4, compression="none"))
    assert fs.list(DIRECTORY) == []
    assert read_all(fs, write(fs, cells[:2], session="s-2")) == cells[:2]


def test_what_cannot_be_removed_does_not_hide_the_error() -> None:
    faults = Faults(
        Fault(Failure.EIO, 1, kinds={Call.SYNC}), Fault(Failure.EIO, 1, kinds={Call.DELETE})
    )
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    fs = MemoryFileSystem(fs.disk, faults=faults)
    with pytest.raises(SteleError) as raised:
        write(fs, plain_cells(64))
    assert isinstance(raised.value, StorageFailed)
