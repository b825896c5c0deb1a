"""Jobs on Spark over the files of a database: SQL over its tables."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tables import add_database, open_database, positive
from stele.cli.values import plain, word
from stele.client.database import Database

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def configure(parser: ArgumentParser) -> None:
    """One subcommand for each job."""
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    for name, (run_job, configure_job) in JOBS.items():
        summary = (run_job.__doc__ or "").splitlines()[0].rstrip(".")
        job = jobs.add_parser(name, help=summary, description=summary)
        job.add_argument("--json", action="store_true", help="print one JSON value")
        job.add_argument("--master", metavar="URL", help="where Spark runs (default: local[*])")
        add_database(job)
        configure_job(job)


def run(arguments: Namespace, output: Output) -> int:
    """Run a job in a Spark of its own."""
    from stele import spark as ss

    run_job, _ = JOBS[arguments.job]
    with open_database(arguments) as database:
        session = ss.session(arguments.master or "local[*]", **QUIET)
        session.sparkContext.setLogLevel("ERROR")
        try:
            run_job(session, database, arguments, output)
        finally:
            session.stop()
    return exit_codes.DONE


def sql(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Run a query in Spark SQL over the tables it names."""
    from stele import spark as ss
    from stele.spark.queries import run_query

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
    parser.add_argument("query", metavar="QUERY", help="such as 'SELECT count(*) FROM users'")
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=1_000, help="print at most N lines"
    )


Job = Callable[[Any, Database, Namespace, Output], None]

JOBS: dict[str, tuple[Job, Callable[[ArgumentParser], None]]] = {"sql": (sql, _configure_sql)}
"""What there is to do, and what each takes."""
