"""What commands on tables have in common: which database, which rows, and how rows are shown."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from stele.cli.output import Output
from stele.cli.values import from_bytes, moment, plain, read_key, to_bytes, word
from stele.client.database import Database
from stele.client.scan import Scan
from stele.client.table import Table
from stele.client.times import At
from stele.cluster import attach
from stele.cluster.root_of_trust import has_root
from stele.env.posix import PosixFileSystem
from stele.errors import InvalidArgument, NotFound
from stele.model.row import Row

DATABASE_VARIABLE = "STELE_DB"


def add_database(parser: ArgumentParser) -> None:
    """``--db``."""
    parser.add_argument(
        "--db",
        metavar="PATH",
        default=os.environ.get(DATABASE_VARIABLE),
        help=f"the database's directory (default: ${DATABASE_VARIABLE})",
    )


def add_table(parser: ArgumentParser) -> None:
    """``--db`` and the name of a table."""
    add_database(parser)
    parser.add_argument("table", metavar="TABLE", help="the name of a table")


def add_key(parser: ArgumentParser) -> None:
    """The key of a row."""
    parser.add_argument(
        "key", metavar="KEY", help=r"text; \xff is a byte; a JSON array for a composite key"
    )


def add_reading(parser: ArgumentParser) -> None:
    """What all reads can be asked for."""
    add_columns(parser)
    add_at(parser)


def add_at(parser: ArgumentParser) -> None:
    """When to read."""
    parser.add_argument(
        "--at", metavar="WHEN", help="a snapshot's name, a txn, or a time in ISO form"
    )


def add_columns(parser: ArgumentParser) -> None:
    """Which columns."""
    parser.add_argument(
        "-c",
        "--columns",
        metavar="NAME",
        nargs="+",
        type=to_bytes,
        help="columns such as info:age, or families such as info:",
    )


def add_rows(parser: ArgumentParser) -> None:
    """Which rows a scan reads."""
    parser.add_argument("--start", metavar="KEY", help="the first row")
    parser.add_argument("--end", metavar="KEY", help="the row before which to end")
    parser.add_argument("--prefix", metavar="KEY", help="only rows that begin with this")


def positive(text: str) -> int:
    """A number from 1, for argparse."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def database_path(arguments: Namespace, *, create: bool = False) -> Path:
    """The directory that ``--db`` names, which has to be there unless it is to be made."""
    if not arguments.db:
        raise InvalidArgument(f"which database? give --db PATH, or set {DATABASE_VARIABLE}")
    path = Path(arguments.db)
    found, is_directory = os.path.exists(path), os.path.isdir(path)  # False where one may not look
    if found and not is_directory:
        raise InvalidArgument(f"{path} is not a directory")
    if is_directory and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise InvalidArgument(f"{path}: this user may not read and write there")
    if not create and not (is_directory and has_root(PosixFileSystem(path))):
        raise NotFound(f"there is no database in {path}; 'stele table create' makes one")
    return path


def open_database(arguments: Namespace, *, create: bool = False) -> Database:
    """The database that ``--db`` names; it is only made where that is asked for.

    A command is a short visit: it attaches to an owner, but nobody attaches to it.
    """
    return attach.open_database(str(database_path(arguments, create=create)), serve=False)


def scan_rows(table: Table, arguments: Namespace, **options: Any) -> Scan:
    """The scan that the arguments of :func:`add_rows` and :func:`add_reading` describe."""
    rows, prefix = chosen_rows(table, arguments)
    at = read_moment(table, arguments.at)
    return table.scan(rows, arguments.columns, prefix=prefix, at=at, **options)


def read_moment(table: Table, text: str | None) -> At:
    """When a word means: the table's snapshot of that name, or else a txn or a time."""
    return text if text is None or text in table.snapshots() else moment(text)


def chosen_rows(table: Table, arguments: Namespace) -> tuple[object, object]:
    """A range of rows, or what they begin with, as :func:`add_rows` takes it."""
    codec = table.schema.key
    start, end, prefix = (
        None if text is None else read_key(text, codec)
        for text in (arguments.start, arguments.end, arguments.prefix)
    )
    if prefix is not None and (start is not None or end is not None):
        raise InvalidArgument("give --prefix, or --start and --end, not both")
    return (None if start is None and end is None else (start, end)), prefix


def key_of(row: Row) -> Any:
    """A row's key as JSON has it; its bytes where they are not an encoded key."""
    try:
        return plain(row.typed_key)
    except InvalidArgument:
        return from_bytes(row.key)


def show_row(row: Row, output: Output, *, all_cells: bool) -> None:
    """Print one row: columns and newest values, or every version with its timestamp."""
    key = key_of(row)
    versions = [
        (_column_word(name), timestamp, value)
        for name in row
        for timestamp, value in row.versions(name)
    ]
    cells = [
        {"column": name, "timestamp": timestamp, "value": plain(value)}
        for name, timestamp, value in versions
    ]
    newest = {_column_word(name): plain(value) for name, value in row.to_dict().items()}
    value = {"row": key, "cells": cells} if all_cells else {"row": key, "columns": newest}
    lines = [
        f"  {name} = {word(value)}" + (f"  @{timestamp}" if all_cells else "")
        for name, timestamp, value in versions
    ]
    output.record(value, "\n".join([word(key), *lines]))


def _column_word(name: str | bytes) -> str:
    return from_bytes(name.encode() if isinstance(name, str) else name)
