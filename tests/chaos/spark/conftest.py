"""The session of all tests of Spark; `make chaos-spark` lets it try tasks again."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
