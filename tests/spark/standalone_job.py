"""A driver on a standalone Spark: reads a table by both routes and prints what it found.

    python tests/spark/standalone_job.py MASTER DIRECTORY

In a process of its own, because a Python has one SparkContext.
"""

from __future__ import annotations

import json
import sys

from stele import spark as ss


def main(master: str, directory: str) -> None:
    session = ss.session(
        master,
        **{
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
        },
    )
    merged = ss.read(session, f"{directory}#t", partitions=4)
    cells = ss.read(session, f"{directory}#plain", shape="cells")
    found = {
        "merged": merged.selectExpr("count(*)", "sum(`info:n`)").first().asDict(),
        "native": cells.count(),
        "native_files": len(cells.inputFiles()),
    }
    print(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
