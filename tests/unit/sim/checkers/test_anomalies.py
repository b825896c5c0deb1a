"""An anomaly tells its story."""

from __future__ import annotations

from stele.sim.checkers.anomalies import ANOMALIES_KEPT_MAX, Findings, show_transaction
from stele.sim.checkers.cycles import Cycle
from stele.sim.checkers.dependency_graph import Kind
from tests.unit.sim.checkers import notation


def test_a_cycle_is_told_step_by_step() -> None:
    operations = notation.operations(
        "a>txn/[[append x 1]] b>txn/[[read x]] a<[[append x 1]] b<[[read x []]]"
    )
    findings = Findings()
    cycle = Cycle("G-single", ((1, Kind.RW), (0, Kind.WR)))

    def why(source: int, target: int, kind: Kind) -> str:
        return f"{kind.value} {source} {target}: {{target}} after {{source}}"

    findings.add_cycle(cycle, operations, why)
    assert str(findings.kept[0]).splitlines() == [
        "G-single:",
        "  T1 = client 1, 1 to 3: [read x []]",
        "  T2 = client 0, 0 to 2: [append x 1]",
        "  T1 before T2 (rw): 3 1 0: T2 after T1",
        "  T2 before T1 (wr): 2 0 1: T1 after T2",
    ]


def test_more_than_enough_are_counted_and_not_kept() -> None:
    findings = Findings()
    for _ in range(ANOMALIES_KEPT_MAX + 5):
        findings.add("G1a", [], "told")
    assert findings.counts == {"G1a": ANOMALIES_KEPT_MAX + 5}
    assert len(findings.kept) == ANOMALIES_KEPT_MAX


def test_transactions_are_shown_with_what_is_known() -> None:
    lost, failed, long = notation.operations(
        "a>txn/[[append x 1] [read y]] a? b>txn/[[append x 2]] b! "
        "c>txn/[[read x]] c<[[read x [1 2 3 4 5 6 7 8]]]"
    )
    assert show_transaction(lost) == "client 0, 0 to …: [append x 1] [read y] (unknown)"
    assert show_transaction(failed) == "client 1, 2 to 3: [append x 2] (failed)"
    assert show_transaction(long) == "client 2, 4 to 5: [read x [… 3 4 5 6 7 8]]"
