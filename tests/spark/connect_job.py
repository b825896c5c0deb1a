"""A user of Spark Connect: a session that has no SparkContext reads, loads and exports a table.

    python tests/spark/connect_job.py DIRECTORY OUT

The server is started on this machine by PySpark itself.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from stele import spark as ss


def main(directory: str, out: str) -> None:
    builder = SparkSession.builder.remote("local[2]")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    ss.setup(session)
    ss.setup(session)
    table = f"{directory}#t"
    rows = session.range(100).selectExpr(
        "concat('c', lpad(CAST(id AS STRING), 3, '0')) AS id", "id AS `info:n`"
    )
    report = ss.bulk_load(session, rows, table, row="id", job_id="connect")
    again = ss.bulk_load(session, rows, table, row="id", job_id="connect")
    options = {"db": directory, "table": "t"}
    portable = session.read.format("stele").options(**options).load()
    ss.view(session, table, "people")
    keys = session.createDataFrame([("c007",), ("nobody",)], "k string")
    found = {
        "kind": type(session).__module__,
        "rows": report.rows,
        "again": again.done_before,
        "read": ss.read(session, table).selectExpr("sum(`info:n`)").first()[0],
        "portable": portable.selectExpr("sum(`info:n`)").first()[0],
        "sql": session.sql("SELECT count(*) FROM people WHERE `info:n` < 0").first()[0],
        "lookup": ss.lookup_join(keys, table, on="k", how="inner").first()["info:n"],
        "exported": ss.export(session, table, out).lines,
    }
    print(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
