"""What may happen to a load: each fault is a function that spoils one job and then demands the end.

The names of the functions are the kinds of faults that a run counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import stele
from stele import spark as ss
from stele.env.failpoints import SimulatedCrash, armed, fail
from stele.errors import Conflict, InvalidArgument, NotFound, OutOfSpace, SteleError
from tests.chaos.spark.load_world import REGROUPED, ROWS, LoadWorld, row_key
from tests.chaos.spark.worker_faults import POINTS, WorkerFault, disarm_workers

DRIVER_POINTS = (
    "spark.load.after_begin",
    "spark.load.after_tasks",
    "tablet.import.after_begin",
    "tablet.import.after_prepare",
    "tablet.import.after_txn",
    "tablet.import.after_decision",
    "tablet.import.after_shown",
    "spark.load.after_commit",
)
"""Every durable step of a load, in order."""

DECIDED = DRIVER_POINTS[DRIVER_POINTS.index("tablet.import.after_decision") :]
"""From here on the job has happened."""

Fault = Callable[[LoadWorld], None]


def _in_worker(
    world: LoadWorld, kind: str, points: Sequence[str] = POINTS
) -> ss.Report | SteleError:
    fault = WorkerFault(kind, world.dice.choice(points), world.marker("worker"))
    world.fault = fault
    found = world.load()
    world.fault = None
    disarm_workers(world.spark)
    if fault.happened:
        world.counters[f"fired {kind}"] += 1
    if isinstance(found, SteleError):
        world.check_none()
    else:
        world.check_all(found.txn)
    return found


def worker_exits(world: LoadWorld) -> None:
    """A Python worker is gone in mid-task: Spark tries again, or the job fails and is run again."""
    _in_worker(world, "exit")
    world.finish()


def worker_fails(world: LoadWorld) -> None:
    """A task raises."""
    _in_worker(world, "raise")
    world.finish()


def disk_is_full(world: LoadWorld) -> None:
    """A worker may write no more than a few bytes, now and when Spark tries again."""
    found = _in_worker(world, "full disk", POINTS[:1])
    if isinstance(found, SteleError):
        assert isinstance(found, OutOfSpace), found
        world.counters["full disks named"] += 1
    world.finish()


def driver_dies(world: LoadWorld) -> None:
    """The owner's process ends at some step: what is on disk then decides."""
    point = world.dice.choice(DRIVER_POINTS)
    left: list[LoadWorld] = []

    def die(name: str) -> None:
        left.append(world.crashed(f"after {name}"))
        raise SimulatedCrash(name)

    found = None
    with armed(point, die, hit=1), suppress(SimulatedCrash):
        found = world.load()
    assert left, f"{point} was not passed: {found}"
    world.counters[f"fired {point}"] += 1
    world.close()
    vars(world).update(vars(left[0]))
    world.reopen()
    assert world.outcome() == ("all" if point in DECIDED else "none"), point
    report = world.load()
    assert isinstance(report, ss.Report), report
    assert report.done_before == (point in DECIDED)
    world.finish()


def step_fails(world: LoadWorld) -> None:
    """A step of the driver raises: the job is given up, or has happened."""
    point = world.dice.choice(DRIVER_POINTS)
    with armed(point, fail(), hit=1) as armed_point:
        found = world.load()
    assert armed_point.fired == 1
    assert isinstance(found, SteleError)
    world.counters[f"fired {point}"] += 1
    assert world.outcome() == ("all" if point in DECIDED else "none"), point
    world.finish()


def another_attempt(world: LoadWorld) -> None:
    """A second driver takes the job over while the first is about to publish."""
    reports: list[ss.Report] = []

    def take_over(_name: str) -> None:
        if not reports:
            report = world.load()
            assert isinstance(report, ss.Report), report
            reports.append(report)

    with armed("spark.load.after_tasks", take_over, hit=1):
        found = world.load()
    assert isinstance(found, InvalidArgument | Conflict), found
    world.check_all(reports[0].txn)
    world.counters["fired another attempt"] += 1
    world.finish()


