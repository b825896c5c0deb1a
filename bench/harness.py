"""What all benchmarks share: rows of ratios, how they are shown, and turns that are fair.

A number of ours never stands alone: it is held against a peer or a limit measured in the same run.
Machines are shared, so both sides take turns and the best turn of each counts; a neighbour can only
make a turn slower.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One measured thing and what it is held against."""

    name: str
    value: float
    unit: str
    baseline: float
    ratio: float
    wanted: float | None = None
    """What was promised of the ratio, if anything was."""
    at_most: bool = False
    """Whether ``wanted`` bounds the ratio from above: times and sizes."""

    @property
    def reached(self) -> bool:
        if self.wanted is None:
            return True
        return self.ratio <= self.wanted if self.at_most else self.ratio >= self.wanted


def faster(name: str, ours: float, theirs: float, unit: str, wanted: float | None = None) -> Row:
    """A rate: larger is better."""
    return Row(name, ours, unit, theirs, ours / theirs, wanted)


def slower(name: str, ours: float, theirs: float, unit: str, wanted: float | None = None) -> Row:
    """A time or a size: smaller is better, ``wanted`` is a bound."""
    return Row(name, ours, unit, theirs, ours / theirs, wanted, at_most=True)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def best_of(turns: int, *works: Callable[[], object]) -> list[float]:
    """The best time of each work, which take turns."""
    best = [float("inf")] * len(works)
    for _ in range(turns):
        for number, work in enumerate(works):
            best[number] = min(best[number], seconds(work))
    return best


def table(rows: Sequence[Row]) -> str:
    """The rows as text, with the machine in one line: cores, memory and load."""
    width = max((len(row.name) for row in rows), default=0) + 2
    lines = [
        machine(),
        "",
        f"{'work':{width}}{'ours':>16} {'':8}{'against':>16}{'ratio':>8}  wanted",
    ]
    for row in rows:
        wanted = ""
        if row.wanted is not None:
            sign = "<=" if row.at_most else ">="
            wanted = f"  {sign} {row.wanted:g}  {'reached' if row.reached else 'missed'}"
        lines.append(
            f"{row.name:{width}}{row.value:16,.1f} {row.unit:8}{row.baseline:16,.1f}"
            f"{row.ratio:8.2f}{wanted}"
        )
    return "\n".join(lines)


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, load average {os.getloadavg()[0]:.1f}; "
        f"others used {LOAD.foreign_share():.0%} of the processors during the run"
    )


class ForeignLoad:
    """How much of the machine other processes have used since this was made."""

    def __init__(self) -> None:
        self._start = self._now()

    def foreign_share(self) -> float:
        busy, own, wall = (now - then for now, then in zip(self._now(), self._start, strict=True))
        return max(busy - own, 0.0) / (wall * (os.cpu_count() or 1))

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Seconds: all processors were busy, this process and its children were, have passed."""
        fields = Path("/proc/stat").read_text().split("\n", maxsplit=1)[0].split()[1:]
        user, nice, system, _idle, _waiting, *interrupts = map(int, fields[:8])
        ticks = os.sysconf("SC_CLK_TCK")
        own = sum(os.times()[:4])
        return (user + nice + system + sum(interrupts)) / ticks, own, time.perf_counter()


LOAD = ForeignLoad()
"""Since the beginning of the run."""


def report(rows: Sequence[Row], json_file: Path | None) -> None:
    """Print the table; write one JSON object a line if asked for."""
    sys.stdout.write(table(rows) + "\n")
    if json_file is not None:
        json_file.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
