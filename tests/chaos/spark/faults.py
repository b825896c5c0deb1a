"""What may happen to a job: each fault is a function that spoils one job and then demands the end.

The names of the functions are the kinds of faults that a run counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import stele
from stele.env.failpoints import SimulatedCrash, armed, fail
from stele.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    OutOfSpace,
    SteleError,
    TableNotFound,
)
from tests.chaos.spark.load_world import LoadWorld, RowsWorld
from tests.chaos.spark.worker_faults import WorkerFault, arm_workers
from tests.chaos.spark.worlds import Done, TableWorld, World


def _in_worker(world: World, kind: str, points: Sequence[str]) -> Done | SteleError:
    fault = WorkerFault(kind, world.dice.choice(points), world.marker("worker"))
    world.fault = fault
    found = world.attempt()
    world.fault = None
    arm_workers(world.spark, None)
    if fault.happened:
        world.counters[f"fired {kind}"] += 1
    if isinstance(found, SteleError):
        world.check(happened=False)
    else:
        world.check_done(found)
    return found


def worker_exits(world: World) -> None:
    """A Python worker is gone in mid-task: Spark tries again, or the job fails and is run again."""
    _in_worker(world, "exit", world.worker_points)
    world.finish()


def worker_fails(world: World) -> None:
    """A task raises."""
    _in_worker(world, "raise", world.worker_points)
    world.finish()


def disk_is_full(world: World) -> None:
    """A worker may write no more than a few bytes, now and when Spark tries again."""
    found = _in_worker(world, "full disk", [world.disk_point])
    if isinstance(found, SteleError):
        assert isinstance(found, OutOfSpace), found
        world.counters["full disks named"] += 1
    world.finish()


def driver_dies(world: World) -> None:
    """The owner's process ends at some step: what is on disk then decides."""
    point = world.dice.choice(world.driver_points)
    left: list[World] = []

    def die(name: str) -> None:
        left.append(world.crashed(f"after {name}"))
        raise SimulatedCrash(name)

    found = None
    with armed(point, die, hit=1), suppress(SimulatedCrash):
        found = world.attempt()
    assert left, f"{point} was not passed: {found}"
    world.counters[f"fired {point}"] += 1
    world.close()
    vars(world).update(vars(left[0]))
    world.reopen()
    world.check(happened=world.is_decided_at(point))
    done = world.attempt()
    assert isinstance(done, Done), done
    assert done.done_before == world.is_decided_at(point)
    world.finish()


def step_fails(world: World) -> None:
    """A step of the driver or of the owner raises: the job is given up, or has happened."""
    point = world.dice.choice(world.driver_points)
    with armed(point, fail(), hit=1) as armed_point:
        found = world.attempt()
    assert armed_point.fired == 1, point
    assert isinstance(found, SteleError), (point, found)
    world.counters[f"fired {point}"] += 1
    world.check(happened=world.is_decided_at(point))
    world.finish()


def another_attempt(world: World) -> None:
    """A second driver does the job while the first is about to publish."""
    others: list[Done] = []

    def take_over(_name: str) -> None:
        if not others:
            done = world.attempt()
            assert isinstance(done, Done), done
            others.append(done)

    with armed(world.tasks_done, take_over, hit=1):
        found = world.attempt()
    if isinstance(found, SteleError):
        assert isinstance(found, InvalidArgument | Conflict), found
    else:  # a write that has a number finds that it was made
        assert found.txn == others[0].txn
    world.check_done(others[0])
    world.counters["fired another attempt"] += 1
    world.finish()


@contextmanager
def _meanwhile(world: World, changes: Sequence[Callable[[], object]]) -> Iterator[None]:
    """Changes of the table again and again until the block ends, and some for sure."""
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
    world.counters["changes meanwhile"] += len(done)


def table_changes(world: TableWorld) -> None:
    """Splits, joins, flushes and compactions before, between and after all steps."""
    with _meanwhile(world, world.changes()):
        done = world.attempt()
    assert isinstance(done, Done), done
    world.check_done(done)
    world.counters["fired table changes"] += 1
    world.finish()


def worker_exits_as_the_table_changes(world: TableWorld) -> None:
    """Both at a time."""
    with _meanwhile(world, world.changes()):
        _in_worker(world, "exit", world.worker_points)
    world.finish()


def _between(world: TableWorld, change: Callable[[], object], fired: str) -> Done | SteleError:
    """Something happens to the table when tasks have done their work."""

    def act(_name: str) -> None:
        change()

    with armed(world.tasks_done, act, hit=1) as point:
        found = world.attempt()
    world.counters[f"fired {fired}"] += point.fired
    return found


def _done(world: TableWorld, found: Done | SteleError) -> None:
    """A job that is done, and stays so whatever becomes of its files."""
    assert isinstance(found, Done), found
    world.check_done(found)
    world.table.compact()
    world.check_done(found)
    world.finish()


def split_between(world: TableWorld) -> None:
    """A split after the files are written: they lie in two tablets then."""

    def split() -> None:
        with suppress(InvalidArgument):  # a border already
            world.table.split(world.cut())

    _done(world, _between(world, split, "split"))


def regrouped(world: TableWorld) -> None:
    """The table gets other groups after the files are written."""
    change = _between(world, lambda: world.db.alter_table("t", world.regrouped), "regroup")
    _done(world, change)


def truncated(world: RowsWorld) -> None:
    """All rows are taken away after the files are written: those of the job come later."""
    found = _between(world, world.table.truncate, "truncate")
    world.before = {}
    _done(world, found)


def dropped(world: TableWorld) -> None:
    """The table is dropped in mid-job, and comes back as it was."""
    found = _between(world, lambda: world.db.drop_table("t"), "drop")
    assert isinstance(found, TableNotFound), found
    assert str(found).startswith("table 't' was dropped, and job "), found
    assert "undrop_table" in str(found), found
    world.table = world.db.undrop_table("t")
    world.check(happened=False)
    world.finish()


def family_gone(world: LoadWorld) -> None:
    """The table loses a family that the files have: refused by name, and nothing is loaded."""
    narrow = stele.Schema(
        [stele.Group("hot", ["info"], block_cells=256)],
        columns={"info:n": "int64", "info:text": "string"},
    )
    found = _between(world, lambda: world.db.alter_table("t", narrow), "alter")
    assert isinstance(found, InvalidArgument), found
    assert "'x'" in str(found)
    assert "altered" in str(found)
    world.check(happened=False)
    world.counters["jobs done"] += 1
