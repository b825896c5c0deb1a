"""List what the owner of a database does now, and has done lately.

Flushes, compactions, splits, imports and other work beside answering, in the order in which they
began. The process that has the database open remembers them; where none has, there is only what
this command itself has done to open it.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

import msgspec

from stele.cli import exit_codes
from stele.cli.output import Output, columns
from stele.cli.tables import add_database, open_database
from stele.model.operations import Operation, OperationState

HEADINGS = ("id", "operation", "of", "state", "started", "took", "in", "out", "cells", "")
US_PER_SECOND = 1_000_000


def configure(parser: ArgumentParser) -> None:
    """Which database, and what of it."""
    add_database(parser)
    parser.add_argument("--running", action="store_true", help="only what is under way")


def run(arguments: Namespace, output: Output) -> int:
    """Print one line for each."""
    with open_database(arguments) as database:
        found = database.operations()
    if arguments.running:
        found = tuple(one for one in found if one.state is OperationState.RUNNING)
    lines = columns([HEADINGS, *map(_words, found)])
    output.result([msgspec.to_builtins(one) for one in found], lines)
    return exit_codes.DONE


def _words(operation: Operation) -> tuple[str, ...]:
    """An operation as a line of a table; what is missing is a dash."""
    started = datetime.fromtimestamp(operation.started_us / US_PER_SECOND, UTC)
    took = "-"
    if operation.ended_us is not None:
        took = f"{(operation.ended_us - operation.started_us) / US_PER_SECOND:.3f} s"
    sizes = (operation.bytes_in, operation.bytes_out, operation.cells)
    return (
        str(operation.id),
        operation.kind,
        " ".join(name for name in (operation.table, operation.tablet) if name) or "-",
        operation.state,
        started.strftime("%Y-%m-%d %H:%M:%S"),
        took,
        *(f"{size:,}" if size else "-" for size in sizes),
        ": ".join(text for text in (operation.detail, operation.error) if text),
    )
