"""Findings speak to people and to programs."""

from __future__ import annotations

import json

from stele.tablet.check.findings import Finding, Kind, Severity, printable


def test_only_what_a_crash_may_leave_is_a_note() -> None:
    notes = {kind for kind in Kind if kind.severity is Severity.NOTE}
    assert notes == {Kind.ORPHAN_FILE, Kind.UNKNOWN_TABLE}


def test_a_finding_is_a_sentence_and_a_json_object() -> None:
    finding = Finding(Kind.GAP, "t1", "t1.2", "no tablet for some rows", b"\x00'a", None)
    assert str(finding) == "damage: gap: no tablet for some rows"
    value = finding.as_json()
    assert json.loads(json.dumps(value)) == value
    assert (value["kind"], value["severity"], value["end"]) == ("gap", "damage", None)


def test_rows_are_printable() -> None:
    assert printable(b"ab\xff") == "ab\\xff"
