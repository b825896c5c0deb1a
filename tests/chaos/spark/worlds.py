"""A world: one database, one job on it, and what must be true of both whatever happens.

A job may be disturbed in any way and is run again. In the end it has happened, and happened once;
before that it has happened wholly or not at all. What a job is, and how to see whether it has
happened, is a world's own business; how it is disturbed is told in ``faults``.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import stele
from stele.errors import SteleError
from stele.spark.reading import TableLike
from tests.chaos.spark.worker_faults import WorkerFault, arm_workers
from tests.unit.cluster.crashed_directory import copied


@dataclass(frozen=True, slots=True)
class Done:
    """What a job says that has come to its end."""

    txn: int = 0
    done_before: bool = False
    digest: str = ""
    """Of what it has read."""


class World(ABC):
    """One job and the directory it works on."""

    worker_points: ClassVar[tuple[str, ...]]
    """Failpoints that tasks pass; when the last is passed, all files of the task are written."""
    disk_point: ClassVar[str] = ""
    """The one of them after which a task writes more."""
    driver_points: ClassVar[tuple[str, ...]] = ()
    """Every step that the driver and the owner take, in order."""
    decided_at: ClassVar[str] = ""
    """The step from which on the job has happened."""
    tasks_done: ClassVar[str] = ""
    """The step at which tasks have done their work and nobody has seen it."""

    def __init__(self, spark: Any, directory: Path, seed: int, counters: Counter[str]):
        directory.mkdir()
        self.spark = spark
        self.directory = directory
        self.seed = seed
        self.dice = random.Random(seed)
        self.counters = counters
        self.fault: WorkerFault | None = None
        """What happens in a worker while the job runs."""

    @staticmethod
    @abstractmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:
        """The job, by a handle or the address of its table; the same for the same seed."""

    @property
    def path(self) -> Path:
        return self.directory / "db"

    @property
    def address(self) -> str:
        """What a driver in another process calls the table."""
        return f"{self.path}#t"

    @property
    def target(self) -> TableLike:
        """What a driver in this process calls the table."""
        return self.address

    def marker(self, name: str) -> str:
        return str(self.directory / f"{name}.marker")

    def is_decided_at(self, point: str) -> bool:
        """Whether a job has happened when it has passed this step."""
        points = self.driver_points
        return points.index(point) >= points.index(self.decided_at)

    def attempt(self) -> Done | SteleError:
        """Run the job once; what it says."""
        self.counters["attempts"] += 1
        if self.fault is not None:
            arm_workers(self.spark, self.fault)
        try:
            return self.job(self.spark, self.target, self.address, self.seed)
        except SteleError as error:
            refused = error
        self.counters["attempts refused"] += 1
        assert str(refused), "an error says something"
        assert "\n" not in str(refused), f"in one line: {refused}"
        return refused

    @abstractmethod
    def check(self, *, happened: bool) -> None:
        """What there is now, if the job has happened and if it has not."""

    def check_done(self, done: Done) -> None:
        """What there is and what was said, after the job has come to its end."""
        assert isinstance(done, Done), done
        self.check(happened=True)
        self.counters["ends checked"] += 1

    def check_again(self, first: Done, again: Done) -> None:
        """Whoever runs a job that has happened is told so."""
        assert (again.done_before, again.txn) == (True, first.txn)

    def go_on(self) -> None:  # noqa: B027 -- not every world has to
        """What others do when the job is over; running it again must not undo that."""

    def finish(self) -> None:
        """Run the job until it is done, and once more: it happens once."""
        done = self.attempt()
        assert isinstance(done, Done), done
        self.check_done(done)
        self.go_on()
        again = self.attempt()
        assert isinstance(again, Done), again
        self.check_again(done, again)
        self.check_done(again)
        self.counters["jobs done"] += 1

    def crashed(self, name: str) -> Self:
        """The same world as it is on disk at this moment, with another owner."""
        there = type(self).__new__(type(self))
        vars(there).update(vars(self))
        there.directory = self.directory / name
        there.directory.mkdir()
        copied(self.path, there.path)
        return there

    def reopen(self) -> None:  # noqa: B027 -- not every world has to
        """A new owner takes over the directory, if the job needs one."""

    def close(self) -> None:  # noqa: B027 -- not every world has to
        """Nobody needs it any more."""


class TableWorld(World):
    """A job on a table of a database that this process owns."""

    schema: ClassVar[stele.Schema]
    regrouped: ClassVar[stele.Schema]
    """The same columns in other groups."""

    def __init__(self, spark: Any, directory: Path, seed: int, counters: Counter[str]):
        super().__init__(spark, directory, seed, counters)
        self.db = stele.open(self.path)
        self.table = self.db.create_table("t", self.schema, splits=[self.row(1, 2)])
        self.fill()

    @property
    def target(self) -> TableLike:
        return self.table

    @abstractmethod
    def fill(self) -> None:
        """What is in the table before the job."""

    @staticmethod
    @abstractmethod
    def row(number: int, of: int) -> bytes:
        """The key that so large a part of the rows is below."""

    def cut(self) -> bytes:
        """A row anywhere in the table."""
        return self.row(self.dice.randrange(1, 1000), 1000)

    def changes(self) -> list[Callable[[], object]]:
        """What may happen to the table beside a job, none of which anybody should see."""
        found: list[Callable[[], object]] = [self.table.flush, self.table.compact]
        for cut in (self.cut() for _ in range(4)):
            found += [partial(self.table.split, cut), partial(self.table.join, cut)]
        self.dice.shuffle(found)
        return found

    def reopen(self) -> None:
        self.db = stele.open(self.path)
        self.table = self.db.table("t")

    def close(self) -> None:
        self.db.close()
