"""What makes ``format("stele")`` known to every PySpark that can import this: Spark looks for
installed modules named ``pyspark_…`` and registers their ``DefaultSource``."""

from stele.spark.source import SteleDataSource as DefaultSource

__all__ = ["DefaultSource"]
