"""Faults inside the Python workers of a Spark: armed by a small job, acted out once.

Workers are forked by a daemon and used again for a minute, the one that has waited longest first,
so what one job leaves in a worker is there when the next one runs. A fault is a failpoint of ours
and what happens there; a marker file makes sure that it happens in one worker only, once, and tells
afterwards that it did.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from stele.env import failpoints
from stele.errors import StorageFailed

MODULES = (
    "stele.spark.load_task",
    "stele.spark.write_task",
    "stele.spark.compact_task",
    "stele.spark.recover_task",
    "stele.spark.tasks",
)
"""Their failpoints, and those of what they use, are declared when they are imported."""

WORKERS_MAX = 8
"""That may wait for work in an executor: each task of a small job gets another one of them."""

ARMING_SECONDS = 0.1
"""A worker is kept busy for so long, so that all processors take part."""

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

    @property
    def repeated(self) -> int:
        """Parts of the job of which more than one attempt has come to the failpoint."""
        marker = Path(self.marker)
        passes = (file.name.rsplit(".", 2) for file in marker.parent.glob(f"{marker.name}.*.*"))
        attempts = Counter(part for part, _ in {(part, attempt) for _, part, attempt in passes})
        return sum(count > 1 for count in attempts.values())


def arm_workers(spark: Any, fault: WorkerFault | None) -> None:
    """Let all workers that are there forget what they were armed with, and arm them anew."""
    _travel()

    def arm(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arm_here(fault)
        threading.Event().wait(ARMING_SECONDS)
        yield from batches

    spark.range(0, WORKERS_MAX, 1, WORKERS_MAX).mapInArrow(arm, "id long").collect()


def _travel() -> None:
    """Workers do not see the tests: what they need of this module goes with the job."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


def arm_here(fault: WorkerFault | None) -> None:
    """In a worker: forget what was armed before."""
    for module in MODULES:
        importlib.import_module(module)
    for name in failpoints.declared():
        failpoints.disarm(name)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    if fault is not None:
        failpoints.arm(fault.point, lambda _name: act(fault))


def act(fault: WorkerFault) -> None:
    """Let it happen, unless it has."""
    _note_pass(fault)
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


def _note_pass(fault: WorkerFault) -> None:
    """Leave a trace of this attempt at this part."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "workers run tasks"
    part = f"{context.stageId()}-{context.partitionId()}"
    Path(f"{fault.marker}.{part}.{context.taskAttemptId()}").touch()


def parent_of(pid: int) -> int:
    """As the kernel tells."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
