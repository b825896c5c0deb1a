"""Point reads of many threads in few frames.

A read goes out at once while few frames are on their way. Beyond that reads gather, and leave
together in the next frame: the busier the process is, the less each of its reads costs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from stele.client.latch import Latch
from stele.client.remote_link import RemoteLink
from stele.errors import SteleError
from stele.protocol.tables import (
    READ_POINTS,
    READS_PER_FRAME_MAX,
    PointAnswer,
    PointRead,
    PointReads,
)
from stele.rpc.wire_errors import decode_error

FRAMES_MAX: Final = 4
"""Frames of reads on their way: enough to keep the other side's threads busy."""

FRAME_BYTES: Final = 1 << 20
READ_OVERHEAD_BYTES: Final = 64


@dataclass(slots=True)
class ReadCall:
    """A read that a thread waits for."""

    read: PointRead
    ends_us: int
    answer: Latch[PointAnswer] = field(default_factory=lambda: Latch("the answer to a read"))


class PointReader:
    """Gathers reads. Threads call `read`; everything else happens in the loop."""

    def __init__(self, link: RemoteLink) -> None:
        self._link = link
        self._waiting: deque[ReadCall] = deque()
        self._woken = False
        self._frames: set[asyncio.Task[None]] = set()

    def read(self, read: PointRead, timeout_us: int) -> PointAnswer:
        """The answer to one read, or the error that it was answered with."""
        call = ReadCall(read, self._link.world.clock.monotonic_us() + timeout_us)
        self._waiting.append(call)
        if not self._woken:
            self._woken = True
            self._link.post(self._wake)
        answer = call.answer.wait(timeout_us)
        if answer.error is not None:
            raise decode_error(answer.error)
        return answer

    # ---- in the loop -----------------------------------------------------------------------

    def _wake(self) -> None:
        # Before looking: a read that is added from now on posts again.
        self._woken = False
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting and len(self._frames) < FRAMES_MAX:
            task = self._link.spawn(self._send(self._next_frame()))
            self._frames.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._frames.discard(task)
        self._send_waiting()

    def _next_frame(self) -> list[ReadCall]:
        calls: list[ReadCall] = []
        size_bytes = 0
        while self._waiting and len(calls) < READS_PER_FRAME_MAX and size_bytes < FRAME_BYTES:
            call = self._waiting.popleft()
            size_bytes += len(call.read.row) + READ_OVERHEAD_BYTES
            calls.append(call)
        return calls

    async def _send(self, calls: list[ReadCall]) -> None:
        timeout_us = max(call.ends_us for call in calls) - self._link.world.clock.monotonic_us()
        request = PointReads(tuple(call.read for call in calls))
        try:
            reply = await self._link.request(READ_POINTS, request, max(1, timeout_us), repeat=True)
        except SteleError as error:
            for call in calls:
                call.answer.fail(error)
            return
        later: list[ReadCall] = []
        for call, answer in zip(calls, reply.message.answers, strict=True):
            if answer.later:
                later.append(call)
            else:
                call.answer.give(answer)
        self._waiting.extendleft(reversed(later))
