"""``stele spark load`` and ``import``: whatever Spark can read becomes part of a table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from stele.cli.output import Output
from stele.cli.spark_source import (
    add_format,
    add_meaning,
    add_source,
    files_of,
    reader_options,
)
from stele.cli.values import read_key
from stele.client.database import Database


def load(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Load files of any format of Spark's into a table, all at once."""
    from stele import spark as ss

    table = database.table(arguments.table)
    splits = [read_key(text, table.schema.key) for text in arguments.split]
    report = ss.bulk_load(
        session,
        files_of(session, arguments, table.schema),
        table,
        row=arguments.row,
        family=arguments.family,
        timestamp=arguments.timestamp,
        op=arguments.op,
        nulls=arguments.nulls,
        job_id=arguments.job_id,
        splits=splits or "auto",
        shape=arguments.shape,
    )
    done = "was loaded before" if report.done_before else f"{report.rows} rows in {report.files}"
    text = f"{done} files, {report.size_bytes} bytes, {report.seconds:.1f} s; txn {report.txn}"
    output.result(asdict(report), f"{report.job_id} {done}" if report.done_before else text)


def import_files(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Load what an export has written, rows or cells, back into a table."""
    from stele import spark as ss

    report = ss.import_(
        session,
        arguments.path,
        database.table(arguments.table),
        format=arguments.format,
        binary=arguments.binary,
        options=reader_options(arguments.option),
        job_id=arguments.job_id,
    )
    done = f"{report.rows} lines, {report.cells} cells; txn {report.txn}"
    text = f"{report.job_id} was imported before" if report.done_before else done
    output.result(asdict(report), text)


def configure_load(parser: ArgumentParser) -> None:
    """What a load takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="files or a directory that Spark can read")
    add_source(parser)
    add_meaning(parser)
    parser.add_argument(
        "--shape", choices=["rows", "cells"], default="rows", help="what a line is (default: rows)"
    )
    parser.add_argument(
        "--split",
        metavar="KEY",
        action="append",
        default=[],
        help="begin a tablet at this key first; may be given again (default: by samples)",
    )
    parser.add_argument("--job-id", metavar="NAME", help="two loads of one name are one")


def configure_import(parser: ArgumentParser) -> None:
    """What an import takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="what an export has written")
    add_format(parser)
    parser.add_argument(
        "--binary",
        choices=["native", "utf8", "base64", "hex"],
        help="how bytes were written; utf8 by default in formats of text",
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of the format, such as sep=;; may be given again",
    )
    parser.add_argument("--job-id", metavar="NAME", help="two imports of one name are one")
