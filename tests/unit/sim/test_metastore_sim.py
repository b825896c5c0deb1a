"""Seeds of whole nodes: repeatable, judged, and not for nothing."""

from __future__ import annotations

from unittest import mock

import pytest

from stele.metastore.log_worker import LogWorker
from stele.metastore.state.transactions import Transactions
from stele.sim.metastore_sim import GROUP_SIZES, SIMULATION, run_seed

SHORT = 300


def test_a_seed_gives_the_same_run_again() -> None:
    first, again, other = run_seed(3, SHORT), run_seed(3, SHORT), run_seed(4, SHORT)
    assert first == again
    assert first.failure is None
    assert first.trace_hash != other.trace_hash


def test_all_sizes_occur() -> None:
    assert {1, 3, 5} == set(GROUP_SIZES)
    assert run_seed(1, SHORT).size == GROUP_SIZES[1]


def test_a_trace_is_kept_when_asked_for() -> None:
    assert run_seed(1, SHORT).trace == []
    assert len(run_seed(1, SHORT, keep_trace=True).trace) > 100


def test_a_failure_ends_the_run_and_names_its_replay() -> None:
    with mock.patch.object(Transactions, "conflict", return_value=None):
        reports = SIMULATION.run_seeds(range(9, 60))
    assert reports[-1].failure is not None
    assert all(report.failure is None for report in reports[:-1])
    told = SIMULATION.summarize(reports)
    assert f"replay: python -m stele.sim.metastore_sim --first {reports[-1].seed}" in told


def test_a_group_that_gets_stuck_is_a_failure() -> None:
    with mock.patch.object(LogWorker, "next_job", return_value=None):
        report = run_seed(1, SHORT)
    assert report.failure is not None
    assert "liveness" in report.failure


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert SIMULATION.main(["--seeds", "1", "--first", "2", "--chaos", "200", "--trace"]) == 0
    told = capsys.readouterr().out
    assert "1 seeds" in told
    assert "tick" in told
