"""Files that Spark reads, as arguments: which, of what format, and what is the key of a line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from stele.errors import InvalidArgument
from stele.model.schema import Schema


def add_format(parser: ArgumentParser) -> None:
    """``--format``."""
    parser.add_argument(
        "--format", metavar="NAME", default="parquet", help="parquet (default), csv, json, orc, …"
    )


def add_source(parser: ArgumentParser) -> None:
    """The format, its options, and the columns of the key."""
    add_format(parser)
    parser.add_argument(
        "--reader-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of the format, such as header=true; may be given again",
    )
    parser.add_argument(
        "--row", metavar="COLUMN", action="append", help="of the key; again for each further part"
    )


def add_meaning(parser: ArgumentParser) -> None:
    """What the columns of a line mean."""
    parser.add_argument("--family", metavar="NAME", help="of columns whose names say none")
    parser.add_argument("--timestamp", metavar="COLUMN", help="with the time of a row's cells")
    parser.add_argument("--op", metavar="COLUMN", help="with 'put' or 'delete'")
    parser.add_argument(
        "--nulls", choices=["skip", "delete"], default="skip", help="what a null means"
    )


def files_of(session: Any, arguments: Namespace, schema: Schema) -> Any:
    """The files that the arguments name, as a DataFrame; text in the types of a table."""
    from stele.spark.file_frames import FORMATS_OF_TEXT, as_declared, read_files

    options = reader_options(arguments.reader_option)
    frame = read_files(session, arguments.path, arguments.format, options)
    if arguments.format not in FORMATS_OF_TEXT or _are_cells(frame, arguments):
        return frame
    return as_declared(frame, schema, arguments.row, getattr(arguments, "family", None))


def _are_cells(frame: Any, arguments: Namespace) -> bool:
    """Whether lines are cells, whose keys and values are encoded already."""
    from stele.model.arrow_input import CELL_COLUMNS

    shape = getattr(arguments, "shape", "rows")
    return shape == "cells" or (shape is None and set(CELL_COLUMNS) <= set(frame.columns))


def reader_options(texts: Iterable[str]) -> dict[str, str]:
    """``header=true`` as the two words that Spark's reader takes."""
    options = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise InvalidArgument(f"an option is NAME=VALUE, as in header=true; not {text!r:.80}")
        options[name] = value
    return options
