"""I/O error sweep: fail the Nth system call of a run, for every N, in every way.

A run is made once without faults to count its calls. Then, for each failure (``faults.Failure``)
and each N, it is made again on a fresh disk with call number N failing, first alone and then
together with all calls after it; and for a full disk once more with the undoing of the half-done
write failing too. Each time

* the run either gets by or raises an error of ours. Any other exception is a bug, and so is an
  error after a short read or write, which is nothing but a call to be continued;
* the check passes on what is left: after a power failure with everything unsynced lost, after one
  with everything kept, and, without a power failure, in the next process.

Runs and checks are those of ``crash``: what a run acknowledged before it failed must be found. The
calls of the check never fail; a recovery is swept by making it the run.

    sweep(run, check, seed=7).require(runs=200, sync=5, rename=2)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from stele.env.disk import Choice, Disk, KeepUnsynced, LoseUnsynced, Step
from stele.env.faults import APPLICABLE, FOREVER, Call, Failure, Fault, Faults
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import SteleError
from stele.sim.crash import TRACE_TAIL_STEPS, Check, CrashPoint, Notes, Run, Setup, require_minimums

RUNS_PER_FAILURE_MAX = 2_000
"""A run with more calls than this is swept at a seeded sample of them."""


class SweepFailure(AssertionError):
    """A run or check went wrong; the message says under which fault."""


@dataclass(slots=True)
class SweepReport:
    """What a sweep did."""

    seed: int
    calls: int = 0
    runs: int = 0
    runs_tolerated: int = 0
    fired: Counter[Call] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def require(self, **minimums: int) -> Self:
        """Fail unless every named counter, or kind of call, reached its minimum."""
        require_minimums(self.as_dict(), minimums)
        return self

    def as_dict(self) -> dict[str, int]:
        """All counters: runs, faults fired by the kind of call, errors by their name."""
        totals = {name: getattr(self, name) for name in ("seed", "calls", "runs", "runs_tolerated")}
        return {**totals, **{call.value: self.fired[call] for call in Call}, **self.errors}


def sweep(
    run: Run,
    check: Check,
    *,
    seed: int = 0,
    setup: Setup | None = None,
    failures: Sequence[Failure] = tuple(Failure),
    runs_per_failure_max: int = RUNS_PER_FAILURE_MAX,
) -> SweepReport:
    """Fail every call of ``run`` in turn and check what is left each time.

    ``setup`` prepares the disk without faults; all it wrote counts as synced.
    """
    start = _prepare(setup, seed)
    report = SweepReport(seed)
    sweeper = _Sweeper(run, check, start, report)
    calls = sweeper.count_calls()
    report.calls = calls.total()
    dice = random.Random(seed)  # noqa: S311 - repeatable is the point
    for failure in failures:
        count = sum(calls[call] for call in APPLICABLE[failure])
        numbers: Sequence[int] = range(1, count + 1)
        if count > runs_per_failure_max:
            numbers = sorted(dice.sample(numbers, runs_per_failure_max))
        for number in numbers:
            sweeper.fail(Fault(failure, number))
            sweeper.fail(Fault(failure, number, times=FOREVER))
            if failure is Failure.ENOSPC:
                sweeper.fail(Fault(failure, number), Fault(Failure.EIO, 1, kinds={Call.CUT}))
    return report


def _prepare(setup: Setup | None, seed: int) -> Disk:
    fs = MemoryFileSystem(seed=seed)
    if setup is not None:
        setup(fs)
    return fs.disk.crash(KeepUnsynced())


@dataclass(frozen=True, slots=True)
class _Sweeper:
    run: Run
    check: Check
    start: Disk
    report: SweepReport

    def count_calls(self) -> Counter[Call]:
        faults = Faults()
        error = self._run_and_check(faults, "without faults")
        if error is not None:
            raise SweepFailure("the run fails without faults") from error
        return faults.calls

    def fail(self, fault: Fault, *consequences: Fault) -> None:
        faults = Faults(fault, *consequences)
        forever = " and every one after it" if fault.times > 1 else ""
        label = f"{fault.failure.name} at call {fault.call}{forever}, seed {self.report.seed}"
        error = self._run_and_check(faults, label)
        if not faults.fired:
            raise SweepFailure(f"{label}: never reached; the run is not deterministic")
        if error is not None and fault.failure is Failure.SHORT:
            raise SweepFailure(f"{label}: a short call is no error") from error
        self.report.runs += 1
        self.report.runs_tolerated += error is None
        self.report.fired.update(faults.fired_by_call)
        if error is not None:
            self.report.errors[type(error).__name__] += 1

    def _run_and_check(self, faults: Faults, label: str) -> SteleError | None:
        disk = self.start.copy()
        disk.steps = []
        fs = MemoryFileSystem(disk, faults=faults, seed=self.report.seed + 1)
        notes = Notes(disk.steps)
        failure: SteleError | None = None
        try:
            self.run(fs, notes)
        except SteleError as error:
            failure = error
        except Exception as error:
            raise SweepFailure(f"{label}: not an error of ours: {error!r}") from error
        self._check_all(fs, notes, f"{label}, the run: {failure!r}")
        return failure

    def _check_all(self, fs: MemoryFileSystem, notes: Notes, label: str) -> None:
        choices: dict[str, Choice] = {"lost": LoseUnsynced(), "kept": KeepUnsynced()}
        for name, choice in choices.items():
            self._check(fs.crash_image(choice), notes, f"{label}\nunsynced {name}", fs.disk.steps)
        self._check(fs.restarted(), notes, f"{label}\nnext process", fs.disk.steps)

    def _check(
        self, fs: MemoryFileSystem, notes: Notes, label: str, steps: list[Step] | None
    ) -> None:
        trace = "\n    ".join(["steps:", *map(str, (steps or [])[-TRACE_TAIL_STEPS:])])
        point = CrashPoint(
            tuple(value for _step, value in notes.acks),
            tuple(value for _step, value in notes.attempts),
            label,
        )
        try:
            self.check(fs, point)
        except Exception as error:
            raise SweepFailure(f"{type(error).__name__}: {error}\n{label}\n{trace}") from error
