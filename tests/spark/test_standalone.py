"""A standalone Spark with two workers: executors open the files, from directories of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stele
from tests.spark.standalone import standalone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROWS = 500

JOB_SECONDS_MAX = 600
"""Four JVMs on two busy cores take their time; alone they need half a minute."""


def test_two_workers_read_what_one_process_wrote(tmp_path: Path) -> None:
    with stele.open(tmp_path / "data") as db:
        table = db.create_table("t", stele.Schema(columns={"info:n": "int64"}), [b"250"])
        plain = db.create_table("plain")
        for number in range(ROWS):
            table.put(b"%03d" % number, {"info:n": number})
            plain.put(b"%03d" % number, {"f:q": b"v"})
        plain.compact()
        table.flush()
        table.put(b"007", {"info:n": 1_007})
        with standalone(tmp_path) as master:
            job = subprocess.run(
                [sys.executable, "tests/spark/standalone_job.py", master, str(tmp_path / "data")],
                capture_output=True,
                text=True,
                timeout=JOB_SECONDS_MAX,
                check=False,
                env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            )
    assert job.returncode == 0, job.stderr[-3000:]
    found = json.loads(job.stdout.splitlines()[-1])
    assert list(found["merged"].values()) == [ROWS, sum(range(ROWS)) + 1_000]
    assert (found["native"], found["native_files"]) == (ROWS, 1)
