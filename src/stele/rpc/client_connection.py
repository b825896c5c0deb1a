"""The end that asks: requests out, answers, errors and stream items in.

Request ids grow by one and are never used twice, so an answer that crosses a cancel is recognised
as late and dropped, and an answer to something never asked fails the connection.

A deadline is an instant of the local clock. It travels as the microseconds that are left, because
the clocks of two machines need not agree, and is checked on both sides: here it ends the wait and
sends a cancel, there it stops the work.

Flow control: each stream may have `window_bytes` on their way to a reader that has not consumed
them. The last item may overshoot, because a window smaller than an item must not stop the stream;
what is unconsumed is therefore at most a window and one frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from stele.errors import (
    Corruption,
    DeadlineExceeded,
    LimitExceeded,
    SteleError,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from stele.rpc import wire_format as wire
from stele.rpc.connection import NEVER_US, Connection, MessageClock
from stele.rpc.connection_states import Side, State
from stele.rpc.events import NO_DEADLINE, Answered, Ended, Failed, Item
from stele.rpc.framing import Buffer, Frame, encode_parts
from stele.rpc.identity import SERVERS, PeerIdentity, Proof, Role
from stele.rpc.limits import Limits
from stele.rpc.wire_errors import decode_error


class _Pending(msgspec.Struct, gc=False):
    """A request that waits for its answer."""

    context: Any
    deadline_us: int
    is_stream: bool
    items_received: int = 0
    unconsumed: int = 0
    ungranted: int = 0


class ClientConnection(Connection):
    """The dialling end. `expect` are the roles that the other end may have."""

    side: ClassVar[Side] = Side.CLIENT

    def __init__(
        self,
        hello: wire.Hello,
        limits: Limits,
        now_us: int,
        *,
        clock: MessageClock | None = None,
        certified: PeerIdentity | None = None,
        proof: Proof = Proof.CLAIM,
        expect: frozenset[Role] = SERVERS,
    ):
        super().__init__(hello, limits, now_us, clock=clock, certified=certified, proof=proof)
        self._expect = expect
        self._pending: dict[int, _Pending] = {}
        self._streams_open = 0
        self._next_id = 1
        self.inflight_max = 0
        self._streams_max = 0
        self._deadline_us_max = limits.deadline_us_max
        self._outbox_bytes_max = limits.outbox_bytes_max
        self._send_hello()

    # ---- what the shell calls ----------------------------------------------------------

    def request(
        self,
        method: int,
        body: bytes,
        *,
        deadline_us: int,
        now_us: int,
        context: Any,
        is_stream: bool = False,
        attachments: Sequence[Buffer] = (),
        origin: wire.Origin | None = None,
    ) -> int:
        """Send a request and return its id. A refusal raises, and then nothing was sent."""
        if self.state is not State.OPEN:
            raise Unavailable(f"the connection is {self.state.value}")
        if len(self._pending) >= self.inflight_max:
            raise Throttled(f"{self.inflight_max} requests of this connection are in flight")
        if is_stream and self._streams_open >= self._streams_max:
            raise Throttled(f"{self._streams_max} streams of this connection are open")
        remaining_us = deadline_us - now_us
        if not 0 < remaining_us <= self._deadline_us_max:
            remaining_us = self._remaining(deadline_us, remaining_us, is_stream)
        request_id = self._next_id
        kind = wire.OPEN if is_stream else wire.REQUEST
        if attachments or origin is not None:
            self._post(kind, method, request_id, remaining_us, body, attachments, origin)
        else:
            self._check_size(len(body))
            self._send(kind, method, request_id, remaining_us, body)
        self._next_id = request_id + 1
        if remaining_us:
            deadline_us = now_us + remaining_us
            if deadline_us < self._deadline_floor_us:
                self._deadline_floor_us = deadline_us
        if is_stream:
            self._streams_open += 1
        self._pending[request_id] = _Pending(context, deadline_us, is_stream)
        return request_id

    def one_way(
        self,
        method: int,
        body: bytes,
        *,
        attachments: Sequence[Buffer] = (),
        origin: wire.Origin | None = None,
    ) -> None:
        """Send a message that has no answer."""
        if self.state is not State.OPEN:
            raise Unavailable(f"the connection is {self.state.value}")
        if attachments or origin is not None:
            self._post(wire.ONE_WAY, method, self._next_id, 0, body, attachments, origin)
        else:
            self._check_size(len(body))
            self._send(wire.ONE_WAY, method, self._next_id, 0, body)
        self._next_id += 1

    def cancel(self, request_id: int) -> None:
        """Stop waiting for a request and tell the server. Without effect once it is answered."""
        if self._forget(request_id) is not None and self.state is not State.CLOSED:
            self._send(wire.CANCEL, 0, request_id, 0)
            self._close_if_empty()

    def consumed(self, request_id: int, weight: int) -> None:
        """The reader has taken an item of this weight. Grants come in halves of a window."""
        pending = self._pending.get(request_id)
        if pending is None:
            return
        pending.unconsumed -= weight
        pending.ungranted += weight
        if 2 * pending.ungranted >= self.limits.window_bytes:
            self._send(wire.CREDIT, 0, request_id, pending.ungranted)
            pending.ungranted = 0

    @property
    def inflight(self) -> int:
        """Requests and streams that are not answered yet."""
        return len(self._pending)

    # ---- frames from the server --------------------------------------------------------

    def _receivers_of_side(self) -> dict[int, Callable[[Frame], None]]:
        return {
            wire.RESPONSE: self._receive_response,
            wire.ITEM: self._receive_item,
            wire.END: self._receive_end,
        }

    def _receive_response(self, frame: Frame) -> None:
        pending = self._pending.pop(frame.request_id, None)
        if pending is None:
            self._check_late(frame)
            return
        if pending.is_stream:
            raise Corruption(f"stream {frame.request_id} was answered like a single request")
        self._events.append(Answered(pending.context, frame.body, frame.attachments))
        if self.state is State.DRAINING:
            self._close_if_empty()

    def _receive_error(self, frame: Frame) -> None:
        if frame.request_id == wire.CONNECTION_ID:
            super()._receive_error(frame)
            return
        error = decode_error(frame.body)
        pending = self._forget(frame.request_id)
        if pending is None:
            self._check_late(frame)
            return
        self._events.append(Failed(pending.context, error))
        self._close_if_empty()

    def _receive_item(self, frame: Frame) -> None:
        pending = self._pending.get(frame.request_id)
        if pending is None:
            self._check_late(frame)
            return
        if not pending.is_stream or frame.argument != pending.items_received:
            raise Corruption(
                f"item {frame.argument} of request {frame.request_id} came "
                f"where item {pending.items_received} was due"
            )
        if pending.unconsumed >= self.limits.window_bytes:
            raise Corruption(f"stream {frame.request_id} overran its window")
        weight = wire.HEADER_BYTES + frame.payload_bytes
        pending.items_received += 1
        pending.unconsumed += weight
        self._events.append(Item(pending.context, frame.body, frame.attachments, weight))

    def _receive_end(self, frame: Frame) -> None:
        pending = self._forget(frame.request_id)
        if pending is None:
            self._check_late(frame)
            return
        if not pending.is_stream or frame.argument != pending.items_received:
            raise Corruption(
                f"request {frame.request_id} ended after {frame.argument} items, "
                f"{pending.items_received} have come"
            )
        self._events.append(Ended(pending.context))
        self._close_if_empty()

    # ---- what the common part asks for -------------------------------------------------

    def _greeted(self) -> None:
        assert self.peer is not None
        assert self.peer_hello is not None
        if self.peer.roles.isdisjoint(self._expect):
            raise Unauthenticated(f"{self.peer} is not {' or '.join(sorted(self._expect))}")
        self.inflight_max = self.peer_hello.inflight_max
        self._streams_max = self.peer_hello.streams_max

    def _expire(self, now_us: int) -> int:
        due = [
            request_id
            for request_id, pending in self._pending.items()
            if NO_DEADLINE < pending.deadline_us <= now_us
        ]
        for request_id in due:
            context = self._pending[request_id].context
            self.cancel(request_id)
            self._events.append(Failed(context, DeadlineExceeded("no answer by the deadline")))
        return min(
            (p.deadline_us for p in self._pending.values() if p.deadline_us != NO_DEADLINE),
            default=NEVER_US,
        )

    def _is_empty(self) -> bool:
        return not self._pending

    def _abandon_all(self, error: SteleError) -> None:
        pending, self._pending = self._pending, {}
        for one in pending.values():
            reason = Unavailable(f"the connection ended before the answer came: {error}")
            reason.__cause__ = error
            self._events.append(Failed(one.context, reason))

    # ---- mechanism ---------------------------------------------------------------------

    def _remaining(self, deadline_us: int, remaining_us: int, is_stream: bool) -> int:
        """Microseconds to send along where they are not simply what is left."""
        if deadline_us == NO_DEADLINE:
            return 0 if is_stream else self._deadline_us_max
        if remaining_us <= 0:
            raise DeadlineExceeded("the deadline passed before the request was sent")
        return self._deadline_us_max

    def _post(
        self,
        kind: int,
        method: int,
        request_id: int,
        argument: int,
        body: bytes,
        attachments: Sequence[Buffer],
        origin: wire.Origin | None,
    ) -> None:
        """Queue a message with sections, if it fits."""
        parts = encode_parts(
            kind, method, request_id, self._stamp(), argument, body, attachments, origin
        )
        self._check_size(sum(map(len, parts)) - wire.HEADER_BYTES)
        self._send_parts(parts)

    def _check_size(self, size: int) -> None:
        """Refuse what the server would not take, and what our own queue has no room for."""
        if size > self._peer_frame_bytes_max:
            raise LimitExceeded(
                f"a message of {size} bytes is larger than the {self._peer_frame_bytes_max} bytes "
                f"that the server takes"
            )
        if self.outbox_bytes + size > self._outbox_bytes_max:
            raise Throttled(
                f"{self.outbox_bytes} bytes wait to be sent, "
                f"the limit is {self._outbox_bytes_max} bytes"
            )

    def _forget(self, request_id: int) -> _Pending | None:
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            self._streams_open -= pending.is_stream
        return pending

    def _check_late(self, frame: Frame) -> None:
        """An answer that crossed our cancel is fine, one to a question never asked is not."""
        if not 0 < frame.request_id < self._next_id:
            raise Corruption(
                f"a {wire.KIND_NAMES[frame.kind]} frame for request {frame.request_id}, "
                f"which was never made"
            )
