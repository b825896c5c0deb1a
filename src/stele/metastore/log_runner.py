"""Where the jobs of the log run: in a thread while the disk is slow, in the loop while it is quick.

A thread keeps the loop free, which decides on a disk that takes milliseconds. It also costs: two
wake-ups and a dozen hand-overs of the interpreter's lock for each sync, several times what a quick
disk needs for the sync itself. So the place follows the disk: while syncs take ``QUICK_US_MAX`` on
average the loop runs them itself. The average forgets slowly, so that a moment without a processor
does not look like a slow disk, and one that hangs sends the jobs back to the thread at once. For a
job of few entries none counts for more than a slow one: whoever writes alone has nothing else for
the loop to do, and on a busy machine would wait for two more turns of a processor. Raft's messages
of the same turn have left before the loop waits. A job with an image goes to the thread in any
case, and says nothing about the disk.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

from stele.env.ports import Clock
from stele.metastore.log_worker import LogJob

QUICK_US_MAX: Final = 2_000
"""About as long as a turn of the loop under load, and a small part of a heartbeat's period."""

SLOW_US: Final = 2 * QUICK_US_MAX
"""What a slow one counts for where few wait for it, however long it took."""

HANG_US_MIN: Final = 50_000
"""But for one that took longer than any process waits for its turn."""

FEW_ENTRIES_MAX: Final = 4

MEMORY_SYNCS: Final = 8
"""The last one counts for one part in so many."""

JOIN_S: Final = 10.0

log = logging.getLogger("stele.metastore")


class SyncPlace:
    """Decides by how long the last syncs took."""

    __slots__ = ("_average_us", "_patient_average_us")

    def __init__(self) -> None:
        self._average_us = self._patient_average_us = SLOW_US
        """A disk has to show that it is quick."""

    def is_loop(self, entries: int) -> bool:
        """Whether the next one, of so many entries, may be waited for."""
        is_for_few = entries <= FEW_ENTRIES_MAX
        return (self._patient_average_us if is_for_few else self._average_us) <= QUICK_US_MAX

    def note(self, took_us: int) -> None:
        """One more has run."""
        self._average_us += (took_us - self._average_us) // MEMORY_SYNCS
        if took_us < HANG_US_MIN:
            took_us = min(took_us, SLOW_US)
        self._patient_average_us += (took_us - self._patient_average_us) // MEMORY_SYNCS


class LogRunner:
    """Runs jobs one after the other; ``done`` is called in the loop when one has run.

    What the loop shall run waits for ``run_here``, which ``wake`` asks for: whoever has the turn
    calls it when everything is sent that there is to send.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        done: Callable[[LogJob], None],
        wake: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._done = done
        self._wake = wake
        self._here: LogJob | None = None
        self._place = SyncPlace()
        self._closed = False
        self._jobs: queue.SimpleQueue[LogJob | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="metastore-log", daemon=True)
        self._thread.start()

    def start(self, job: LogJob) -> None:
        """Run a job soon."""
        if not job.has_slow_work and self._place.is_loop(job.entries):
            self._here = job
            self._wake()
        else:
            self._jobs.put(job)

    def close(self) -> None:
        """End after the job that runs. Blocks."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join(JOIN_S)

    def run_here(self) -> bool:
        """Run the job that waits for the loop; whether there was one."""
        job, self._here = self._here, None
        if job is None or self._closed:
            return False
        self._run(job)
        self._done(job)
        return True

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._run(job)
            except Exception as error:
                log.exception("a bug in the thread of the log")
                job.lost = f"a job of the log was not carried out: {error!r}"
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._done, job)

    def _run(self, job: LogJob) -> None:
        is_sync_only = not job.has_slow_work
        began_us = self._clock.monotonic_us()
        job.run()
        if is_sync_only:
            self._place.note(self._clock.monotonic_us() - began_us)
