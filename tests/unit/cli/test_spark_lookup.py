"""``stele spark lookup``, as far as it goes without Spark; ``tests/spark`` has the rest."""

from __future__ import annotations

from argparse import ArgumentParser

from stele.cli.spark import JOBS
from stele.cli.spark_lookup import configure_lookup, lookup


def test_what_a_lookup_takes() -> None:
    parser = ArgumentParser()
    configure_lookup(parser)
    found = parser.parse_args(["t", "/x.csv", "--format", "csv", "--row", "id", "-c", "info:age"])
    assert (found.table, found.path, found.row, found.columns) == (
        "t",
        "/x.csv",
        ["id"],
        ["info:age"],
    )
    assert (found.how, found.limit, found.output, found.at) == ("left", 1_000, None, None)
    assert JOBS["lookup"] == (lookup, configure_lookup)
