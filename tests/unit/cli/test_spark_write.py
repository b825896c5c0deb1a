"""``stele spark write`` and ``delete``, as far as they go without Spark."""

from __future__ import annotations

import io
from argparse import ArgumentParser, Namespace
from typing import Any

import pytest

from stele.cli.output import Output
from stele.cli.spark_write import _text, configure_delete, configure_write, delete
from stele.errors import InvalidArgument
from stele.spark.loading import Report


def test_what_a_write_takes() -> None:
    parser = ArgumentParser()
    configure_write(parser)
    words = ["t", "/x.csv", "--format", "csv", "--row", "a", "--app-id", "daily", "--version", "3"]
    found = parser.parse_args([*words, "--reader-option", "header=true", "--shape", "rows"])
    assert (found.table, found.path, found.format, found.row) == ("t", "/x.csv", "csv", ["a"])
    assert (found.app_id, found.version, found.shape, found.nulls) == ("daily", 3, "rows", "skip")


def test_what_a_delete_takes() -> None:
    parser = ArgumentParser()
    configure_delete(parser)
    found = parser.parse_args(["t", "--where", "a > 1", "-c", "info:age", "-c", "x:"])
    assert (found.path, found.where, found.columns) == (None, "a > 1", ["info:age", "x:"])
    for words in (["t"], ["t", "/x", "--where", "a"]):
        arguments: Namespace = parser.parse_args(words)
        output = Output(io.StringIO(), io.StringIO(), as_json=False)
        nothing: Any = None
        with pytest.raises(InvalidArgument, match="say what goes"):
            delete(nothing, nothing, arguments, output)


def test_what_they_say() -> None:
    assert _text(Report("j", 7, rows=3, seconds=1.25), "written") == "3 rows written, 1.2 s; txn 7"
    assert _text(Report("j", 7, done_before=True), "deleted") == "was deleted before; txn 7"
