"""``stele spark recover``, as far as it goes without Spark; ``tests/spark`` has the rest."""

from __future__ import annotations

from argparse import ArgumentParser

from stele.cli.spark import JOBS, OFFLINE_JOBS
from stele.cli.spark_recover import configure_recover, recover


def test_it_takes_a_database_and_does_not_open_it() -> None:
    parser = ArgumentParser()
    configure_recover(parser)
    assert vars(parser.parse_args([])) == {}
    assert OFFLINE_JOBS["recover"][0] is recover
    assert not JOBS.keys() & OFFLINE_JOBS.keys()
