"""Replays every file of ``raft/``; see ``scenario_file.py`` and ``raft_environment.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.raft_environment import RaftEnvironment
from tests.scenarios.scenario_file import run_scenario, wants_rewrite

FILES = sorted((Path(__file__).parent / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    run_scenario(path, RaftEnvironment().execute, rewrite=wants_rewrite())


def test_there_are_scenarios_for_the_whole_algorithm() -> None:
    assert len(FILES) >= 25
