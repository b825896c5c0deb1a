"""Fragments and power failures: what was reported is whole, what was not is never taken for it.

A run writes fragments and acknowledges each when the writer reports it. After a crash at any moment
every acknowledged file must be there and give back its cells; any other file may be missing or
damaged, but what opens must be whole.
"""

from __future__ import annotations

import os

from stele.env.failpoints import armed, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, NotFound, UnsupportedFormat
from stele.model.cells import Cell
from stele.sim.crash import CrashPoint, Notes, explore
from stele.sim.io_sweep import sweep
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_writer import write_fragment
from tests.unit.storage.fragment_cases import (
    DIRECTORY,
    TABLE,
    cells_of,
    path_of,
    read_all,
    to_blocks,
)

SEED = int(os.environ.get("STELE_CRASH_SEED", "1"))
STATES = int(os.environ.get("STELE_CRASH_STATES", "1500"))

OPTIONS = FragmentOptions(block_cells=8, file_groups=3)


def cells_of_round(number: int) -> list[Cell]:
    return [
        Cell(b"row%03d" % at, "info", b"q", number, bytes([number]) * (at * 7 % 90), txn=number)
        for at in range(40)
    ]


ROUNDS = 3


def setup(fs: MemoryFileSystem) -> None:
    fs.mkdir(DIRECTORY)


def run(fs: MemoryFileSystem, notes: Notes) -> None:
    """Write fragments of two files each; a file is known by its info and the round it is of."""
    names = NameSequence("s")
    for number in range(ROUNDS):
        notes.attempt(number)
        blocks = to_blocks(cells_of_round(number), 15)
        infos = write_fragment(fs, DIRECTORY, names, blocks, table=TABLE, options=OPTIONS)
        notes.ack((number, infos))


def check(fs: MemoryFileSystem, point: CrashPoint) -> None:
    known: set[str] = set()
    for number, infos in point.acked:
        assert read_all(fs, infos) == cells_of_round(number)
        known |= {info.name for info in infos}
    for name in fs.list(DIRECTORY):
        if name not in known:
            check_garbage(fs, name, point)


def check_garbage(fs: MemoryFileSystem, name: str, point: CrashPoint) -> None:
    """A file nobody was told of: refused, or whole and made of cells that were attempted."""
    try:
        with FragmentReader.open(fs, f"{DIRECTORY}/{name}") as reader:
            cells = cells_of(reader.blocks())
            assert len(cells) == reader.summary.cells
    except (Corruption, UnsupportedFormat):
        return
    number = cells[0].txn
    assert number in point.attempted
    whole = cells_of_round(number)
    start = whole.index(cells[0])
    assert cells == whole[start : start + len(cells)]


def test_every_moment_of_writing_fragments() -> None:
    report = explore(run, check, seed=SEED, states_max=STATES, setup=setup)
    print(report)
    report.require(states=400, torn=40, lost=20, kept=20, split=20)


def test_a_process_that_dies_between_two_steps() -> None:
    """The trace ends at a failpoint: nothing is cleaned up, and nothing more is written."""
    for name in ("after_create", "after_group", "after_footer", "after_sync", "after_sync_dir"):

        def dying(fs: MemoryFileSystem, notes: Notes, name: str = name) -> None:
            with armed(f"storage.fragment.{name}", crash(), hit=3):
                run(fs, notes)

        explore(dying, check, seed=SEED, states_max=STATES // 10, setup=setup).require(states=20)


def test_every_call_that_can_fail() -> None:
    report = sweep(run, check, seed=SEED, setup=setup)
    print(report)
    report.require(runs=200, create=6, write=30, sync=6, sync_dir=3)


def test_every_read_that_can_fail() -> None:
    """Opening and reading under failing reads: an error of ours, never other cells."""
    written: list[FragmentInfo] = []

    def prepare(fs: MemoryFileSystem) -> None:
        setup(fs)
        blocks = to_blocks(cells_of_round(1))
        infos = write_fragment(
            fs, DIRECTORY, NameSequence("s"), blocks, table=TABLE, options=OPTIONS
        )
        written[:] = infos

    def reading(fs: MemoryFileSystem, notes: Notes) -> None:
        assert read_all(fs, written) == cells_of_round(1)
        with FragmentReader.open(fs, path_of(written[0])) as reader:
            assert reader.may_contain(b"row000", 0)
            assert len(cells_of(reader.blocks(values=False))) == reader.summary.cells

    def still_there(fs: MemoryFileSystem, point: CrashPoint) -> None:
        assert read_all(fs, written) == cells_of_round(1)

    report = sweep(reading, still_there, seed=SEED, setup=prepare)
    print(report)
    report.require(runs=40, read=20, open=3)


def test_a_file_that_is_gone_is_not_found() -> None:
    written: list[FragmentInfo] = []

    def vanishing(fs: MemoryFileSystem, notes: Notes) -> None:
        infos = write_fragment(
            fs, DIRECTORY, NameSequence("s"), to_blocks(cells_of_round(1)), table=TABLE
        )
        written[:] = infos
        fs.delete(path_of(infos[0]))
        fs.sync_dir(DIRECTORY)
        notes.ack("deleted")

    def gone(fs: MemoryFileSystem, point: CrashPoint) -> None:
        if point.acked:
            try:
                FragmentReader.open(fs, path_of(written[0]), written[0])
            except NotFound:
                return
            raise AssertionError("a deleted file came back")

    explore(vanishing, gone, seed=SEED, states_max=100, setup=setup).require(states=20)
