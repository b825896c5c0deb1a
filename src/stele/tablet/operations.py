"""The operations of an owner: what runs now, and what has ended lately.

It is a memory for operators, not for the store: nothing is decided by it, it is written to no file
and it ends with the process. Work that must survive a crash has records of its own, such as jobs.

Beginning and ending an operation takes the same short time however many there are, and nothing is
recorded on the way of a read or a commit. What runs is bounded by what runs at a time; of what has
ended the latest are kept.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import msgspec

from stele.env.ports import Clock
from stele.model.operations import Operation, OperationKind, OperationState
from stele.storage.fragment_format import FragmentInfo

ENDED_MAX = 1_000
"""Ended operations that are remembered: half a megabyte, and some hours of a busy store."""

TEXT_CHARACTERS_MAX = 500
"""Of an error or a detail: enough for a sentence of ours with a long key in it."""


class OperationLog:
    """Those of one owner. Threads share it."""

    def __init__(self, clock: Clock, ended_max: int = ENDED_MAX) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ids = count(1)
        self._running: dict[int, Operation] = {}
        self._ended: deque[Operation] = deque(maxlen=ended_max)

    def begin(
        self,
        kind: OperationKind,
        table: str | None = None,
        tablet: str | None = None,
        *,
        detail: str = "",
        bytes_in: int = 0,
    ) -> RunningOperation:
        """Something begins now. Whoever begins it ends it."""
        started_us = self._clock.now_us()
        with self._lock:
            begun = Operation(
                id=next(self._ids),
                kind=kind,
                table=table,
                tablet=tablet,
                detail=_short(detail),
                started_us=started_us,
                bytes_in=bytes_in,
            )
            self._running[begun.id] = begun
        return RunningOperation(self, begun.id, self._clock.monotonic_us())

    @contextmanager
    def during(
        self,
        kind: OperationKind,
        table: str | None = None,
        tablet: str | None = None,
        *,
        detail: str = "",
    ) -> Iterator[RunningOperation]:
        """An operation that lasts as long as a ``with`` block, and fails if that raises."""
        running = self.begin(kind, table, tablet, detail=detail)
        try:
            yield running
        except BaseException as error:
            running.failed(error)
            raise
        running.done()

    def listed(self) -> tuple[Operation, ...]:
        """All that run, and the latest that have ended, in the order in which they began."""
        with self._lock:
            known = [*self._running.values(), *self._ended]
        return tuple(sorted(known, key=lambda one: one.id))

    # For running operations.

    def change(self, number: int, changes: dict[str, Any]) -> None:
        """What has become known of one that runs."""
        with self._lock:
            running = self._running.get(number)
            if running is not None:
                self._running[number] = msgspec.structs.replace(running, **changes)

    def end(self, number: int, lasted_from_us: int, state: OperationState | None, why: str) -> None:
        """One ends, if it has not yet; without a state it is not worth remembering."""
        lasted_us = self._clock.monotonic_us() - lasted_from_us
        with self._lock:
            running = self._running.pop(number, None)
            if running is None or state is None:
                return
            self._ended.append(
                msgspec.structs.replace(
                    running,
                    state=state,
                    ended_us=running.started_us + lasted_us,
                    error=_short(why) or None,
                )
            )


class RunningOperation:
    """What runs, in the hands of whoever does it. The first end counts; later ones say nothing."""

    __slots__ = ("_begun_us", "_id", "_log")

    def __init__(self, log: OperationLog, number: int, begun_us: int) -> None:
        """``begun_us`` is monotonic: a clock that is set makes no operation longer."""
        self._log = log
        self._id = number
        self._begun_us = begun_us

    def account(
        self,
        *,
        bytes_in: int | None = None,
        bytes_out: int | None = None,
        cells: int | None = None,
    ) -> None:
        """What is known by now; the rest stays as it was."""
        given = {"bytes_in": bytes_in, "bytes_out": bytes_out, "cells": cells}
        known = {name: value for name, value in given.items() if value is not None}
        self._log.change(self._id, known)

    def detail(self, text: str) -> None:
        """What tells it apart."""
        self._log.change(self._id, {"detail": _short(text)})

    def wrote(self, files: Iterable[FragmentInfo]) -> None:
        """Which files it has made; each counts once."""
        distinct = {file.name: file for file in files}.values()
        self.account(
            bytes_out=sum(file.total_bytes for file in distinct),
            cells=sum(file.summary.cells for file in distinct),
        )

    def done(self) -> None:
        """It went well."""
        self._end(OperationState.DONE)

    def failed(self, error: BaseException) -> None:
        """It did not, and why."""
        self._end(OperationState.FAILED, str(error) or type(error).__name__)

    def cancelled(self, why: str) -> None:
        """It was given up on purpose."""
        self._end(OperationState.CANCELLED, why)

    def dismiss(self) -> None:
        """There was nothing to do."""
        self._end(None)

    def _end(self, state: OperationState | None, why: str = "") -> None:
        self._log.end(self._id, self._begun_us, state, why)


def _short(text: str) -> str:
    """Text as it is shown: one line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[: TEXT_CHARACTERS_MAX - 1]}…"
