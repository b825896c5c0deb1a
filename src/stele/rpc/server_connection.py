"""The end that answers: calls in, answers, errors and stream items out.

A `Call` counts against the limits from its arrival until the shell says that its handler has
ended, not until the caller loses interest: a peer that asks and cancels in a loop finds the same
wall as one that waits.

Refusals that concern one call are answered with an error and the connection goes on. Those that
break the protocol, such as a request id that was used before, end it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from stele.errors import (
    Corruption,
    DeadlineExceeded,
    LimitExceeded,
    SteleError,
    Throttled,
    Unavailable,
)
from stele.rpc import wire_format as wire
from stele.rpc.budget import ByteBudget
from stele.rpc.connection import NEVER_US, Connection, MessageClock
from stele.rpc.connection_states import Side, State
from stele.rpc.events import NO_DEADLINE, Abandoned, Call, Credited
from stele.rpc.framing import Buffer, Frame, encode_parts
from stele.rpc.identity import PeerIdentity, Proof
from stele.rpc.limits import Limits
from stele.rpc.wire_errors import encode_error

CREDIT_BYTES_MAX = 1 << 40
"""More credit than any window: a peer that grants it does not count."""


class ServerConnection(Connection):
    """The accepting end."""

    side: ClassVar[Side] = Side.SERVER

    def __init__(
        self,
        hello: wire.Hello,
        limits: Limits,
        now_us: int,
        *,
        clock: MessageClock | None = None,
        certified: PeerIdentity | None = None,
        proof: Proof = Proof.CLAIM,
        assembly: ByteBudget | None = None,
        inflight: ByteBudget | None = None,
    ):
        super().__init__(
            hello,
            limits,
            now_us,
            clock=clock,
            certified=certified,
            proof=proof,
            assembly=assembly,
        )
        self._budget = inflight or ByteBudget(limits.inflight_bytes_max)
        self._calls: dict[int, Call] = {}
        self._streams_running = 0
        self._inflight_bytes = 0
        self._last_id = 0
        self._inflight_max = limits.inflight_max
        self._inflight_bytes_max = limits.inflight_bytes_max
        self._deadline_us_max = limits.deadline_us_max
        self._outbox_bytes_max = limits.outbox_bytes_max
        self._outbox_bytes_soft = limits.outbox_bytes_soft

    # ---- what the shell calls ----------------------------------------------------------

    def respond(self, call: Call, body: bytes, attachments: Sequence[Buffer] = ()) -> None:
        """Answer a unary call. Its handler has ended."""
        if not call.answered:
            call.answered = True
            if attachments or len(body) > self._peer_frame_bytes_max:
                self._respond_large(call, body, attachments)
            elif self.state is not State.CLOSED:
                self._send(wire.RESPONSE, 0, call.request_id, 0, body)
                if self.outbox_bytes > self._outbox_bytes_max:
                    self._check_outbox()
        self.release(call)

    def refuse(self, call: Call, error: BaseException) -> None:
        """Answer any call with an error. Its handler has ended."""
        if not call.answered:
            self._answer_error(call, error)
        self.release(call)

    def send_item(self, call: Call, body: bytes, attachments: Sequence[Buffer] = ()) -> None:
        """Send one item of a stream. The shell waits for `may_send` first."""
        if call.answered:
            return
        assert self.may_send(call), "an item without credit"
        call.credit -= self._answer(wire.ITEM, call.request_id, call.items_sent, body, attachments)
        call.items_sent += 1

    def finish(self, call: Call) -> None:
        """End a stream. Its handler has ended."""
        if not call.answered:
            call.answered = True
            self._send(wire.END, 0, call.request_id, call.items_sent)
        self.release(call)

    def release(self, call: Call) -> None:
        """The handler of a call has ended without an answer, or after it."""
        if self._calls.pop(call.request_id, None) is not None:
            self._inflight_bytes -= call.weight
            self._budget.bytes_used -= call.weight
            self._streams_running -= call.kind == wire.OPEN
            if self.state is State.DRAINING:
                self._close_if_empty()

    @property
    def has_room(self) -> bool:
        """Whether the peer takes what it is sent. A large answer waits until it does."""
        return self.outbox_bytes < self._outbox_bytes_soft

    def may_send(self, call: Call) -> bool:
        """Whether a stream has credit and the connection has room; true also when it is over."""
        return call.answered or (call.credit > 0 and self.outbox_bytes < self._outbox_bytes_soft)

    @property
    def inflight(self) -> int:
        """Calls whose handlers have not ended."""
        return len(self._calls)

    # ---- frames from the client --------------------------------------------------------

    def _receivers_of_side(self) -> dict[int, Callable[[Frame], None]]:
        return {
            wire.REQUEST: self._receive_call,
            wire.OPEN: self._receive_call,
            wire.ONE_WAY: self._receive_call,
            wire.CANCEL: self._receive_cancel,
            wire.CREDIT: self._receive_credit,
        }

    def _receive_call(self, frame: Frame) -> None:
        request_id = frame.request_id
        if request_id <= self._last_id:
            raise Corruption(f"request id {request_id} came after {self._last_id}")
        self._last_id = request_id
        kind = frame.kind
        weight = wire.HEADER_BYTES + frame.payload_bytes
        remaining_us = frame.argument
        if not 0 < remaining_us <= self._deadline_us_max and (remaining_us or kind != wire.OPEN):
            # Only a stream may have no deadline, and none is longer than the limit.
            remaining_us = self._deadline_us_max
        call = Call(
            kind,
            request_id,
            frame.method,
            frame.body,
            frame.attachments,
            frame.origin,
            self._now_us + remaining_us if remaining_us else NO_DEADLINE,
            weight,
        )
        if kind == wire.ONE_WAY:
            # Nobody waits for an answer: whatever is said about it later is dropped.
            call.answered = True
        if (
            self.state is not State.OPEN
            or len(self._calls) >= self._inflight_max
            or self._inflight_bytes + weight > self._inflight_bytes_max
            or self._budget.bytes_used + weight > self._budget.bytes_max
            or (kind == wire.OPEN and self._streams_running >= self.limits.streams_max)
        ):
            self._answer_error(call, self._refusal(weight))
            return
        if kind == wire.OPEN:
            assert self.peer_hello is not None
            call.credit = self.peer_hello.window_bytes
            self._streams_running += 1
        if NO_DEADLINE < call.deadline_us < self._deadline_floor_us:
            self._deadline_floor_us = call.deadline_us
        self._calls[request_id] = call
        self._inflight_bytes += weight
        self._budget.bytes_used += weight
        self._events.append(call)

    def _receive_cancel(self, frame: Frame) -> None:
        call = self._calls.get(frame.request_id)
        if call is None:
            self._check_late(frame)
        elif not call.answered:
            call.answered = True
            self._events.append(Abandoned(call, Unavailable("cancelled by the caller")))

    def _receive_credit(self, frame: Frame) -> None:
        call = self._calls.get(frame.request_id)
        if call is None:
            self._check_late(frame)
            return
        call.credit += frame.argument
        if call.kind != wire.OPEN or call.credit > CREDIT_BYTES_MAX:
            raise Corruption(f"credit of {frame.argument} bytes for request {frame.request_id}")
        if not call.answered:
            self._events.append(Credited(call))

    # ---- what the common part asks for -------------------------------------------------

    def _greeted(self) -> None:
        self._send_hello()

    def _expire(self, now_us: int) -> int:
        floor_us = NEVER_US
        for call in self._calls.values():
            if call.deadline_us == NO_DEADLINE or (call.answered and call.kind != wire.ONE_WAY):
                continue
            if call.deadline_us > now_us:
                floor_us = min(floor_us, call.deadline_us)
                continue
            call.deadline_us = NO_DEADLINE
            error = DeadlineExceeded("the server could not answer by the deadline")
            self._answer_error(call, error)
            self._events.append(Abandoned(call, error))
        return floor_us

    def _is_empty(self) -> bool:
        return not self._calls

    def _abandon_all(self, error: SteleError) -> None:
        for call in self._calls.values():
            if not call.answered or call.kind == wire.ONE_WAY:
                call.answered = True
                self._events.append(Abandoned(call, error))

    # ---- mechanism ---------------------------------------------------------------------

    def _refusal(self, weight: int) -> SteleError:
        limits = self.limits
        if self.state is not State.OPEN:
            return Unavailable("the server is going away")
        if len(self._calls) >= limits.inflight_max:
            return Throttled(f"{limits.inflight_max} requests of this connection are in flight")
        if self._inflight_bytes + weight > limits.inflight_bytes_max:
            return Throttled(
                f"a request of {weight} bytes beside {self._inflight_bytes} in flight, "
                f"the limit is {limits.inflight_bytes_max} bytes"
            )
        if not self._budget.has_room(weight):
            return Throttled(f"requests in flight hold {self._budget.bytes_used} bytes")
        return Throttled(f"{limits.streams_max} streams of this connection are open")

    def _answer(
        self,
        kind: int,
        request_id: int,
        argument: int,
        body: bytes,
        attachments: Sequence[Buffer],
    ) -> int:
        """Queue a message for the client and return its weight."""
        if self.state is State.CLOSED:
            return 0
        if attachments:
            parts = encode_parts(kind, 0, request_id, self._stamp(), argument, body, attachments)
            weight = sum(map(len, parts))
        else:
            weight = wire.HEADER_BYTES + len(body)
        if weight - wire.HEADER_BYTES > self._peer_frame_bytes_max:
            raise LimitExceeded(
                f"an answer of {weight} bytes is larger than the {self._peer_frame_bytes_max} "
                f"bytes that the client takes"
            )
        if attachments:
            self._send_parts(parts)
        else:
            self._send(kind, 0, request_id, argument, body)
        self._check_outbox()
        return weight

    def _respond_large(self, call: Call, body: bytes, attachments: Sequence[Buffer]) -> None:
        try:
            self._answer(wire.RESPONSE, call.request_id, 0, body, attachments)
        except LimitExceeded as error:
            call.answered = False
            self._answer_error(call, error)

    def _answer_error(self, call: Call, error: BaseException) -> None:
        if not call.answered:
            call.answered = True
            if self.state is not State.CLOSED:
                self._send(wire.ERROR, 0, call.request_id, 0, encode_error(error))
                self._check_outbox()

    def _check_late(self, frame: Frame) -> None:
        if not 0 < frame.request_id <= self._last_id:
            raise Corruption(
                f"a {wire.KIND_NAMES[frame.kind]} frame for request {frame.request_id}, "
                f"which was never made"
            )
