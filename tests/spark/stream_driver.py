"""A driver with a stream into a table: what there is, and then it ends.

    python tests/spark/stream_driver.py MASTER DIRECTORY FORMAT

``DIRECTORY`` has the database ``db``, the ``arrivals`` and a ``checkpoint``. The first attempt at
the first task fails if there is no file ``failed``. The format is ``stele``, or ``losing``, whose
commits take effect and then fail. In a process of its own, because an application
id belongs to one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stele import spark as ss
from stele.spark.source import SteleDataSource
from stele.spark.stream_sink import SteleStreamWriter


class LosesAnswers(SteleStreamWriter):
    """A writer whose commit takes effect, and then fails."""

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        raise RuntimeError("lost on the way back")


class Losing(SteleDataSource):
    """``format("losing")``."""

    @classmethod
    def name(cls) -> str:
        return "losing"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        made = super().streamWriter(schema, overwrite)
        made.__class__ = LosesAnswers
        return made


def main(master: str, directory: str, form: str) -> None:
    place = Path(directory)
    marker = place / "failed"
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    session = ss.session(master, **quiet)
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(Losing)
    print(session.sparkContext.applicationId, flush=True)
    reader = session.readStream.schema("id string, age bigint").option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(place / "arrivals"))

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if not marker.exists():
                marker.touch()
                raise RuntimeError("the first attempt")
            yield batch

    writer = frame.mapInArrow(fail_once, frame.schema).writeStream.format(form)
    writer = writer.options(rowColumn="id", family="info")
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start(f"{place / 'db'}#people")
    try:
        query.awaitTermination()
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
