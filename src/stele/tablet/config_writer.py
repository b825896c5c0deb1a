"""The one way configs change: in order, one at a time, saved before they are shown.

Changes of all tables queue here. Each is applied to the newest configs of its table, saved, and
published when it is durable; then the next one starts. A change that no longer fits is refused
without touching anything. If a save fails, its change has not happened as far as anybody
here is concerned; an error that leaves the outcome unknown ends the writer, because what META
holds is then known only to a restart. So does the answer that META holds another writing than the
one that a change was made from: somebody else owns these tablets.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from stele.env.failpoints import declare, failpoint
from stele.errors import (
    InvalidArgument,
    OutOfSpace,
    SteleError,
    TabletNotServing,
    Throttled,
    Unavailable,
)
from stele.tablet.changes import ConfigChange, Configs, Refused
from stele.tablet.config import ConfigEdit
from stele.tablet.config_store import ConfigStore

BEFORE_SAVE = declare("tablet.config.before_save")
BEFORE_PUBLISH = declare("tablet.config.before_publish")

Answer = ConfigEdit | Refused | SteleError
"""What became of a change: saved and shown, refused, or failed with nothing done."""

NOTHING_WAS_SAVED = (OutOfSpace, Throttled, InvalidArgument)
"""Errors of a save after which META is as it was; any other leaves that unknown."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change on its way."""

    configs: Callable[[], Configs]
    """The newest ones of its table; raises if that is not served any more."""
    change: ConfigChange
    publish: Callable[[ConfigEdit], None]
    """Shows the edit to readers; called once it is durable, before ``done``."""
    done: Callable[[Answer], None]


class ConfigWriter:
    """Takes changes from any thread; callbacks run in the thread that finished the save."""

    def __init__(self, store: ConfigStore):
        self._store = store
        self._lock = threading.Lock()
        self._queue: deque[Change] = deque()
        self._busy = False
        self._dead: SteleError | None = None

    def submit(self, change: Change) -> None:
        """Queue a change; it may be finished before this returns."""
        with self._lock:
            self._queue.append(change)
            if self._busy:
                return
            self._busy = True
        self._run()

    @property
    def failure(self) -> SteleError | None:
        """Why nothing can be changed any more, and what META holds is not known."""
        with self._lock:
            return self._dead

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._busy

    def _run(self) -> None:
        """Start changes until one is on its way to the disk or none is left."""
        while True:
            with self._lock:
                if not self._queue:
                    self._busy = False
                    return
                change = self._queue.popleft()
                dead = self._dead
            if dead is not None:
                change.done(dead)
            elif self._start(change):
                return

    def _start(self, change: Change) -> bool:
        """Begin a change. Returns whether its save is still under way, to go on by itself."""
        try:
            configs = change.configs()
            outcome = change.change.apply(configs)
        except SteleError as error:  # the table is gone, or what is asked for cannot be
            change.done(error)
            return False
        if isinstance(outcome, Refused):
            change.done(outcome)
            return False
        outcome = _over(outcome, configs)
        outcome.check()
        if outcome.is_empty:
            change.publish(outcome)
            change.done(outcome)
            return False
        failpoint(BEFORE_SAVE)
        step = _Step(self, change, outcome)
        self._store.save(outcome, step.saved)
        return step.leave()

    def _finish(self, change: Change, edit: ConfigEdit, error: SteleError | None) -> None:
        if error is None:
            failpoint(BEFORE_PUBLISH)
            change.publish(edit)
            change.done(edit)
            return
        if isinstance(error, TabletNotServing):
            with self._lock:
                self._dead = error
        elif not isinstance(error, NOTHING_WAS_SAVED):
            with self._lock:
                self._dead = Unavailable(
                    f"a config could not be saved and its state is unknown until a restart: {error}"
                )
        change.done(error)


def _over(edit: ConfigEdit, configs: Configs) -> ConfigEdit:
    """The edit, with what is known to be in the rows that it writes."""
    by_end = {config.rows.end: config for config in configs.values()}
    replaced = (by_end.get(config.rows.end) for config in edit.written)
    gone = {config.id for config in edit.removed}
    known = tuple(x for x in replaced if x is not None and x.id not in gone)
    return replace(edit, replaced=known)


class _Step:
    """One save. Whoever comes second, the save or the one who started it, carries on the queue."""

    def __init__(self, writer: ConfigWriter, change: Change, edit: ConfigEdit):
        self._writer = writer
        self._change = change
        self._edit = edit
        self._lock = threading.Lock()
        self._parts_left = 2

    def saved(self, error: SteleError | None) -> None:
        self._writer._finish(self._change, self._edit, error)  # noqa: SLF001
        if not self._first():
            self._writer._run()  # noqa: SLF001

    def leave(self) -> bool:
        """The starter goes. Whether the save is still under way."""
        return self._first()

    def _first(self) -> bool:
        with self._lock:
            self._parts_left -= 1
            return self._parts_left == 1
