"""The log of a database whose owner was killed: ``ss.recover`` makes what its next owner would."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from stele import spark as ss
from stele.spark.reading import TableLike
from tests.chaos.spark.worlds import Done, World
from tests.unit.cluster import crashed_directory
from tests.unit.cluster.crashed_directory import copied


class RecoverWorld(World):
    """A directory that nobody has open."""

    worker_points = (
        "spark.recover.after_read",
        "storage.fragment.after_group",
        "storage.fragment.after_sync",
        "spark.recover.after_files",
    )
    disk_point = "storage.fragment.after_group"
    driver_points = (
        "cluster.recovery.after_seals",
        "spark.recover.after_plan",
        "spark.recover.after_tasks",
        "cluster.recovery.after_check",
        "cluster.recovery.after_save",
    )
    decided_at = "cluster.recovery.after_save"

    def __init__(self, spark: Any, directory: Path, seed: int, counters: Counter[str]):
        super().__init__(spark, directory, seed, counters)
        killed = directory.parent / "killed"
        if not killed.exists():
            crashed_directory.make(killed)
        copied(killed, self.path)
        self._looks = 0
        self._expected = self._contents()

    @property
    def address(self) -> str:
        return str(self.path)

    @staticmethod
    def job(spark: Any, table: TableLike, address: str, seed: int) -> Done:  # noqa: ARG004
        report = ss.recover(spark, address)
        return Done(report.txn, done_before=not report.cells)

    def _contents(self) -> dict[str, object]:
        """All that can be read, if somebody opened the directory as it is now."""
        self._looks += 1
        return crashed_directory.contents(copied(self.path, self.directory / f"look{self._looks}"))

    def check(self, *, happened: bool) -> None:
        found = self._contents()
        assert found.keys() == self._expected.keys()
        for name, value in self._expected.items():
            assert found[name] == value, name
