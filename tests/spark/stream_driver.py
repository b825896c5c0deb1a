"""A driver with a stream into a table: what there is, and then it ends.

    python tests/spark/stream_driver.py MASTER DIRECTORY

``DIRECTORY`` has the database ``db``, the ``arrivals`` and a ``checkpoint``. The first attempt at
the first task fails if there is no file ``failed``. In a process of its own, because an application
id belongs to one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stele import spark as ss


def main(master: str, directory: str) -> None:
    place = Path(directory)
    marker = place / "failed"
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    session = ss.session(master, **quiet)
    session.sparkContext.setLogLevel("OFF")
    print(session.sparkContext.applicationId, flush=True)
    reader = session.readStream.schema("id string, age bigint").option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(place / "arrivals"))

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if not marker.exists():
                marker.touch()
                raise RuntimeError("the first attempt")
            yield batch

    writer = frame.mapInArrow(fail_once, frame.schema).writeStream.format("stele")
    writer = writer.options(rowColumn="id", family="info")
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start(f"{place / 'db'}#people")
    try:
        query.awaitTermination()
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
