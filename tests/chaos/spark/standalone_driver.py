"""A driver on a standalone Spark: jobs on tables that another process owns, with a fault in each.

    python -m tests.chaos.spark.standalone_driver MASTER JOBS

``JOBS`` is a JSON list of ``{"world", "address", "seed", "kind", "point", "marker"}``. For each job
one line is printed, with its end or the error. A fault of the kind ``driver`` ends this process.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from stele import spark as ss
from stele.env import failpoints
from stele.errors import SteleError
from tests.chaos.spark.matrix import WORLDS
from tests.chaos.spark.worker_faults import WorkerFault, arm_workers
from tests.spark.standalone import DRIVER_SETTINGS, wait_for_executors

SETTINGS = {
    **DRIVER_SETTINGS,
    # Lost executors are replaced, as often as it takes.
    "spark.deploy.maxExecutorRetries": "-1",
    # One task that hangs is enough for a second attempt at it, even if it is the only one.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.speculation.task.duration.threshold": "5s",
}


def main(master: str, jobs: list[dict[str, Any]]) -> None:
    """Run all jobs in one session."""
    session = ss.session(master, **SETTINGS)
    session.sparkContext.setLogLevel("OFF")
    for job in jobs:
        wait_for_executors(session)
        arm_workers(session, worker_fault(job))
        if job["kind"] == "driver":
            failpoints.arm(job["point"], failpoints.exit_process())
        print(json.dumps(run(session, job)), flush=True)
    session.stop()


def worker_fault(job: dict[str, Any]) -> WorkerFault | None:
    """What happens in a worker."""
    if job["kind"] in ("driver", "none"):
        return None
    return WorkerFault(job["kind"], job["point"], job["marker"])


def run(session: Any, job: dict[str, Any]) -> dict[str, Any]:
    """What came of a job."""
    address = job["address"]
    try:
        done = WORLDS[job["world"]].job(session, address, address, job["seed"])
    except SteleError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return asdict(done)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
