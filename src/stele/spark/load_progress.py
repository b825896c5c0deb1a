"""How far a load has come: a line that changes on a terminal or in a notebook, and silence in logs.

Tasks count rows as they take them, and Spark brings the numbers when a task ends; Spark Connect has
no such counters. Bytes are looked up where tasks write their files, so they also grow in between.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TextIO

from stele.errors import InvalidArgument
from stele.spark.world import CLOCK, TASKS
from stele.storage.import_files import ImportTicket

PERIOD_SECONDS = 0.5
"""How often a line is drawn anew."""

BAR_WIDTH = 24

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_UNIT_STEP = 1_000


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Where a load stands."""

    phase: str
    """``sampling``, ``loading``, ``publishing`` or ``done``."""
    rows: int
    """That tasks have finished; 0 as long as nobody tells."""
    rows_total: int | None
    size_bytes: int
    """Of the files so far."""
    seconds: float


Show = Callable[[LoadProgress], None]


def chosen_show(progress: bool | Show | None, stream: TextIO | None = None) -> Show | None:
    """Who is told: nobody, a function, or a bar, by default where somebody is watching."""
    if callable(progress):
        return progress
    if progress not in (None, True, False):
        raise InvalidArgument(f"progress is True, False or a function, not {progress!r:.80}")
    stream = stream or sys.stderr
    if progress or (progress is None and (stream.isatty() or "ipykernel" in sys.modules)):
        return Bar(stream)
    return None


class Bar:
    """One line that is drawn over itself."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._width = 0

    def __call__(self, progress: LoadProgress) -> None:
        line = drawn(progress)
        end = "\n" if progress.phase == "done" else ""
        self._stream.write(f"\r{line:{self._width}}{end}")
        self._stream.flush()
        self._width = len(line)


def drawn(progress: LoadProgress) -> str:
    """A line for people.

    >>> drawn(LoadProgress("loading", 50, 200, 1_500_000, 2.0))
    'loading    [######                  ]  25 %  50 of 200 rows  1.5 MB  2 s'
    """
    rows, total = progress.rows, progress.rows_total
    share = "" if total is None else f" of {total:,}"
    parts = [f"{progress.phase:10}"]
    if total:
        done = 1.0 if progress.phase == "done" else min(1.0, rows / total)
        parts.append(f"[{'#' * int(done * BAR_WIDTH):{BAR_WIDTH}}] {done:4.0%}".replace("%", " %"))
    parts += [f" {rows:,}{share} rows", f" {readable(progress.size_bytes)}"]
    return " ".join([*parts, f" {progress.seconds:.0f} s"])


def readable(size_bytes: int) -> str:
    """Bytes in a unit that suits them."""
    size, unit = float(size_bytes), 0
    while size >= _UNIT_STEP and unit + 1 < len(_UNITS):
        size, unit = size / _UNIT_STEP, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def row_counter(spark: Any) -> Any:
    """What tasks count rows with, or nothing if the session has no such thing."""
    context = getattr(spark, "_sc", None)
    return None if context is None else context.accumulator(0)


class Watch:
    """What a load tells about itself, and somebody who is shown it now and then."""

    def __init__(self, show: Show | None, ticket: ImportTicket, counter: Any):
        self._show = show
        self._ticket = ticket
        self._counter = counter
        self._started = CLOCK.monotonic_us()
        self._phase = "sampling"
        self._rows_total: int | None = None
        self._ended = threading.Event()

    def loading(self, rows_total: int | None) -> None:
        """Tasks begin to write."""
        self._phase, self._rows_total = "loading", rows_total

    def publishing(self) -> None:
        """The files are written."""
        self._phase = "publishing"

    def done(self) -> None:
        """The load is part of the table."""
        self._phase = "done"

    def now(self) -> LoadProgress:
        """Where it stands."""
        rows = 0 if self._counter is None else self._counter.value
        total = self._rows_total
        return LoadProgress(
            self._phase,
            rows if total is None else min(rows, total),  # a repeated task counts twice
            total,
            written_bytes(self._ticket.location, self._ticket.token),
            (CLOCK.monotonic_us() - self._started) / 1e6,
        )

    @contextmanager
    def shown(self) -> Iterator[Watch]:
        """Show it until the block ends."""
        if self._show is None:
            yield self
            return
        show = self._show
        TASKS.spawn("stele-load-progress", lambda: self._repeat(show))
        try:
            yield self
        finally:
            self._ended.set()
            show(self.now())

    def _repeat(self, show: Show) -> None:
        while not self._ended.wait(PERIOD_SECONDS):
            show(self.now())


def written_bytes(location: str, token: str) -> int:
    """The size of all files of an attempt at a job that this machine sees."""
    size = 0
    with suppress(OSError), os.scandir(location) as entries:
        for entry in entries:
            if entry.name.startswith(f"{token}."):
                with suppress(OSError):  # gone meanwhile
                    size += entry.stat().st_size
    return size
