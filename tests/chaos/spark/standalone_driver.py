"""A driver on a standalone Spark: loads tables that another process owns, with a fault in each job.

    python -m tests.chaos.spark.standalone_driver MASTER JOBS

``JOBS`` is a JSON list of ``{"directory", "seed", "kind", "point", "marker"}``. For each job one
line is printed, with its txn or the error. A fault of the kind ``driver`` ends this process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from stele import spark as ss
from stele.env import failpoints
from stele.errors import SteleError
from tests.chaos.spark.load_world import frame
from tests.chaos.spark.worker_faults import WorkerFault, armed_rows, disarm_workers

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    # Lost executors are replaced, as often as it takes.
    "spark.deploy.maxExecutorRetries": "-1",
    # One task that hangs is enough for a second attempt at it.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "2s",
}


def main(master: str, jobs: list[dict[str, Any]]) -> None:
    """Run all jobs in one session."""
    session = ss.session(master, **SETTINGS)
    session.sparkContext.setLogLevel("OFF")
    for job in jobs:
        if job["kind"] == "driver":
            failpoints.arm(job["point"], failpoints.exit_process())
        print(json.dumps(run(session, job)), flush=True)
        disarm_workers(session)
    session.stop()


def run(session: Any, job: dict[str, Any]) -> dict[str, Any]:
    """What came of a job."""
    rows = frame(session, job["seed"])
    if job["kind"] not in ("driver", "none"):
        rows = armed_rows(rows, WorkerFault(job["kind"], job["point"], job["marker"]))
    table = f"{job['directory']}#t"
    try:
        report = ss.bulk_load(session, rows, table, row="id", job_id="job", splits=[])
    except SteleError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"txn": report.txn, "done_before": report.done_before}


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
