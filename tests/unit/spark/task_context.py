"""The context that Spark gives to a task, for tests that are the task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer

Sent = TypeVar("Sent")


def sent(thing: Sent) -> Sent:
    """What arrives in another process of what Spark sends there."""
    serializer = CloudPickleSerializer()
    arrived: Sent = serializer.loads(serializer.dumps(thing))
    return arrived


@contextmanager
def running_task(part: int = 0, **properties: str) -> Iterator[None]:
    """This process runs a task; ``properties`` have ``_`` for the ``.`` of their names."""
    context = TaskContext._getOrCreate()
    context._partitionId = part
    context._taskAttemptId = part
    context._localProperties = {name.replace("_", "."): value for name, value in properties.items()}
    try:
        yield
    finally:
        TaskContext._taskContext = None
