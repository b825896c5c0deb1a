"""Real processes, killed at any moment: whatever was acknowledged is in the log."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from stele.env.posix import PosixFileSystem
from stele.model.cells import batch_to_cells
from stele.storage.log_replay import recover_log
from tests.crash.log_victim import TXN_BYTES, value_of
from tests.unit.storage.log_support import DIRECTORY

KILLS = int(os.environ.get("STELE_KILLS", "12"))
SEED = int(os.environ.get("STELE_CRASH_SEED", "1"))
ACKNOWLEDGED_MAX = 300
"""A victim is killed at the latest after so many commits."""


class Victim:
    """The other process, and what it has said."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._commands: IO[bytes] = process.stdin
        self._reports: IO[bytes] = process.stdout
        self._events: IO[bytes] = process.stderr

    def live_and_die(self, root: Path, acknowledged_min: int) -> list[int]:
        """Let it commit until so much is acknowledged, kill it, and return what was."""
        self._commands.write(f"{root}\n".encode())
        self._commands.flush()
        child = int(self._events.readline())
        said = bytearray()
        while len(said) < acknowledged_min * TXN_BYTES:
            heard = os.read(self._reports.fileno(), 1 << 16)
            assert heard, "the victim died by itself"
            said += heard
        os.kill(child, signal.SIGKILL)
        assert self._events.readline() == b"ended\n"
        os.set_blocking(self._reports.fileno(), False)
        try:
            while more := os.read(self._reports.fileno(), 1 << 16):
                said += more
        except BlockingIOError:
            pass
        os.set_blocking(self._reports.fileno(), True)
        assert len(said) % TXN_BYTES == 0
        return [
            int.from_bytes(said[place : place + TXN_BYTES], "little")
            for place in range(0, len(said), TXN_BYTES)
        ]


@pytest.fixture
def victim() -> Iterator[Victim]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.log_victim"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "src"},
    ) as process:
        yield Victim(process)
        assert process.stdin is not None
        process.stdin.close()


def test_what_was_acknowledged_survives_a_kill(victim: Victim, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    acknowledged_total = files_total = 0
    for number in range(KILLS):
        root = tmp_path / str(number)
        root.mkdir(mode=0o700)
        acknowledged = victim.live_and_die(root, dice.randrange(1, ACKNOWLEDGED_MAX))
        fs = PosixFileSystem(str(root))
        sealed, blocks = recover_log(fs, DIRECTORY, "test")
        cells = [cell for each in blocks for cell in batch_to_cells(each.block.batch)]
        txns = sorted({cell.txn for cell in cells})
        assert set(acknowledged) <= set(txns)
        assert txns == list(range(1, len(txns) + 1)), "a hole"
        assert len(cells) == 2 * len(txns), "half a commit"
        assert all(cell.value == value_of(cell.txn) for cell in cells)
        assert sealed.clock == txns[-1]
        acknowledged_total += len(acknowledged)
        files_total += len(sealed.lengths)
    print({"seed": SEED, "kills": KILLS, "acknowledged": acknowledged_total, "files": files_total})
    assert acknowledged_total >= 10 * KILLS
    assert files_total > KILLS, "no file was ever rolled"
