"""``stele spark``: what needs no Spark; the jobs themselves are in ``tests/spark/test_cli.py``."""

from __future__ import annotations

import pytest

from stele.cli.spark import JOBS, named_tables
from tests.unit.cli.tables_cli import Shell


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM users", ["users"]),
        ("select count(*) from USERS join `web pages` on true", ["users", "web pages"]),
        ("SELECT 'users2', usersx FROM other", []),
        ("SELECT users.`info:age` FROM users", ["users"]),
    ],
)
def test_only_tables_that_a_query_names_are_pinned(query: str, expected: list[str]) -> None:
    assert named_tables(query, ["users", "web pages", "third"]) == expected


def test_a_job_has_to_be_named(shell: Shell) -> None:
    assert "JOB" in shell.refused(2, "spark")
    assert "sql" in JOBS
