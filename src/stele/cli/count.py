"""Count rows of a table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tables import add_reading, add_rows, add_table, open_database, scan_rows


def configure(parser: ArgumentParser) -> None:
    """A table and which rows."""
    add_table(parser)
    add_rows(parser)
    add_reading(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print how many rows have a cell that was asked for."""
    with open_database(arguments) as database:
        count = scan_rows(database.table(arguments.table), arguments).count()
    output.result({"rows": count}, str(count))
    return exit_codes.DONE
