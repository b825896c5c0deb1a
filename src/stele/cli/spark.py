"""Jobs on Spark over the files of a database: SQL, loads, exports, backups, recoveries, checks."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.spark_changes import changes, configure_changes
from stele.cli.spark_compact import compact, configure_compact
from stele.cli.spark_load import configure_import, configure_load, import_files, load
from stele.cli.spark_lookup import configure_lookup, lookup
from stele.cli.spark_recover import configure_recover, recover
from stele.cli.spark_write import configure_delete, configure_write, delete, write
from stele.cli.tables import (
    add_at,
    add_database,
    add_reading,
    database_path,
    open_database,
    positive,
    read_moment,
)
from stele.cli.values import plain, word
from stele.client.database import Database
from stele.errors import Corruption, InvalidArgument

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def configure(parser: ArgumentParser) -> None:
    """One subcommand for each job."""
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    for name, (run_job, configure_job) in {**JOBS, **OFFLINE_JOBS}.items():
        summary = (run_job.__doc__ or "").splitlines()[0].rstrip(".")
        job = jobs.add_parser(name, help=summary, description=summary)
        job.add_argument("--json", action="store_true", help="print one JSON value")
        job.add_argument("--verbose", action="store_true", help="also print what Spark logs")
        job.add_argument("--master", metavar="URL", help="where Spark runs (default: local[*])")
        add_database(job)
        configure_job(job)


def run(arguments: Namespace, output: Output) -> int:
    """Run a job in a Spark of its own."""
    if arguments.job in OFFLINE_JOBS:
        path = str(database_path(arguments))
        with own_session(arguments) as session:
            OFFLINE_JOBS[arguments.job][0](session, path, arguments, output)
    else:
        create = arguments.job == "restore"
        with (
            open_database(arguments, create=create) as database,
            own_session(arguments) as session,
        ):
            JOBS[arguments.job][0](session, database, arguments, output)
    return exit_codes.DONE


@contextmanager
def own_session(arguments: Namespace) -> Iterator[Any]:
    """A Spark for one command."""
    from stele import spark as ss

    session = ss.session(arguments.master or "local[*]", **QUIET)
    # What fails is told in one sentence; Spark would print the stack of every attempt before it.
    session.sparkContext.setLogLevel("WARN" if getattr(arguments, "verbose", False) else "OFF")
    try:
        yield session
    finally:
        session.stop()


def sql(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Run a query in Spark SQL over the tables it names."""
    from stele import spark as ss
    from stele.spark.queries import run_query
    from stele.spark.system_tables import SYSTEM_TABLES

    for name in named_tables(arguments.query, [f"system_{each}" for each in SYSTEM_TABLES]):
        found = ss.system(session, database, name.removeprefix("system_"))
        found.createOrReplaceTempView(name)
    for name in named_tables(arguments.query, database.tables()):
        shape = "rows" if _has_lines(database, name) else "cells"
        ss.view(session, database.table(name), shape=shape)
    for line in run_query(session, arguments.query, arguments.limit):
        value = {name: plain(field) for name, field in line.asDict(recursive=True).items()}
        output.record(value, "  ".join(word(field) for field in line))


def named_tables(query: str, tables: list[str]) -> list[str]:
    """The tables whose names occur in a query as words; others are not pinned for it."""
    words = {text.lower() for text in re.findall(r"`[^`]+`|[\w.]+", query)}
    return [name for name in tables if {name.lower(), f"`{name.lower()}`"} & words]


def _has_lines(database: Database, name: str) -> bool:
    """Whether a table's schema says enough for wide rows."""
    schema = database.table(name).schema
    return bool(schema.columns) or any(group.families for group in schema.groups)


def _configure_sql(parser: ArgumentParser) -> None:
    parser.add_argument(
        "query",
        metavar="QUERY",
        help="such as 'SELECT count(*) FROM users', or FROM system_tablets",
    )
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=1_000, help="print at most N lines"
    )


