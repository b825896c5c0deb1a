"""A standalone Spark on this machine: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import socket
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
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    commands = [
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    ]
    worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "512m"]
    commands += [
        [*worker, "--host", host, "--work-dir", str(directory / host), address]
        for host in WORKER_ADDRESSES
    ]
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_MASTER_WEBUI_PORT": "0",
        "SPARK_WORKER_WEBUI_PORT": "0",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    processes = []
    try:
        for number, command in enumerate(commands):
            log = directory / f"spark-{number}.log"
            with log.open("w") as output:
                processes.append(
                    subprocess.Popen(
                        [str(home / "bin" / "spark-class"), *command],
                        stdout=output,
                        stderr=output,
                        env=environment,
                    )
                )
            wait_for(log, r"Started Master|I have been elected|Successfully registered")
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)


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


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(log: Path, pattern: str) -> None:
    """Until a daemon says that it is ready."""
    ends = time.perf_counter() + START_SECONDS_MAX
    while re.search(pattern, log.read_text()) is None:
        if time.perf_counter() > ends:
            raise AssertionError(f"{log} does not say {pattern}: {log.read_text()[-2000:]}")
        subprocess.run(["sleep", "0.2"], check=True)
