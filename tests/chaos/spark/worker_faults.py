"""Faults inside the Python workers of a Spark: armed on the way, acted out once.

Workers are forked by a daemon and used again for a minute, so what one stage leaves in a worker is
there when the next one runs. A fault is a failpoint of ours and what happens there; a marker file
makes sure that it happens in one worker only, once, and tells afterwards that it did.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from stele.env import failpoints
from stele.errors import StorageFailed

POINTS = (
    "spark.load.after_sort",
    "spark.load.after_files",
    "storage.columns.after_group",
    "storage.columns.after_sync",
    "storage.columns.after_sync_dir",
    "storage.fragment.after_group",
    "storage.fragment.after_sync",
)
"""Passed by every task that loads rows of the tests' table."""

DISARMING_SECONDS = 0.2
"""A worker is kept busy for so long, so that the next task goes to another one."""

SLEEP_SECONDS = 20.0
FULL_BYTES = 2_000


@dataclass(frozen=True)
class WorkerFault:
    """What happens at a failpoint in one worker."""

    kind: str
    """``exit``, ``raise``, ``sleep``, ``kill executor`` or ``full disk``."""
    point: str
    marker: str

    @property
    def happened(self) -> bool:
        return Path(self.marker).exists()


def armed_rows(frame: Any, fault: WorkerFault) -> Any:
    """The same rows; workers that hand them on are armed, and soon do what comes after."""
    _travel()

    def arm(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arm_here(fault)
        yield from batches

    return frame.mapInArrow(arm, frame.schema)


def disarm_workers(spark: Any, workers: int = 2) -> None:
    """Let all workers that are there forget what they were armed with."""
    _travel()

    def disarm(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arm_here(None)
        threading.Event().wait(DISARMING_SECONDS)
        yield from batches

    spark.range(0, 2 * workers, 1, 2 * workers).mapInArrow(disarm, "id long").collect()


def _travel() -> None:
    """Workers do not see the tests: what they need of this module goes with the job."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


def arm_here(fault: WorkerFault | None) -> None:
    """In a worker: forget what was armed before."""
    for module in ("stele.spark.load_task", "stele.storage.fragment_file"):
        importlib.import_module(module)  # their failpoints are declared then
    for name in failpoints.declared():
        failpoints.disarm(name)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    if fault is not None:
        failpoints.arm(fault.point, lambda _name: act(fault))


def act(fault: WorkerFault) -> None:
    """Let it happen, unless it has."""
    try:
        os.close(os.open(fault.marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if fault.kind == "exit":
        os._exit(1)
    if fault.kind == "raise":
        raise StorageFailed("a fault of the test")
    if fault.kind == "sleep":
        threading.Event().wait(SLEEP_SECONDS)
    if fault.kind == "kill executor":
        os.kill(parent_of(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
        threading.Event().wait(SLEEP_SECONDS)
    if fault.kind == "full disk":
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, hard))


def parent_of(pid: int) -> int:
    """As the kernel tells."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