def export(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Write a table in any format of Spark's."""
    from stele import spark as ss

    table = database.table(arguments.table)
    done = ss.export(
        session,
        table,
        arguments.path,
        format=arguments.format,
        mode="overwrite" if arguments.overwrite else "error",
        binary=arguments.binary,
        options=dict(_option(text) for text in arguments.option),
        columns=arguments.columns,
        at=read_moment(table, arguments.at),
        shape=arguments.shape,
        versions=arguments.versions if arguments.shape == "cells" else 1,
    )
    written = {"path": done.path, "format": done.format, "lines": done.lines}
    output.result(written, f"{done.lines} lines in {done.path}")


def check(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Read every file of one table, or of all, to its end, and say what is wrong."""
    from stele import spark as ss

    count = 0
    for name in [arguments.table] if arguments.table else database.tables():
        for line in ss.check(session, database.table(name)).toLocalIterator():
            output.record(
                line.asDict(), f"{line.kind}: {line.table}: {line.subject}: {line.detail}"
            )
            count += 1
    if count:
        raise Corruption(f"{count} things are wrong: stele check --deep says what can be repaired")


def backup(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Copy a table at one moment into a new directory."""
    from stele import spark as ss

    table = database.table(arguments.table)
    at = read_moment(table, arguments.at)
    done = ss.backup(session, table, arguments.path, at=at)
    written = {"path": done.path, "txn": done.txn, "files": done.files, "bytes": done.size_bytes}
    output.result(written, f"{done.files} files, {done.size_bytes} bytes in {done.path}")


def restore(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Make a new table of a backup, and the database if there is none."""
    from stele import spark as ss

    done = ss.restore(session, arguments.path, database, arguments.table)
    made = {"table": done.table, "txn": done.txn, "cells": done.cells}
    output.result(made, f"{done.cells} cells in table {done.table}")


def _configure_backup(parser: ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="a new directory that all executors see")
    add_at(parser)


def _configure_restore(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the directory of a backup")
    parser.add_argument("table", metavar="TABLE", help="the name of the new table")


def _configure_check(parser: ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", nargs="?", help="all tables by default")


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise InvalidArgument(f"an option is NAME=VALUE, as in header=true; not {text!r:.80}")
    return name, value


def _configure_export(parser: ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("path", metavar="PATH", help="a directory or an address that Spark knows")
    parser.add_argument(
        "--format", metavar="NAME", default="parquet", help="parquet (default), csv, json, orc, …"
    )
    parser.add_argument("--shape", choices=["rows", "cells"], default="rows")
    parser.add_argument(
        "--binary",
        choices=["native", "utf8", "base64", "hex"],
        help="how bytes are written; utf8 by default in formats of text",
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of the format, such as header=true; may be given again",
    )
    parser.add_argument(
        "--versions", metavar="N", type=positive, help="of each cell (default: all)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is at PATH")
    add_reading(parser)


Job = Callable[[Any, Database, Namespace, Output], None]

JOBS: dict[str, tuple[Job, Callable[[ArgumentParser], None]]] = {
    "sql": (sql, _configure_sql),
    "load": (load, configure_load),
    "write": (write, configure_write),
    "delete": (delete, configure_delete),
    "import": (import_files, configure_import),
    "lookup": (lookup, configure_lookup),
    "changes": (changes, configure_changes),
    "compact": (compact, configure_compact),
    "export": (export, _configure_export),
    "check": (check, _configure_check),
    "backup": (backup, _configure_backup),
    "restore": (restore, _configure_restore),
}
"""What there is to do, and what each takes."""

OfflineJob = Callable[[Any, str, Namespace, Output], None]

OFFLINE_JOBS: dict[str, tuple[OfflineJob, Callable[[ArgumentParser], None]]] = {
    "recover": (recover, configure_recover),
}
"""The same for a database that nobody has open, and that these do not open either."""
