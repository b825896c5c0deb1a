"""Spark Connect: a session without a JVM beside it can do what others can.

A server of its own, and what it does first, takes a minute: part of `make chaos-spark`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stele

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3_600)]

JOB_SECONDS_MAX = 3_000


def test_a_session_of_connect_reads_and_loads(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with stele.open(data) as db:
        table = db.create_table("t", stele.Schema(columns={"info:n": "int64"}))
        table.put(b"before", {"info:n": -1})
        job = subprocess.run(
            [sys.executable, "tests/spark/connect_job.py", str(data), str(tmp_path / "out")],
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS_MAX,
            check=False,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        )
        assert job.returncode == 0, job.stderr[-3_000:]
        found = json.loads(job.stdout.splitlines()[-1])
        assert found.pop("kind").startswith("pyspark.sql.connect")
        assert found == {
            "rows": 100,
            "again": True,
            "read": sum(range(100)) - 1,
            "portable": sum(range(100)) - 1,
            "sql": 1,
            "lookup": 7,
            "exported": 101,
        }
        assert len(list(table.scan())) == 101
