"""The session of the tests of Spark; with retries of tasks, unless it runs already without."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
