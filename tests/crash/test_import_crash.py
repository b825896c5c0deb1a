"""Imports after power failures: whatever is left, a job is there as a whole or not at all."""

from __future__ import annotations

import os
from functools import partial

from stele.env.memory_fs import MemoryFileSystem
from stele.sim.crash import CrashPoint, Notes, explore
from tests.crash.engine_run import (
    COLLECT,
    COMPACT,
    FLUSH,
    Data,
    Life,
    Step,
    check_store,
    create,
    join,
    run_script,
    split,
    write,
)
from tests.unit.tablet.import_support import import_cells, new_cell, row_erasure

GATE_STATES = 400
"""So many that every moment of the script is among them."""
STATES = int(os.environ.get("STELE_CRASH_STATES", str(25 * GATE_STATES))) // 25
NESTED = STATES // 100
SEED = int(os.environ.get("STELE_CRASH_SEED", "1"))


def load(job: str, puts: Data, erased: tuple[bytes, ...] = ()) -> Step:
    """One import: row erasures, and puts on top of them."""

    def act(life: Life) -> None:
        cells = [new_cell(row, value, family) for (row, family), value in puts.items()]
        cells += map(row_erasure, erased)
        import_cells(life.backend, life.table, job, cells)

    def after(data: Data) -> Data:
        return {key: value for key, value in data.items() if key[0] not in erased} | puts

    return Step("import", act, after, job)


SCRIPT = (
    Step("create", create),
    load("first", {(b"a", "f"): b"1", (b"k001", "g"): b"1", (b"z", "g"): b"1"}),
    split(b"c"),
    write("over it", {(b"z", "g"): b"2"}),
    load("second", {(b"n", "h"): b"3", (b"b", "f"): b"3"}, (b"a",)),
    FLUSH,
    join(b"c"),
    COLLECT,
    COMPACT,
    load("third", {(b"a", "f"): b"4"}, (b"z", b"k001")),
    COLLECT,
)


def test_the_script_itself_does_what_it_says() -> None:
    fs = MemoryFileSystem()
    run_script(fs, Notes([]), SCRIPT)
    everything = tuple(range(1, len(SCRIPT) + 1))
    assert check_store(fs.restarted(), CrashPoint(everything, everything, "at the end"), SCRIPT)


def test_every_state_a_power_failure_may_leave() -> None:
    report = explore(
        partial(run_script, script=SCRIPT),
        partial(check_store, script=SCRIPT),
        seed=SEED,
        states_max=STATES,
        nested_max=NESTED,
    )
    print(report.as_dict())
    share = min(1.0, STATES / GATE_STATES)
    report.require(
        moments=int(share * (report.steps + 1)),
        states=int(share * GATE_STATES / 2),
        nested_chains=NESTED,
        in_import=int(share * 60),
        in_split=int(share * 2),
        in_join=int(share * 2),
    )
