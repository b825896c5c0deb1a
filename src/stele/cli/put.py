"""Write columns of one row; returns when they are durable."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tables import add_key, add_table, open_database
from stele.cli.values import read_cell, read_key, to_bytes
from stele.errors import InvalidArgument
from stele.model.columns import Column


def configure(parser: ArgumentParser) -> None:
    """A table, a key, columns and values."""
    add_table(parser)
    add_key(parser)
    parser.add_argument(
        "values", metavar="COLUMN=VALUE", nargs="+", help="such as info:name=Ada info:age=36"
    )
    parser.add_argument(
        "--timestamp", metavar="MICROS", type=int, help="the cells' timestamp (default: the txn)"
    )


def run(arguments: Namespace, output: Output) -> int:
    """Write, and print the txn."""
    with open_database(arguments) as database:
        table = database.table(arguments.table)
        schema = table.schema
        values = {}
        for text in arguments.values:
            name, equals, value = text.partition("=")
            if not equals:
                raise InvalidArgument(f"{text!r} is not COLUMN=VALUE, such as info:age=36")
            column = Column.parse(to_bytes(name))
            if column in values:
                raise InvalidArgument(f"column {name!r} is given twice")
            values[column] = read_cell(value, schema.typed_column(column), name)
        key = read_key(arguments.key, schema.key)
        txn = table.put(key, values, timestamp=arguments.timestamp)
    output.result({"txn": txn}, f"written, txn {txn}")
    return exit_codes.DONE
