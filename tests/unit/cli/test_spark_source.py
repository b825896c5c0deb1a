"""Files as arguments, as far as they go without Spark."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from stele.cli.spark_source import add_meaning, add_source, files_of, reader_options
from stele.errors import InvalidArgument
from stele.model.schema import Schema


class Reader:
    """Notes what Spark would be asked to read."""

    columns = ("id", "age")
    dtypes = (("id", "string"), ("age", "string"))

    def __init__(self) -> None:
        self.asked: tuple[object, ...] = ()
        self.chosen: tuple[str, ...] = ()

    @property
    def read(self) -> Reader:
        return self

    def format(self, name: str) -> Reader:
        self.asked += (name,)
        return self

    def options(self, **options: str) -> Reader:
        self.asked += (options,)
        return self

    def load(self, path: str) -> Reader:
        self.asked += (path,)
        return self

    def selectExpr(self, *chosen: str) -> Reader:  # noqa: N802 -- of Spark
        self.chosen = chosen
        return self


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
    asked = files_of(Reader(), found, Schema())
    assert asked.asked == ("csv", {"header": "true"}, "/x")


def test_text_becomes_what_a_table_declares_where_files_have_no_types() -> None:
    schema = Schema(columns={"info:age": "int64"})
    parser = ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--shape")
    add_source(parser)
    add_meaning(parser)
    words = ["/x", "--family", "info", "--row", "id", "--shape", "rows", "--format"]
    found = files_of(Reader(), parser.parse_args([*words, "csv"]), schema)
    assert found.chosen[0] == "`id`"
    assert "try_cast(`age` AS bigint)" in found.chosen[1]
    assert files_of(Reader(), parser.parse_args([*words, "parquet"]), schema).chosen == ()
    cells = parser.parse_args([*words, "csv", "--shape", "cells"])
    assert files_of(Reader(), cells, schema).chosen == ()
