"""A standalone Spark on this machine: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS_MAX = 600.0
DRIVER_SECONDS_MAX = 1_800
"""Four JVMs on two busy cores take their time; alone they need half a minute."""

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
WORKER_ADDRESSES = ("127.0.0.2", "127.0.0.3")
"""Two workers on one address look like one machine to Spark, which then never speculates."""

DRIVER_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": str(len(WORKER_ADDRESSES)),
}
"""Of a driver whose executors are here."""


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_MASTER_WEBUI_PORT": "0",
        "SPARK_WORKER_WEBUI_PORT": "0",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    processes: list[subprocess.Popen[bytes]] = []

    def started(pattern: str, *words: str) -> str:
        log = directory / f"spark-{len(processes)}.log"
        command = [str(home / "bin" / "spark-class"), *words]
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        processes.append(process)
        return wait_for(log, pattern, process)

    try:
        # The master says where it is: a port that is free now may be taken when it starts.
        place = r"Starting Spark master at (spark://\S+)[\s\S]*I have been elected"
        address = started(place, MASTER, "--host", "127.0.0.1", "--port", "0")
        for host in WORKER_ADDRESSES:
            words = ["--cores", "1", "--memory", "512m", "--host", host]
            words += ["--work-dir", str(directory / host), address]
            started(r"(Successfully registered)", WORKER, *words)
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(START_SECONDS_MAX)


def wait_for_executors(session: Any) -> None:
    """Until all workers run an executor of this driver; those that ended are replaced."""
    context = session.sparkContext._jsc.sc()
    ends, pause = time.perf_counter() + START_SECONDS_MAX, threading.Event()
    while context.getExecutorMemoryStatus().size() <= len(WORKER_ADDRESSES):  # and the driver
        assert time.perf_counter() < ends, "an executor does not come"
        pause.wait(0.1)


def run_driver(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Let a driver run to its end, in a process of its own: a Python has one SparkContext."""
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True,
        text=True,
        timeout=DRIVER_SECONDS_MAX,
        check=False,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
    )


def wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Until a daemon says that it is ready; what it says."""
    ends, pause = time.perf_counter() + START_SECONDS_MAX, threading.Event()
    while (found := re.search(pattern, log.read_text())) is None:
        in_time = time.perf_counter() < ends and process.poll() is None
        assert in_time, f"{log} does not say {pattern}: {log.read_text()[-2000:]}"
        pause.wait(0.2)
    return found[1]
