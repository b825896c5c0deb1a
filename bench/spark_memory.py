"""Peak memory of a local Spark: driver, JVM and Python workers, as the kernel counts it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

PERIOD_SECONDS = 0.5


class PeakMemory:
    """Looks at all descendants of this process now and then."""

    def __init__(self) -> None:
        self._peaks: dict[str, int] = {}
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stopped.wait(PERIOD_SECONDS):
            self._look()

    def _look(self) -> None:
        for pid, name in descendants(os.getpid()):
            kind = "driver" if pid == os.getpid() else "JVM" if "java" in name else "worker"
            self._peaks[kind] = max(self._peaks.get(kind, 0), peak_bytes(pid))

    def described(self) -> str:
        """One line; of the workers, the largest."""
        self._look()
        self._stopped.set()
        parts = (f"{kind} {size / (1 << 20):,.0f} MiB" for kind, size in self._peaks.items())
        return "peak memory: " + ", ".join(parts)


def descendants(root: int) -> list[tuple[int, str]]:
    """Processes below one and itself, with their names."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            parents[int(entry.name)] = (int(rest.split()[1]), name)
    found, added = {root}, True
    while added:
        below = {pid for pid, (parent, _) in parents.items() if parent in found} - found
        found |= below
        added = bool(below)
    return [(pid, parents[pid][1]) for pid in found if pid in parents]


def peak_bytes(pid: int) -> int:
    """The most memory a process has had; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)
