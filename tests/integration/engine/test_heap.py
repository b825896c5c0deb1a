"""The whole way of a cell, from commits to files and back, with the heap under observation.

A process of its own runs ``heap_workload``: what its kernels do to memory that is not theirs ends
it, and what they read from memory that is somebody else's differs from what was written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.integration.engine import heap_workload

DEBUGGER = "libc_malloc_debug.so.0"
"""Of glibc: without it ``MALLOC_CHECK_`` means nothing."""

SEED = int(os.environ.get("STELE_CHAOS_SEED", "1"))
TIMEOUT_S = 300


def has_debugger() -> bool:
    """Whether the loader finds the library: it says so, and goes on, where it does not."""
    tried = subprocess.run(
        [sys.executable, "-c", ""],
        env={**os.environ, "LD_PRELOAD": DEBUGGER},
        capture_output=True,
        check=True,
    )
    return not tried.stderr


def test_kernels_touch_only_memory_of_their_own(tmp_path: Path) -> None:
    checked = has_debugger()
    environment = {
        **os.environ,
        "MALLOC_PERTURB_": "165",
        "MALLOC_ARENA_MAX": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "ARROW_DEBUG_MEMORY_POOL": "abort",
    }
    if checked:
        environment |= {"LD_PRELOAD": DEBUGGER, "MALLOC_CHECK_": "3"}
    command = [sys.executable, "-m", heap_workload.__name__, str(tmp_path / "data"), str(SEED)]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ended.returncode == 0, ended.stderr[-4_000:]
    counts = json.loads(ended.stdout)
    assert counts["checked"] == checked
    assert counts["cells"] > 40_000
    assert counts["scanned"] > 150_000
    assert counts["looked up"] > 4_000
    assert counts["got"] > 500
    assert counts["looked beside"] >= heap_workload.ROUNDS
    assert counts["arenas"] > 20
