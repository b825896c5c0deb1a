"""A driver on a standalone Spark: reads a table by both routes, or does all kinds of jobs.

    python -m tests.spark.standalone_job MASTER read|jobs DIRECTORY

What it found is printed as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from stele import spark as ss
from tests.spark.standalone import DRIVER_SETTINGS


def read(session: Any, directory: Path) -> dict[str, Any]:
    """Merged rows, and cells of clean files."""
    merged = ss.read(session, f"{directory}#t", partitions=4)
    cells = ss.read(session, f"{directory}#plain", shape="cells")
    return {
        "merged": list(merged.selectExpr("count(*)", "sum(`info:n`)").first()),
        "native": cells.count(),
        "native_files": len(cells.inputFiles()),
    }


def jobs(session: Any, directory: Path) -> dict[str, Any]:
    """Everything that writes: a load, a write, a delete, a stream in and out, files, a log."""
    table = f"{directory / 'data'}#t"
    rows = session.range(0, 400, 1, 4).selectExpr(
        "lpad(CAST(id AS STRING), 3, '0') AS id", "id AS `info:n`"
    )
    loaded = ss.bulk_load(session, rows, table, row="id", splits=[b"200"])
    written = ss.write(rows.where("id < '050'"), table, row="id")
    deleted = ss.delete("`info:n` >= 390", table)
    arrivals = directory / "arrivals"
    rows.selectExpr("concat('s', id) AS id", "`info:n`").where("id < 's010'").write.parquet(
        str(arrivals)
    )
    stream(session, arrivals, table, directory / "checkpoint")
    compacted = ss.compact(session, table)
    changes = ss.changes(session, table, since=written.txn)
    recovered = ss.recover(session, directory / "killed")
    return {
        "loaded": loaded.rows,
        "written": written.rows,
        "deleted": deleted.rows,
        "streamed": ss.read(session, table, rows=(b"s", None)).count(),
        "compacted": [compacted.swapped > 0, len(compacted.lost)],
        "changes": changes.groupBy("_change_type").count().rdd.collectAsMap(),
        "recovered": recovered.cells > 0,
    }


def stream(session: Any, arrivals: Path, table: str, checkpoint: Path) -> None:
    """All that has arrived, in batches of one file."""
    reader = session.readStream.schema("id string, `info:n` bigint").option("maxFilesPerTrigger", 1)
    writer = reader.parquet(str(arrivals)).writeStream.format("stele").option("rowColumn", "id")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    assert writer.start(table).awaitTermination(600)


def main(master: str, what: str, directory: str) -> None:
    session = ss.session(master, **DRIVER_SETTINGS)
    session.sparkContext.setLogLevel("OFF")
    print(json.dumps({"read": read, "jobs": jobs}[what](session, Path(directory))), flush=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
