"""``stele spark lookup``: rows of a table beside the lines of files that name their keys."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from stele.cli.output import Output
from stele.cli.spark_source import add_source, files_of
from stele.cli.tables import add_at, positive, read_moment
from stele.cli.values import plain, word
from stele.client.database import Database
from stele.model.arrow_input import key_columns


def lookup(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Print lines of files with the rows that they name, or write them to files."""
    from stele import spark as ss
    from stele.spark.exporting import OPTIONS, as_text, check_export, write_frame
    from stele.spark.jobs import told

    table = database.table(arguments.table)
    found = ss.lookup_join(
        files_of(session, arguments, table.schema),
        table,
        on=key_columns(table.schema, arguments.row),
        columns=arguments.columns,
        how=arguments.how,
        at=read_moment(table, arguments.at),
    )
    if arguments.output is None:
        with told(f"nothing was looked up in table {table.name!r}"):
            lines = found.limit(arguments.limit).collect()
        for line in lines:
            value = {name: plain(field) for name, field in line.asDict(recursive=True).items()}
            output.record(value, "  ".join(word(field) for field in line))
        return
    kind, path = arguments.output_format, arguments.output
    text = as_text(found, kind, check_export(kind, "error", None))
    count = write_frame(text, path, kind, "error", OPTIONS.get(kind, {}), table.name)
    output.result({"path": path, "format": kind, "lines": count}, f"{count} lines in {path}")


def configure_lookup(parser: ArgumentParser) -> None:
    """What a lookup takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="files with keys that Spark can read")
    add_source(parser)
    parser.add_argument(
        "-c",
        "--column",
        metavar="NAME",
        dest="columns",
        action="append",
        help="a column or 'family:' to find (default: all that are declared); may be given again",
    )
    parser.add_argument(
        "--how", choices=["left", "inner"], default="left", help="inner drops lines without a row"
    )
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=1_000, help="print at most N lines"
    )
    parser.add_argument("--output", metavar="PATH", help="write all lines there instead")
    parser.add_argument(
        "--output-format", metavar="NAME", default="parquet", help="parquet (default), csv, json, …"
    )
    add_at(parser)
