"""The fixture that users get."""

from __future__ import annotations

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
    result = pytester.runpytest_inprocess("-p", pytest_plugin.__name__, "-p", "no:asyncio")
    result.assert_outcomes(passed=2)
