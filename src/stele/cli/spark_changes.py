"""``stele spark changes``: what changed in a table, in any format that Spark writes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from stele.cli.changes import add_range
from stele.cli.output import Output
from stele.cli.tables import add_columns, read_moment
from stele.client.database import Database
from stele.client.times import read_txn


def changes(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Write what changed in a table between two moments."""
    from stele import spark as ss
    from stele.spark.exporting import as_text, check_export, write_frame

    rule = check_export(arguments.format, "error", None)
    table = database.table(arguments.table)
    backend = table.core.backend
    until = read_txn(backend, read_moment(table, arguments.until)) or backend.look_for_changes(0)[0]
    frame = ss.changes(
        session,
        table,
        since=read_moment(table, arguments.since),
        until=until,
        columns=arguments.columns,
        shape=arguments.shape,
        changes=arguments.mode,
    )
    text = as_text(frame, arguments.format, rule)
    lines = write_frame(text, arguments.path, arguments.format, "error", {}, table.name)
    written = {"path": arguments.path, "lines": lines, "until": until}
    output.result(written, f"{lines} changes in {arguments.path}, up to {until}")


def configure_changes(parser: ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="a new directory for the changes")
    parser.add_argument(
        "--format", metavar="NAME", default="parquet", help="parquet (default), csv, json, orc, …"
    )
    parser.add_argument("--shape", choices=["rows", "cells"], help="rows, or cells for --mode all")
    add_range(parser)
    add_columns(parser)
