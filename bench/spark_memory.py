"""Peak memory of a local Spark: driver, JVM and Python workers, as the kernel counts it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

PERIOD_SECONDS = 0.25


class PeakMemory:
    """Looks at all descendants of this process now and then."""

    def __init__(self) -> None:
        self._peaks: dict[str, int] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(PERIOD_SECONDS):
            self._look()

    def _look(self) -> None:
        now: dict[str, int] = {}
        for pid, name in descendants(os.getpid()):
            kind = "driver" if pid == os.getpid() else _kind(name)
            if kind:
                now[kind] = now.get(kind, 0) + resident_bytes(pid)
        for kind, size in now.items():
            self._peaks[kind] = max(self._peaks.get(kind, 0), size)

    def taken(self) -> str:
        """The peaks since the last call, in one line; workers are counted together."""
        self._look()
        peaks, self._peaks = self._peaks, {}
        parts = (f"{kind} {size / (1 << 20):,.0f} MiB" for kind, size in sorted(peaks.items()))
        return ", ".join(parts)


def _kind(name: str) -> str:
    """Which processes one is of; none for what the JVM has just forked: for a moment that has the
    name of a thread, and the JVM's own memory."""
    return "JVM" if name == "java" else "workers" if name.startswith("python") else ""


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


def resident_bytes(pid: int) -> int:
    """The memory that only this process has; 0 if it is gone. Forks share the rest."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")), 0)
