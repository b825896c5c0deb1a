from __future__ import annotations

from unittest import mock

import pytest

from stele.raft import replication
from stele.sim.raft_sim import GROUP_SIZES, SIMULATION, run_seed

SHORT = 200


def test_a_seed_gives_the_same_run_again() -> None:
    first, again, other = run_seed(3, SHORT), run_seed(3, SHORT), run_seed(4, SHORT)
    assert first == again
    assert first.failure is None
    assert first.trace_hash != other.trace_hash


def test_all_sizes_occur() -> None:
    sizes = {run_seed(seed, SHORT).size for seed in range(len(GROUP_SIZES))}
    assert sizes == {1, 3, 5}


def test_a_trace_is_kept_when_asked_for() -> None:
    assert run_seed(1, SHORT).trace == []
    assert len(run_seed(1, SHORT, keep_trace=True).trace) > 200


def test_a_failure_ends_the_run_and_names_its_replay() -> None:
    with mock.patch.object(replication, "persisted_here", lambda s: s.log.last_index):
        reports = SIMULATION.run_seeds(range(50))
    assert reports[-1].failure is not None
    assert all(report.failure is None for report in reports[:-1])
    told = SIMULATION.summarize(reports)
    assert "durable commit" in told
    assert f"replay: python -m stele.sim.raft_sim --first {reports[-1].seed} --seeds 1" in told


def test_a_group_that_gets_stuck_is_a_failure() -> None:
    with mock.patch.object(replication, "send_appends", return_value=None):
        report = run_seed(1, 50)
    assert report.failure is not None
    assert "liveness" in report.failure


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert SIMULATION.main(["--seeds", "2", "--first", "5", "--chaos", "150"]) == 0
    assert "2 seeds" in capsys.readouterr().out
    assert SIMULATION.main(["--first", "5", "--chaos", "150", "--trace"]) == 0
    assert "tick" in capsys.readouterr().out
    with mock.patch.object(replication, "persisted_here", lambda s: s.log.last_index):
        assert SIMULATION.main(["--seeds", "50"]) == 1
    assert "FAILED" in capsys.readouterr().out
