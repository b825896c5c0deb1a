"""Print rows of a table in key order; with --json one line for each."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tables import (
    add_reading,
    add_rows,
    add_table,
    open_database,
    positive,
    scan_rows,
    show_row,
)


def configure(parser: ArgumentParser) -> None:
    """A table, which rows, which cells, how many."""
    add_table(parser)
    add_rows(parser)
    add_reading(parser)
    parser.add_argument("--limit", metavar="N", type=positive, help="at most N rows")
    parser.add_argument("--reverse", action="store_true", help="the last row first")
    parser.add_argument(
        "--versions", metavar="N", type=positive, help="print the N newest versions of each column"
    )


def run(arguments: Namespace, output: Output) -> int:
    """Print the rows as they come."""
    versions = arguments.versions
    with open_database(arguments) as database:
        rows = scan_rows(
            database.table(arguments.table),
            arguments,
            limit=arguments.limit,
            reverse=arguments.reverse,
            versions=versions or 1,
        )
        for row in rows:
            show_row(row, output, all_cells=versions is not None)
    return exit_codes.DONE
