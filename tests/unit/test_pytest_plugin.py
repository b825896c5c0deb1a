"""The fixture that users get."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from stele import pytest_plugin

pytest_plugins = ["pytester"]

USERS_TEST = """
def test_one(stele_db):
    stele_db.create_table("t").put(b"a", {"f:q": b"1"})
    assert stele_db.tables() == ["t"]

def test_another(stele_db):
    assert stele_db.tables() == []
"""


def test_each_test_has_an_empty_database(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_users=USERS_TEST)
    # An installed package brings its plugin by itself; a bare source tree has to be told.
    installed = "stele" in entry_points(group="pytest11").names
    load = () if installed else ("-p", pytest_plugin.__name__)
    result = pytester.runpytest_inprocess(*load, "-p", "no:asyncio")
    result.assert_outcomes(passed=2)
