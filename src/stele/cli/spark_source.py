"""Files that Spark reads, as arguments: which, of what format, and what is the key of a line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from stele.errors import InvalidArgument


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


def files_of(session: Any, arguments: Namespace) -> Any:
    """The files that the arguments name, as a DataFrame."""
    from stele.spark.loading import read_files

    options = reader_options(arguments.reader_option)
    return read_files(session, arguments.path, arguments.format, options)


def reader_options(texts: Iterable[str]) -> dict[str, str]:
    """``header=true`` as the two words that Spark's reader takes."""
    options = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise InvalidArgument(f"an option is NAME=VALUE, as in header=true; not {text!r:.80}")
        options[name] = value
    return options
