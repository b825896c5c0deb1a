"""Real processes, killed at any moment: the state is that of the index which it claims."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from stele.env.posix import PosixFileSystem
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.kv_rocks import RocksKeyValues
from stele.metastore.state.machine import StateMachine
from tests.style import repository
from tests.unit.metastore.state.test_machine import busy_replica

KILLS = int(os.environ.get("STELE_KILLS", "4"))
SEED = int(os.environ.get("STELE_CRASH_SEED", "1"))


def live_and_die(directory: Path, seed: int, batches: int) -> int:
    """Let a victim apply some batches and kill it; how far it said it was."""
    command = [sys.executable, "-m", "tests.crash.state_victim", str(directory), str(seed)]
    environment = {**os.environ, "PYTHONPATH": f"{repository.ROOT / 'src'}:{repository.ROOT}"}
    said = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, cwd=repository.ROOT
    ) as victim:
        assert victim.stdout is not None
        for _ in range(batches):
            line = victim.stdout.readline()
            said = int(line) if line else said
        victim.kill()
        return max([said, *map(int, victim.stdout.read().split())])


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_replica_goes_on_where_its_state_says(tmp_path: Path, number: int) -> None:
    log = busy_replica().log
    dice = Random(SEED + number)
    for life in range(2):
        said = live_and_die(tmp_path, dice.randrange(1 << 30), dice.randrange(1, 15))
        values = RocksKeyValues(str(tmp_path), PosixFileSystem(str(tmp_path)))
        survivor = StateMachine(values)
        assert survivor.applied_index >= said, "a process that dies takes no page cache with it"
        expected = StateMachine(MemoryKeyValues())
        expected.apply(log[: survivor.applied_index])
        assert b"".join(survivor.export()) == b"".join(expected.export()), f"life {life}"
        values.close()
