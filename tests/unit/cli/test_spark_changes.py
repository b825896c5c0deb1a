"""``stele spark changes``, as far as it goes without Spark; ``tests/spark`` has the rest."""

from __future__ import annotations

from argparse import ArgumentParser

from stele.cli.spark_changes import configure_changes


def test_what_it_takes() -> None:
    parser = ArgumentParser()
    configure_changes(parser)
    found = parser.parse_args(["t", "/out", "--since", "5", "--mode", "all", "--format", "csv"])
    assert (found.table, found.path, found.since, found.until) == ("t", "/out", "5", None)
    assert (found.mode, found.shape, found.format) == ("all", None, "csv")
    assert parser.parse_args(["t", "/out"]).since == "0"
