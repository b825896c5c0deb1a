"""Writes on their way to a store in another process: pipelined, in order, each exactly once.

Every write is numbered and has a *lane*, a name under which it is the only one on its way: that is
what makes it recognisable (see ``stele.model.request_identity``) when it is sent again. A lane is
free again when the outcome of its write is known, and is given up when that never becomes known.

When the connection is lost, everything that was not answered is sent again, in its order and before
anything newer, as soon as there is a store again; if none comes, all of it fails with an error that
says so, and its outcome is unknown.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from stele.client.latch import Latch
from stele.client.remote_link import LOOK_AGAIN_US, RECONNECT_US, RemoteLink
from stele.client.waiting import US_PER_SECOND
from stele.errors import DeadlineExceeded, SteleError, Throttled, Unavailable
from stele.model.mutations import Record
from stele.protocol.tables import (
    LANES_MAX,
    WRITE,
    WRITES_PER_FRAME_MAX,
    Write,
    WriteAnswer,
    Writes,
)
from stele.rpc.channel import Channel
from stele.rpc.wire_errors import decode_error

CLIENT_NAME_BYTES: Final = 16
"""Random, so no two clients have the same."""

FRAMES_MAX: Final = 4
"""Frames of writes on their way: one is synced while the next is applied and others travel."""

FRAME_BYTES: Final = 1 << 20

QUEUED_BYTES_MAX: Final = 64 << 20
"""What one client may have under way. A larger write passes when nothing else is."""

RECORD_OVERHEAD_BYTES: Final = 32


@dataclass(slots=True, eq=False)
class OutgoingWrite:
    """A commit that was asked for; implements ``Pending``."""

    table: str
    records: tuple[Record, ...] | None
    attachment: memoryview | None
    max_txn: int | None
    ends_us: int
    on_answer: Callable[[WriteAnswer], None]
    sequence: int = 0
    lane: int | None = None
    is_again: bool = False
    outcome: Latch[int] = field(default_factory=lambda: Latch("the end of a commit"))

    @property
    def txn(self) -> int:
        """The txn, once it is known; 0 before."""
        return self.outcome.value or 0

    @property
    def size_bytes(self) -> int:
        if self.attachment is not None:
            return self.attachment.nbytes
        return sum(
            len(record[0]) + len(record[3]) + len(record[6]) + RECORD_OVERHEAD_BYTES
            for record in self.records or ()
        )

    def wait(self, timeout_us: int | None = None) -> int:
        """The txn when it is durable."""
        return self.outcome.wait(timeout_us)

    def then(self, callback: Callable[[SteleError | None], None]) -> None:
        """Call back once when it is decided."""
        self.outcome.then(callback)


class Lanes:
    """Names of one client: the lowest that is free, so that a calm client uses few."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def take(self) -> int:
        """A lane on which nothing is under way."""
        if self._free:
            return heapq.heappop(self._free)
        if self._next >= LANES_MAX:
            raise Unavailable(
                f"the outcome of {LANES_MAX} writes of this client is unknown: open a new one"
            )
        self._next += 1
        return self._next - 1

    def give_back(self, lane: int) -> None:
        """The outcome of what was on it is known."""
        heapq.heappush(self._free, lane)


