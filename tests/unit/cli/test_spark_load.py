"""``stele spark load``, as far as it goes without Spark; ``tests/spark`` has the rest."""

from __future__ import annotations

from argparse import ArgumentParser

from stele.cli.spark_load import configure_import, configure_load


def test_what_a_load_takes() -> None:
    parser = ArgumentParser()
    configure_load(parser)
    words = ["t", "/x.csv", "--format", "csv", "--row", "a", "--row", "b", "--job-id", "j"]
    found = parser.parse_args([*words, "--reader-option", "header=true"])
    assert (found.table, found.path, found.format) == ("t", "/x.csv", "csv")
    assert (found.row, found.job_id, found.nulls) == (["a", "b"], "j", "skip")
    assert found.reader_option == ["header=true"]
    assert (found.shape, found.split) == ("rows", [])
    more = parser.parse_args([*words, "--shape", "cells", "--split", "b", "--split", "c"])
    assert (more.shape, more.split) == ("cells", ["b", "c"])


def test_what_an_import_takes() -> None:
    parser = ArgumentParser()
    configure_import(parser)
    found = parser.parse_args(
        ["t", "/out", "--format", "csv", "--binary", "hex", "--option", "a=b"]
    )
    assert (found.table, found.path, found.format, found.binary) == ("t", "/out", "csv", "hex")
    assert (found.option, found.job_id) == (["a=b"], None)