@contextmanager
def _meanwhile(world: LoadWorld, *changes: Callable[[], object]) -> Iterator[None]:
    """Changes of the table's layout again and again until the block ends, and some for sure."""
    ended = threading.Event()
    done: list[int] = []

    def change() -> None:
        while not ended.is_set() or len(done) < len(changes):
            with suppress(InvalidArgument, Conflict, NotFound):  # split already, or joined
                changes[len(done) % len(changes)]()
            done.append(1)
            ended.wait(0.02)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    world.counters["layout changes"] += len(done)


def layout_changes(world: LoadWorld) -> None:
    """Splits, joins, flushes and compactions before, between and after all steps."""
    cuts = [row_key(n) for n in world.dice.sample(range(1, ROWS), 4)]
    changes: list[Callable[[], object]] = [world.table.flush, world.table.compact]
    for cut in cuts:
        changes += [partial(world.table.split, cut), partial(world.table.join, cut)]
    world.dice.shuffle(changes)
    with _meanwhile(world, *changes):
        report = world.load()
    assert isinstance(report, ss.Report), report
    world.check_all(report.txn)
    world.counters["fired layout changes"] += 1
    world.finish()


def split_between(world: LoadWorld) -> None:
    """A split after the files are written: they lie in two tablets then."""
    cut = row_key(world.dice.randrange(1, ROWS))
    with armed("spark.load.after_tasks", lambda _name: world.table.split(cut), hit=1):
        report = world.load()
    assert isinstance(report, ss.Report), report
    world.check_all(report.txn)
    world.table.compact()
    world.check_all(report.txn)
    world.counters["fired split"] += 1
    world.finish()


@contextmanager
def _altered_to(world: LoadWorld, schema: stele.Schema) -> Iterator[None]:
    def change(_name: str) -> None:
        world.db.alter_table("t", schema)

    with armed("spark.load.after_tasks", change, hit=1):
        yield


def regrouped(world: LoadWorld) -> None:
    """The table gets other groups after the files are written."""
    with _altered_to(world, REGROUPED):
        report = world.load()
    assert isinstance(report, ss.Report), report
    world.check_all(report.txn)
    world.table.compact()
    world.check_all(report.txn)
    world.counters["fired regroup"] += 1
    world.finish()


def truncated(world: LoadWorld) -> None:
    """All rows are taken away after the files are written: those of the job come later."""
    with armed("spark.load.after_tasks", lambda _name: world.table.truncate(), hit=1):
        report = world.load()
    assert isinstance(report, ss.Report), report
    world.before = {}
    world.check_all(report.txn)
    world.counters["fired truncate"] += 1
    world.finish()


def family_gone(world: LoadWorld) -> None:
    """The table loses a family that the files have: refused by name, and nothing is loaded."""
    narrow = stele.Schema(
        [stele.Group("hot", ["info"], block_cells=256)],
        columns={"info:n": "int64", "info:text": "string"},
    )
    with _altered_to(world, narrow):
        found = world.load()
    assert isinstance(found, InvalidArgument), found
    assert "'x'" in str(found)
    assert "altered" in str(found)
    world.check_none()
    world.counters["fired alter"] += 1
    world.counters["jobs done"] += 1


def dropped(world: LoadWorld) -> None:
    """The table is dropped in mid-job, and comes back as it was."""
    with armed("spark.load.after_tasks", lambda _name: world.db.drop_table("t"), hit=1):
        found = world.load()
    assert isinstance(found, SteleError), found
    assert "t" in str(found)
    world.table = world.db.undrop_table("t")
    world.check_none()
    world.counters["fired drop"] += 1
    world.finish()


FAULTS: tuple[Fault, ...] = (
    worker_exits,
    driver_dies,
    layout_changes,
    disk_is_full,
    another_attempt,
    split_between,
    step_fails,
    dropped,
    truncated,
    regrouped,
    worker_fails,
    family_gone,
)