class WriteQueue:
    """All writes of one client. Threads call `submit`; everything else happens in the loop."""

    def __init__(self, link: RemoteLink) -> None:
        self._link = link
        self._client = link.world.random.bytes(CLIENT_NAME_BYTES)
        self._lanes = Lanes()
        self._sequence = 0
        self._session = 1
        """Goes up with every loss, so that what was sent before it cannot come after."""
        self._waiting: deque[OutgoingWrite] = deque()
        self._woken = False
        self._frames: set[asyncio.Task[None]] = set()
        self._unsent = 0
        """Frames that have not left yet: none is made behind them, so that none overtakes."""
        self._lost: list[OutgoingWrite] = []
        self._lost_us = 0
        self._searching: asyncio.Task[None] | None = None
        self._bytes = 0
        self._bytes_lock = threading.Lock()

    def submit(self, write: OutgoingWrite) -> None:
        """Send a write after all that were submitted before. Never blocks."""
        size_bytes = write.size_bytes
        with self._bytes_lock:
            if self._bytes and self._bytes + size_bytes > QUEUED_BYTES_MAX:
                raise Throttled(
                    f"{self._bytes} bytes of writes are on their way, the limit is "
                    f"{QUEUED_BYTES_MAX}"
                )
            self._bytes += size_bytes
        self._waiting.append(write)
        if not self._woken:
            self._woken = True
            self._link.post(self._wake)

    async def settled(self) -> None:
        """Return when nothing is under way any more."""
        self._send_waiting()
        while self._frames or self._searching is not None:
            under_way = set(self._frames)
            if self._searching is not None:
                under_way.add(self._searching)
            await asyncio.wait(under_way)
            await asyncio.sleep(0)  # what follows from their end is begun by their callbacks

    # ---- in the loop -----------------------------------------------------------------------

    def _wake(self) -> None:
        # Before looking: a write that is added from now on posts again.
        self._woken = False
        self._send_waiting()

    def _send_waiting(self) -> None:
        if self._unsent or self._lost:
            return
        while self._waiting and len(self._frames) < FRAMES_MAX:
            frame = self._next_frame()
            if frame:
                self._unsent += 1
                task = self._link.spawn(self._send(frame))
                self._frames.add(task)
                task.add_done_callback(self._ended)

    def _next_frame(self) -> list[OutgoingWrite]:
        frame: list[OutgoingWrite] = []
        size_bytes = 0
        while self._waiting and len(frame) < WRITES_PER_FRAME_MAX and size_bytes < FRAME_BYTES:
            write = self._waiting.popleft()
            try:
                self._number(write)
            except Unavailable as error:
                self._fail(write, error)
                continue
            size_bytes += write.size_bytes
            frame.append(write)
        return frame

    def _number(self, write: OutgoingWrite) -> None:
        """Give a write its lane and number, which it keeps however often it is sent."""
        if write.lane is None:
            write.lane = self._lanes.take()
            self._sequence += 1
            write.sequence = self._sequence

    async def _send(self, frame: list[OutgoingWrite]) -> None:
        try:
            try:
                channel = await self._link.connect()
            finally:
                self._unsent -= 1
                if not self._unsent:
                    # What has come meanwhile follows, once this frame has left.
                    asyncio.get_running_loop().call_soon(self._send_waiting)
            if self._lost:
                # Something before it was lost while this waited for a connection.
                self._lost += frame
                return
            answers = await self._ask(channel, frame)
        except Unavailable as error:
            self._lose(frame, error)
        except SteleError as error:
            self._give_up(frame, error)
        else:
            self._lost_us = 0
            for write, answer in zip(frame, answers, strict=True):
                self._answer(write, answer)

    async def _ask(self, channel: Channel, frame: list[OutgoingWrite]) -> tuple[WriteAnswer, ...]:
        left_us = max(write.ends_us for write in frame) - self._link.world.clock.monotonic_us()
        if left_us <= 0:
            raise DeadlineExceeded("writes were not answered within their timeout")
        request = Writes(
            self._client,
            tuple(
                Write(
                    write.table,
                    write.lane or 0,
                    write.sequence,
                    write.records,
                    write.max_txn,
                    write.is_again,
                )
                for write in frame
            ),
            self._session,
        )
        attachments = [write.attachment for write in frame if write.attachment is not None]
        reply = await channel.call_attached(
            WRITE, request, attachments, timeout_s=left_us / US_PER_SECOND
        )
        return reply.message.answers

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._frames.discard(task)
        if self._lost and not self._frames:
            self._searching = self._link.spawn(self._send_again())
            self._searching.add_done_callback(self._found)
        else:
            self._send_waiting()

    async def _send_again(self) -> None:
        """After a moment, put what was lost back to the front, in its order."""
        self._session += 1
        await asyncio.sleep(LOOK_AGAIN_US / US_PER_SECOND)
        self._waiting.extendleft(sorted(self._lost, key=lambda write: write.sequence, reverse=True))
        self._lost.clear()

    def _found(self, _task: asyncio.Task[None]) -> None:
        self._searching = None
        self._send_waiting()

    # ---- outcomes --------------------------------------------------------------------------

    def _answer(self, write: OutgoingWrite, answer: WriteAnswer) -> None:
        assert write.lane is not None, "it was sent"
        self._lanes.give_back(write.lane)
        if answer.error is not None:
            self._fail(write, decode_error(answer.error))
            return
        self._forget(write)
        write.on_answer(answer)
        write.outcome.give(answer.txn)

    def _fail(self, write: OutgoingWrite, error: SteleError) -> None:
        self._forget(write)
        write.outcome.fail(error)

    def _forget(self, write: OutgoingWrite) -> None:
        with self._bytes_lock:
            self._bytes -= write.size_bytes

    def _give_up(self, writes: list[OutgoingWrite], error: SteleError) -> None:
        """The outcome will never be known: the lanes are not used again."""
        for write in writes:
            self._fail(write, error)

    def _lose(self, frame: list[OutgoingWrite], error: Unavailable) -> None:
        for write in frame:
            write.is_again = True
        now_us = self._link.world.clock.monotonic_us()
        self._lost_us = self._lost_us or now_us
        if now_us <= self._lost_us + RECONNECT_US:
            self._lost += frame
            return
        # Nobody came in time. What waits behind would only find out the same, one by one.
        self._lost_us = 0
        rest = [*self._lost, *self._waiting]
        self._lost.clear()
        self._waiting.clear()
        self._give_up([*frame, *rest], self._link.explained(error))
