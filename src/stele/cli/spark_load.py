"""``stele spark load`` and ``import``: whatever Spark can read becomes part of a table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from stele.cli.output import Output
from stele.client.database import Database
from stele.errors import InvalidArgument


def load(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Load files of any format of Spark's into a table, all at once."""
    from stele import spark as ss
    from stele.spark.loading import read_files

    options = dict(map(reader_option, arguments.reader_option))
    frame = read_files(session, arguments.path, arguments.format, options)
    report = ss.bulk_load(
        session,
        frame,
        database.table(arguments.table),
        row=arguments.row,
        family=arguments.family,
        timestamp=arguments.timestamp,
        op=arguments.op,
        nulls=arguments.nulls,
        job_id=arguments.job_id,
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
        options=dict(map(reader_option, arguments.option)),
        job_id=arguments.job_id,
    )
    done = f"{report.rows} lines, {report.cells} cells; txn {report.txn}"
    text = f"{report.job_id} was imported before" if report.done_before else done
    output.result(asdict(report), text)


def reader_option(text: str) -> tuple[str, str]:
    """``header=true`` as the two words that Spark's reader takes."""
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise InvalidArgument(f"an option is NAME=VALUE, as in header=true; not {text!r:.80}")
    return name, value


def configure_load(parser: ArgumentParser) -> None:
    """What a load takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="files or a directory that Spark can read")
    parser.add_argument(
        "--format", metavar="NAME", default="parquet", help="parquet (default), csv, json, orc, …"
    )
    parser.add_argument(
        "--reader-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of the format, such as header=true; may be given again",
    )
    parser.add_argument(
        "--row", metavar="COLUMN", action="append", help="of the key; again for each further part"
    )
    parser.add_argument("--family", metavar="NAME", help="of columns whose names say none")
    parser.add_argument("--timestamp", metavar="COLUMN", help="with the time of a row's cells")
    parser.add_argument("--op", metavar="COLUMN", help="with 'put' or 'delete'")
    parser.add_argument(
        "--nulls", choices=["skip", "delete"], default="skip", help="what a null means"
    )
    parser.add_argument("--job-id", metavar="NAME", help="two loads of one name are one")


def configure_import(parser: ArgumentParser) -> None:
    """What an import takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="what an export has written")
    parser.add_argument(
        "--format", metavar="NAME", default="parquet", help="parquet (default), csv, json, orc, …"
    )
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
