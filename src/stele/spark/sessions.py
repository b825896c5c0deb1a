"""Spark sessions that are set up for Stele: ours, or any other.

``setup`` touches only what can be set while a session runs, so that it serves classic sessions,
Spark Connect and what a notebook server hands out. It may be called twice.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from stele.errors import InvalidArgument
from stele.spark.versions import check_java, check_spark, installed_spark

RUNTIME_CONF = {
    # Files are named one by one. Above this many paths Spark starts a job to look at them, which
    # takes seconds for a thousand; one after the other it is a quarter of one.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # Batches that Python workers get: with the default of 10,000 the hand-over is what costs.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

WORKER_PYTHON = "PYSPARK_PYTHON"
"""Which Python workers run; Spark's default is the first on the path, not the one in use."""


def session(master: str | None = None, **conf: str) -> Any:
    """A session set up for Stele; the running one if there is one.

    ``conf`` are settings of Spark: ``session("local[2]", spark_ui_enabled="false")``, where ``_``
    stands for the ``.`` that Python does not take in a name, or as ``**{"spark.ui.enabled": …}``.
    """
    installed_spark()
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        check_java()
    os.environ.setdefault(WORKER_PYTHON, sys.executable)
    builder = SparkSession.builder
    if master is not None:
        builder = builder.master(master)
    for name, value in conf.items():
        builder = builder.config(setting(name), str(value))
    return setup(builder.getOrCreate())


def setting(name: str) -> str:
    """The setting of Spark that an argument stands for."""
    dotted = name if "." in name else name.replace("_", ".")
    if not dotted.startswith("spark."):
        raise InvalidArgument(f"{name!r} is not a setting of Spark: they begin with 'spark.'")
    return dotted


def setup(spark: Any) -> Any:
    """Make ``format("stele")`` known to a session and give it the settings that reads like best."""
    check_spark(spark.version, "this session")
    from stele.spark.source import SteleDataSource

    for name, value in RUNTIME_CONF.items():
        spark.conf.set(name, value)
    context = getattr(spark, "_sc", None)
    if context is not None and WORKER_PYTHON not in os.environ:
        # A session that somebody else has started: its workers run whatever python3 is.
        context.pythonExec = sys.executable
    spark.dataSource.register(SteleDataSource)
    return spark
