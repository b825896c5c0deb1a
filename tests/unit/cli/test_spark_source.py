"""Files as arguments, as far as they go without Spark."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from stele.cli.spark_source import add_meaning, add_source, files_of, reader_options
from stele.errors import InvalidArgument


class Reader:
    """Notes what Spark would be asked to read."""

    def __init__(self) -> None:
        self.asked: tuple[object, ...] = ()

    @property
    def read(self) -> Reader:
        return self

    def format(self, name: str) -> Reader:
        self.asked += (name,)
        return self

    def options(self, **options: str) -> Reader:
        self.asked += (options,)
        return self

    def load(self, path: str) -> tuple[object, ...]:
        return (*self.asked, path)


def test_options_of_a_format() -> None:
    assert reader_options(["sep=a=b", "header=true"]) == {"sep": "a=b", "header": "true"}
    for wrong in ("header", "=x", ""):
        with pytest.raises(InvalidArgument, match="NAME=VALUE"):
            reader_options([wrong])


def test_a_source_says_what_is_read_and_what_it_means() -> None:
    parser = ArgumentParser()
    parser.add_argument("path")
    add_source(parser)
    add_meaning(parser)
    words = ["/x", "--format", "csv", "--reader-option", "header=true", "--row", "a", "--op", "o"]
    found = parser.parse_args(words)
    assert (found.row, found.op, found.family, found.nulls) == (["a"], "o", None, "skip")
    assert files_of(Reader(), found) == ("csv", {"header": "true"}, "/x")
