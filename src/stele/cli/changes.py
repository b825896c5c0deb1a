"""Print what changed in a table between two moments; with --json one line for each change."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from itertools import islice
from typing import Any

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tables import (
    add_columns,
    add_rows,
    add_table,
    chosen_rows,
    open_database,
    positive,
    read_moment,
)
from stele.cli.values import from_bytes, plain, word
from stele.errors import SteleError
from stele.model.columns import Column
from stele.model.schema import Schema
from stele.storage.change_lines import CHANGE_MODES, CHANGE_TYPE, COMMIT_VERSION


def configure(parser: ArgumentParser) -> None:
    """A table, from when to when, which rows, how it is told."""
    add_table(parser)
    add_range(parser)
    add_rows(parser)
    add_columns(parser)
    parser.add_argument("--limit", metavar="N", type=positive, help="print at most N changes")


def add_range(parser: ArgumentParser) -> None:
    """From when to when, and how it is told."""
    what = "a snapshot's name, a txn, or a time in ISO form"
    parser.add_argument(
        "--since",
        metavar="WHEN",
        default="0",
        help=f"tell what came after: {what} (default: all that is there is new)",
    )
    parser.add_argument("--until", metavar="WHEN", help=f"and not after: {what}")
    parser.add_argument(
        "--mode",
        choices=CHANGE_MODES,
        default="net",
        help="net compares the two moments (default), all tells every mutation",
    )


def run(arguments: Namespace, output: Output) -> int:
    """Print the changes, and up to where they were told."""
    with open_database(arguments) as database:
        table = database.table(arguments.table)
        rows, prefix = chosen_rows(table, arguments)
        with table.changes(
            read_moment(table, arguments.since),
            read_moment(table, arguments.until),
            rows=rows,
            prefix=prefix,
            columns=arguments.columns,
            mode=arguments.mode,
        ) as changes:
            lines = iter(changes)
            for line in islice(lines, arguments.limit):
                show(line, table.schema, output)
            if next(lines, None) is None:
                output.record({"until": changes.txn}, f"up to {changes.txn}")
            else:  # whoever went on from there would miss the rest
                output.record({"more_until": changes.txn}, f"and more, up to {changes.txn}")
    return exit_codes.DONE


def show(line: dict[str, Any], schema: Schema, output: Output) -> None:
    """One change as one line."""
    column, value = _cell(line, schema)
    key = _key(line["row"], schema)
    told = {
        "type": line[CHANGE_TYPE],
        "txn": line[COMMIT_VERSION],
        "row": plain(key),
        "column": column,
        "timestamp": line["timestamp"],
        "value": plain(value),
    }
    words = [line[CHANGE_TYPE], word(key), *([column] if column else [])]
    if line["value"] is not None:
        words += ["=", word(value)]
    time = "" if line["timestamp"] is None else f"  @{line['timestamp']}"
    output.record(told, f"{' '.join(words)}{time}")


def _key(row: bytes, schema: Schema) -> Any:
    try:
        return schema.key.decode(row)
    except SteleError:
        return row


def _cell(line: dict[str, Any], schema: Schema) -> tuple[str | None, Any]:
    """The name of a column and its value, decoded where it is declared and fits."""
    family, qualifier, value = line["family"], line["qualifier"], line["value"]
    if family is None:
        return None, value
    if qualifier is None:
        return f"{family}:", value
    name = from_bytes(family.encode() + b":" + qualifier)
    typed = schema.typed_column(Column(family, qualifier))
    if typed is None or value is None:
        return name, value
    try:
        return name, typed.decode(value)
    except SteleError:
        return name, value
