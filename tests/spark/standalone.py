"""A standalone Spark on this machine: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS_MAX = 600.0
WORKER_ADDRESSES = ("127.0.0.2", "127.0.0.3")
"""Two workers on one address look like one machine to Spark, which then never speculates."""


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
