"""``stele spark write`` and ``stele spark delete``: from whatever Spark can read."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from stele.cli.output import Output
from stele.cli.spark_source import add_meaning, add_source, files_of
from stele.client.database import Database
from stele.errors import InvalidArgument


def write(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Write files of any format of Spark's into a table, in one commit."""
    from stele import spark as ss

    table = database.table(arguments.table)
    report = ss.write(
        files_of(session, arguments, table.schema),
        table,
        row=arguments.row,
        family=arguments.family,
        timestamp=arguments.timestamp,
        op=arguments.op,
        nulls=arguments.nulls,
        shape=arguments.shape,
        app_id=arguments.app_id,
        version=arguments.version,
        truncate=arguments.truncate,
    )
    output.result(asdict(report), _text(report, "written"))


def delete(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Delete rows, or columns of them, that a condition or files name, in one commit."""
    from stele import spark as ss

    if (arguments.where is None) == (arguments.path is None):
        raise InvalidArgument("say what goes: PATH, files with keys, or --where, a condition")
    table = database.table(arguments.table)
    report = ss.delete(
        arguments.where or files_of(session, arguments, table.schema),
        table,
        row=arguments.row,
        columns=arguments.columns,
        app_id=arguments.app_id,
        version=arguments.version,
    )
    output.result(asdict(report), _text(report, "deleted"))


def _text(report: Any, what: str) -> str:
    if report.done_before:
        return f"was {what} before; txn {report.txn}"
    return f"{report.rows} rows {what}, {report.seconds:.1f} s; txn {report.txn}"


def configure_write(parser: ArgumentParser) -> None:
    """What a write takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="files or a directory that Spark can read")
    add_source(parser)
    _add_identity(parser)
    add_meaning(parser)
    parser.add_argument("--shape", choices=["rows", "cells"], help="if the columns do not say it")
    parser.add_argument(
        "--truncate", action="store_true", help="replace all that is in the table, in one moment"
    )


def configure_delete(parser: ArgumentParser) -> None:
    """What a delete takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", nargs="?", help="files with keys")
    parser.add_argument("--where", metavar="SQL", help="a condition over the table's rows")
    add_source(parser)
    _add_identity(parser)
    parser.add_argument(
        "-c",
        "--column",
        metavar="NAME",
        dest="columns",
        action="append",
        help="a column or 'family:' that goes instead of the whole row; may be given again",
    )


def _add_identity(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--app-id", metavar="NAME", help="with --version: what makes it happen once"
    )
    parser.add_argument("--version", metavar="N", type=int, help="happens unless N or more has")
