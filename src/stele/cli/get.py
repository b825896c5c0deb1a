"""Print one row of a table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tables import (
    add_key,
    add_reading,
    add_table,
    open_database,
    positive,
    read_moment,
    show_row,
)
from stele.cli.values import read_key
from stele.errors import NotFound


def configure(parser: ArgumentParser) -> None:
    """A table, a key, and which cells."""
    add_table(parser)
    add_key(parser)
    add_reading(parser)
    parser.add_argument(
        "--versions", metavar="N", type=positive, help="print the N newest versions of each column"
    )


def run(arguments: Namespace, output: Output) -> int:
    """Print the row; a row without cells is not there."""
    with open_database(arguments) as database:
        table = database.table(arguments.table)
        key = read_key(arguments.key, table.schema.key)
        versions = arguments.versions
        at = read_moment(table, arguments.at)
        row = table.get(key, arguments.columns, versions=versions or 1, at=at)
        if row is None:
            raise NotFound(f"table {arguments.table!r} has no cells of row {arguments.key!r}")
        show_row(row, output, all_cells=versions is not None)
    return exit_codes.DONE
