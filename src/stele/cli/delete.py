"""Erase a row of a table, or columns of it; returns when that is durable."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tables import add_key, add_table, open_database
from stele.cli.values import read_key, to_bytes


def configure(parser: ArgumentParser) -> None:
    """A table, a key, and what of the row."""
    add_table(parser)
    add_key(parser)
    parser.add_argument(
        "-c",
        "--columns",
        metavar="NAME",
        nargs="+",
        type=to_bytes,
        help="only these columns and families",
    )
    parser.add_argument(
        "--until", metavar="MICROS", type=int, help="only versions up to this timestamp"
    )


def run(arguments: Namespace, output: Output) -> int:
    """Erase, and print the txn."""
    with open_database(arguments) as database:
        table = database.table(arguments.table)
        key = read_key(arguments.key, table.schema.key)
        txn = table.delete(key, arguments.columns, until=arguments.until)
    output.result({"txn": txn}, f"erased, txn {txn}")
    return exit_codes.DONE
