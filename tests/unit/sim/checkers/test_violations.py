"""Broken promises are counted, and the first ones told."""

from __future__ import annotations

from stele.sim.checkers.violations import VIOLATIONS_KEPT_MAX, PromiseReport, Violation


def test_a_clean_report() -> None:
    report = PromiseReport()
    assert report.ok
    assert str(report) == "nothing to check: no violations"
    report.checked["grants"] += 2
    assert str(report) == "2 grants: no violations"


def test_a_report_of_violations() -> None:
    report = PromiseReport()
    report.checked["grants"] += 2
    report.add("exclusion", "/l", "two at once")
    assert not report.ok
    assert report.violations == [Violation("exclusion", "/l", "two at once")]
    assert str(report) == "2 grants: 1 violations\n  exclusion, /l: two at once"


def test_more_than_enough_are_counted_and_not_kept() -> None:
    report = PromiseReport()
    for _ in range(VIOLATIONS_KEPT_MAX + 5):
        report.add("order", "w", "told")
    assert report.counts["order"] == VIOLATIONS_KEPT_MAX + 5
    assert len(report.violations) == VIOLATIONS_KEPT_MAX
