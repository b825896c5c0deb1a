"""Columns files, companions and power failures: what was reported is whole, both halves of it.

A run writes fragments of the columns layout, from cells and from wide rows, and acknowledges each
when the writer reports it. After a crash at any moment every acknowledged pair must be there and
give back its cells; any other file may be missing or damaged, but what opens must be whole.
"""

from __future__ import annotations

import os

import pyarrow as pa

from stele.env.failpoints import armed, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, NotFound, UnsupportedFormat
from stele.model.cells import Cell
from stele.sim.crash import CrashPoint, Notes, explore
from stele.sim.io_sweep import sweep
from stele.storage.fragment_check import check_fragment
from stele.storage.fragment_columns_run import write_columns_run
from stele.storage.fragment_columns_writer import write_typed_fragment
from stele.storage.fragment_format import COLUMNS_LAYOUT, FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from tests.unit.storage.columns_cases import SOME_COLUMNS, people, read_files
from tests.unit.storage.fragment_cases import DIRECTORY, TABLE, in_order, path_of, to_blocks

SEED = int(os.environ.get("STELE_CRASH_SEED", "1"))
STATES = int(os.environ.get("STELE_CRASH_STATES", "400"))

OPTIONS = FragmentOptions(block_cells=4, file_groups=2)
ROUNDS = 1

HITS = {
    "after_group": 3,
    "after_companion": 2,
    "after_footer": 2,
    "after_sync": 2,
    "after_sync_dir": 1,
}
"""The failpoints of a columns file, and at which pass the process dies."""


def cells_of_round(number: int) -> list[Cell]:
    odd = [Cell(b"row%05d" % at, "info", b"odd", 1, b"x", txn=1) for at in range(0, 20, 9)]
    return in_order([*people(20, txn=number + 1), *odd])


def wide_rows() -> pa.RecordBatch:
    rows = [b"wide%d" % at for at in range(10)]
    return pa.record_batch(
        {"row": rows, "info:age": list(range(10)), "info:other": [b"x", None] * 5}
    )


def setup(fs: MemoryFileSystem) -> None:
    fs.mkdir(DIRECTORY)


def run(fs: MemoryFileSystem, notes: Notes) -> None:
    names = NameSequence("s")
    for number in range(ROUNDS):
        notes.attempt(number)
        infos = write_typed_fragment(
            fs,
            DIRECTORY,
            names,
            to_blocks(cells_of_round(number), 15),
            table=TABLE,
            columns=SOME_COLUMNS,
            options=OPTIONS,
        )
        assert all(info.layout == COLUMNS_LAYOUT for info in infos)
        notes.ack((cells_of_round(number), infos))
    infos = write_columns_run(
        fs, DIRECTORY, names, [wide_rows()], table=TABLE, columns=SOME_COLUMNS, timestamp=5
    )
    notes.ack((None, infos))


def check(fs: MemoryFileSystem, point: CrashPoint) -> None:
    known: set[str] = set()
    for cells, infos in point.acked:
        found = read_files(fs, infos)
        assert found == cells if cells is not None else len(found) == 15
        known |= {file.name for info in infos for file in info.files}
    for name in fs.list(DIRECTORY):
        if name not in known:
            check_garbage(fs, f"{DIRECTORY}/{name}")


def check_garbage(fs: MemoryFileSystem, path: str) -> None:
    """A file nobody was told of: refused, or whole as far as it and its companion are there."""
    try:
        check_fragment(fs, path)
    except (Corruption, UnsupportedFormat, NotFound):
        return


def test_every_moment_of_writing_columns() -> None:
    report = explore(run, check, seed=SEED, states_max=STATES, setup=setup)
    print(report)
    report.require(states=150, torn=20, lost=10, kept=10, split=10)


def test_a_process_that_dies_between_two_steps() -> None:
    for name, hit in HITS.items():

        def dying(fs: MemoryFileSystem, notes: Notes, name: str = name, hit: int = hit) -> None:
            with armed(f"storage.columns.{name}", crash(), hit=hit):
                run(fs, notes)

        explore(dying, check, seed=SEED, states_max=STATES // 10, setup=setup).require(states=10)


def test_every_call_that_can_fail() -> None:
    report = sweep(run, check, seed=SEED, setup=setup)
    print(report)
    report.require(runs=50, create=4, write=10, sync=4, sync_dir=2)


def test_every_read_that_can_fail() -> None:
    """Opening and reading under failing reads: an error of ours, never other cells."""
    written: list[FragmentInfo] = []

    def prepare(fs: MemoryFileSystem) -> None:
        setup(fs)
        written[:] = write_typed_fragment(
            fs,
            DIRECTORY,
            NameSequence("s"),
            to_blocks(cells_of_round(1)),
            table=TABLE,
            columns=SOME_COLUMNS,
            options=OPTIONS,
        )

    def reading(fs: MemoryFileSystem, notes: Notes) -> None:
        assert read_files(fs, written) == cells_of_round(1)
        check_fragment(fs, path_of(written[0]), written[0])

    def still_there(fs: MemoryFileSystem, point: CrashPoint) -> None:
        assert read_files(fs, written) == cells_of_round(1)

    report = sweep(reading, still_there, seed=SEED, setup=prepare)
    print(report)
    report.require(runs=30, read=15, open=2)
