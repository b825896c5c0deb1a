"""The whole engine after crashes: every moment of a scripted life, every failpoint, every call.

What must hold, whatever happens: everything acknowledged is found; nothing erased comes back;
META has no hole; garbage collection takes nothing that is needed; opening again finds the same.
"""

from __future__ import annotations

import os

import pytest

from stele.env.failpoints import SimulatedCrash, armed, counting, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.sim.crash import CrashPoint, Notes, explore
from stele.sim.io_sweep import sweep
from tests.crash.engine_run import (
    SCRIPT,
    check_possible,
    check_store,
    check_store_and_go_on,
    run_script,
    run_stubbornly,
    states,
)

GATE_STATES = 1_000
"""So many that every moment of the script is among them."""
STATES = int(os.environ.get("STELE_CRASH_STATES", str(10 * GATE_STATES))) // 10
"""A whole store takes more than ten times as long to check as one writer."""
HITS = max(2, STATES // 500)
SWEEP_RUNS = max(2, STATES // 500)
NESTED = STATES // 100
STATES_WITHIN = {
    "in_open": 30,
    "in_create": 5,
    "in_put": 25,
    "in_flush": 40,
    "in_compact": 120,
    "in_split": 2,
    "in_join": 2,
    "in_regroup": 10,
    "in_reopen": 100,
    "in_collect": 60,
    "in_truncate": 35,
}
"""Different states in which a kind of work is half done. A split or a join is one write to META's
log, which is lost, kept or torn."""

SEED = int(os.environ.get("STELE_CRASH_SEED", "1"))


def test_the_script_itself_does_what_it_says() -> None:
    fs = MemoryFileSystem()
    run_script(fs, Notes([]))
    everything = tuple(range(1, len(SCRIPT) + 1))
    assert check_store(fs.restarted(), CrashPoint(everything, everything, "at the end"))
    final = states(SCRIPT)[-1]
    assert (b"k001", "f") not in final
    assert final[b"a", "f"] == b"2"


def test_every_state_a_power_failure_may_leave() -> None:
    report = explore(run_script, check_store, seed=SEED, states_max=STATES, nested_max=NESTED)
    print(report.as_dict())
    share = min(1.0, STATES / GATE_STATES)
    report.require(
        moments=int(share * (report.steps + 1)),
        states=int(share * GATE_STATES / 2),
        nested_chains=NESTED,
        nested_states=15 * NESTED,
        **{kind: int(share * least) for kind, least in STATES_WITHIN.items()},
    )


# Every failpoint.


def passes() -> dict[str, int]:
    """How often a whole run passes each failpoint of the tablet and storage layers."""
    with counting() as counts:
        run_script(MemoryFileSystem(seed=SEED), Notes([]))
    return {
        name: count
        for name, count in counts.items()
        if name.startswith(("tablet.", "storage.", "coordination."))
    }


PASSES = passes()


def crash_at(name: str, hit: int) -> tuple[MemoryFileSystem, CrashPoint]:
    fs = MemoryFileSystem(seed=SEED)
    notes = Notes([])
    with armed(name, crash(), hit=hit) as point, pytest.raises(SimulatedCrash):
        run_script(fs, notes)
    assert point.fired == 1
    label = f"crash at pass {hit} of {name}"
    acked, attempted = ([value for _, value in told] for told in (notes.acks, notes.attempts))
    return fs, CrashPoint(tuple(acked), tuple(attempted), label)


def test_the_run_passes_the_failpoints_of_every_durable_step() -> None:
    wanted = {
        "tablet.flush.after_fragments",
        "tablet.compaction.after_fragments",
        "tablet.recovery.after_fragments",
        "tablet.config.before_save",
        "tablet.config.before_publish",
        "tablet.root.before_save",
        "tablet.root.after_save",
        "tablet.gc.after_trash",
        "tablet.gc.after_delete",
        "storage.log.after_delete",
        "storage.log.after_sealed",
        "storage.log.after_lengths",
    }
    assert wanted <= PASSES.keys()


@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_crash_at_every_failpoint(name: str) -> None:
    count = PASSES[name]
    hits = sorted({1 + (count - 1) * place // max(HITS - 1, 1) for place in range(HITS)})
    for number, hit in enumerate(hits):
        fs, point = crash_at(name, hit)
        check_store_and_go_on(fs.restarted() if number % 2 else fs.crash_image(), point)


# Every failing call.


def test_every_failing_call() -> None:
    """Errors are answers: what was acknowledged stays, and the store goes on where it can."""
    report = sweep(run_stubbornly, check_possible, seed=SEED, runs_per_failure_max=SWEEP_RUNS)
    print(report.as_dict())
    report.require(runs=9 * SWEEP_RUNS, runs_tolerated=SWEEP_RUNS)
