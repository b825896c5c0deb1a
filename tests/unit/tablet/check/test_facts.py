"""Facts know tables by the names people use."""

from __future__ import annotations

from stele.tablet.check.facts import StoreFacts


def test_a_table_that_nobody_named_goes_by_its_id() -> None:
    facts = StoreFacts(tables={"t1": "users"}, tablets=())
    assert (facts.name("t1"), facts.name("META1")) == ("users", "META1")
