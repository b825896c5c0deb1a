"""What both ends of a connection have in common: its states, greeting, liveness and outbox.

A connection is a state machine without I/O. Bytes and the time go in, bytes and events come out;
the asyncio shell, the tests and the simulator drive the same object. The dialling end is a
`ClientConnection` and asks, the accepting end is a `ServerConnection` and answers.

Theory of operation. The client sends preface and hello; the server answers with its own and both
are open. Until then a peer is a stranger: it may send one small frame within a short time. While
open, either side may drain: it sends `goaway`, new requests are refused, and when the last one in
flight is answered the connection closes. Whatever breaks the rules fails the connection, and only
it: the reason is sent as a farewell if the peer has shown that it speaks the protocol.

Liveness: a side that has heard nothing for `keepalive_us` sends a ping, one that has heard nothing
for `silence_us` gives up. A frame that has begun must end within `frame_timeout_us`, so sending
one byte at a time does not help an idle peer to stay.

Time is an integer of microseconds that only grows; it comes in with every call that needs it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar, Final, Protocol

import msgspec

from stele.errors import (
    Corruption,
    SteleError,
    Throttled,
    Unauthenticated,
    Unavailable,
    UnsupportedFormat,
)
from stele.rpc import wire_format as wire
from stele.rpc.budget import ByteBudget
from stele.rpc.connection_states import ACCEPTED, TRANSITIONS, Side, State, Turn
from stele.rpc.events import Closed, Event, Greeted, PeerDraining
from stele.rpc.framing import Buffer, Frame, FrameDecoder
from stele.rpc.identity import PeerIdentity, Proof, Role, admit, clusters_agree
from stele.rpc.limits import Limits
from stele.rpc.wire_errors import decode_error, encode_error

NEVER_US: Final = 1 << 62
"""A time that does not come."""

PING_TOKEN: Final = 1
"""What our pings carry; a pong repeats it."""

PEER_FRAME_BYTES_UNKNOWN: Final = wire.HELLO_BYTES_MAX


class MessageClock(Protocol):
    """The hybrid clock that travels with every frame."""

    def stamp(self) -> int:
        """The clock to send with a frame that is made now."""

    def witness(self, clock: int) -> None:
        """A peer has reached `clock`. Raises a `SteleError` if that is too far ahead."""


_pack: Final = wire.HEADER.pack

_hello_encoder: Final = msgspec.msgpack.Encoder()
_hello_decoder: Final = msgspec.msgpack.Decoder(wire.Hello)


def make_hello(
    role: Role,
    limits: Limits,
    *,
    name: str = "",
    cluster: str = "",
    features: tuple[str, ...] = (),
    required: tuple[str, ...] = (),
) -> wire.Hello:
    """The hello of a side with these limits."""
    return wire.Hello(
        role=role,
        name=name,
        cluster=cluster,
        features=features,
        required=required,
        frame_bytes_max=limits.frame_bytes_max,
        inflight_max=limits.inflight_max,
        streams_max=limits.streams_max,
        window_bytes=limits.window_bytes,
    )


class Connection(abc.ABC):
    """One end of a connection. Not safe for threads: it belongs to one loop.

    State changes only through the public methods; after any of them the shell takes the events
    and the output.
    """

    side: ClassVar[Side]

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
    ):
        self.state = State.GREETING
        self.limits = limits
        self.hello = hello
        self.peer: PeerIdentity | None = None
        self.peer_hello: wire.Hello | None = None
        self.features: frozenset[str] = frozenset()
        self.outbox_bytes = 0
        self._certified = certified
        self._proof = proof
        self._assembly = assembly or ByteBudget(limits.frame_bytes_max + wire.HEADER_BYTES)
        self._assembling = 0
        self._clock = clock
        self._decoder = FrameDecoder()
        self._outbox: list[Buffer] = []
        self._events: list[Event] = []
        self._peer_frame_bytes_max = PEER_FRAME_BYTES_UNKNOWN
        self._preface_sent = False
        self._now_us = now_us
        self._opened_us = now_us
        self._heard_us = now_us
        self._partial_since_us = NEVER_US
        self._ping_sent = False
        self._deadline_floor_us = NEVER_US
        """No deadline of a request is earlier."""
        self._by_kind: dict[int, Callable[[Frame], None]] = {
            wire.HELLO: self._receive_hello,
            wire.ERROR: self._receive_error,
            wire.PING: self._receive_ping,
            wire.PONG: self._receive_pong,
            wire.GOAWAY: self._receive_goaway,
        }
        self._by_kind.update(self._receivers_of_side())
        self._receivers: dict[int, Callable[[Frame], None]] = {}
        self._choose_receivers()

    # ---- what the shell calls ----------------------------------------------------------

    def receive_data(self, data: bytes, now_us: int) -> None:
        """Bytes have arrived."""
        if self.state is not State.CLOSED:
            self._receive(self._decoder.feed(data), now_us)

    def reserve(self) -> memoryview | None:
        """Where the bytes of a large frame may be put instead of being passed, if one has begun."""
        return None if self.state is State.CLOSED else self._decoder.reserve()

    def receive_in_place(self, size: int, now_us: int) -> None:
        """Bytes have arrived where `reserve` said."""
        if self.state is not State.CLOSED:
            self._receive(self._decoder.advance(size), now_us)

    def on_time(self, now_us: int) -> None:
        """`next_time_us` has come, or may have."""
        if self.state is State.CLOSED:
            return
        self._now_us = now_us
        limits = self.limits
        if self.state is State.GREETING and now_us >= self._opened_us + limits.hello_timeout_us:
            self.fail(Unavailable(f"no hello within {limits.hello_timeout_us} µs"))
        elif now_us >= self._heard_us + limits.silence_us:
            self.fail(Unavailable(f"the peer was silent for {limits.silence_us} µs"))
        elif now_us >= self._partial_since_us + limits.frame_timeout_us:
            self.fail(Throttled(f"a frame took longer than {limits.frame_timeout_us} µs to arrive"))
        else:
            if (
                not self._ping_sent
                and self.state is not State.GREETING
                and now_us >= self._heard_us + limits.keepalive_us
            ):
                self._ping_sent = True
                self._send(wire.PING, 0, wire.CONNECTION_ID, PING_TOKEN)
            if now_us >= self._deadline_floor_us:
                self._deadline_floor_us = self._expire(now_us)

    @property
    def next_time_us(self) -> int:
        """When `on_time` has something to do, unless something arrives before."""
        if self.state is State.CLOSED:
            return NEVER_US
        limits = self.limits
        if self.state is State.GREETING:
            return self._opened_us + limits.hello_timeout_us
        patience_us = limits.silence_us if self._ping_sent else limits.keepalive_us
        return min(
            self._heard_us + patience_us,
            self._partial_since_us + limits.frame_timeout_us,
            self._deadline_floor_us,
        )

    def drain(self) -> None:
        """Take no new requests; close when those in flight are answered."""
        before = self.state
        if before is State.CLOSED:
            return
        if before is State.OPEN:
            self._send(wire.GOAWAY, 0, wire.CONNECTION_ID, 0)
        self._turn(Turn.DRAIN)
        if before is State.GREETING:
            self._end(None)
        else:
            self._close_if_empty()

    def fail(self, error: SteleError) -> None:
        """Give the connection up and tell the peer why."""
        if self.state is State.CLOSED:
            return
        if self._decoder.preface_seen:
            self._send_preface()
            self._send(wire.ERROR, 0, wire.CONNECTION_ID, 0, encode_error(error))
        self._turn(Turn.FAILED)
        self._end(error)

    def lost(self, error: SteleError | None = None) -> None:
        """The bytes below are gone; there is nobody to say farewell to."""
        if self.state is not State.CLOSED:
            self._turn(Turn.FAILED)
            self._end(error or Unavailable("the peer closed the connection"))

    def take_events(self) -> list[Event]:
        """What has happened since the last time."""
        events = self._events
        if events:
            self._events = []
        return events

    def take_output(self) -> list[Buffer]:
        """The buffers to write, in order. They are the shell's from now on."""
        output = self._outbox
        if output:
            self._outbox = []
            self.outbox_bytes = 0
        return output

    # ---- what the two sides fill in ----------------------------------------------------

    @abc.abstractmethod
    def _receivers_of_side(self) -> dict[int, Callable[[Frame], None]]:
        """Who takes the kinds of frames that only this side gets."""

    @abc.abstractmethod
    def _greeted(self) -> None:
        """The peer's hello is in order; the last chance to refuse it."""

    @abc.abstractmethod
    def _expire(self, now_us: int) -> int:
        """End what is past its deadline; return the earliest deadline left."""

    @abc.abstractmethod
    def _is_empty(self) -> bool:
        """Whether nothing is in flight."""

    @abc.abstractmethod
    def _abandon_all(self, error: SteleError) -> None:
        """The connection is closed: end what is in flight."""

    # ---- receiving ---------------------------------------------------------------------

    def _receive(self, frames: list[Frame], now_us: int) -> None:
        """Take the frames that new bytes have completed, in order, up to the first defect."""
        self._now_us = self._heard_us = now_us
        self._ping_sent = False
        decoder = self._decoder
        clock = 0
        try:
            for frame in frames:
                if frame.clock > clock:
                    clock = frame.clock
                receiver = self._receivers.get(frame.kind)
                if receiver is None:
                    self._refuse_kind(frame)
                else:
                    receiver(frame)
            if clock and self._clock is not None:
                self._clock.witness(clock)
            if decoder.error is not None:
                raise decoder.error
        except SteleError as error:
            self.fail(error)
            return
        partial = decoder.buffered_bytes
        if not partial:
            self._partial_since_us = NEVER_US
        elif frames or self._partial_since_us == NEVER_US:
            self._partial_since_us = now_us
        if partial != self._assembling:
            self._assemble(partial)

    # ---- greeting ----------------------------------------------------------------------

    def _receive_hello(self, frame: Frame) -> None:
        try:
            hello = _hello_decoder.decode(frame.body)
        except (ValueError, RecursionError) as error:
            raise Corruption(f"a hello that cannot be read: {error}") from error
        self._check_hello(hello)
        self.peer = admit(hello.role, hello.name, hello.cluster, self._certified, self._proof)
        if not clusters_agree(self.hello.cluster, self.peer.cluster):
            raise Unauthenticated(
                f"the peer is of cluster {self.peer.cluster!r}, this is {self.hello.cluster!r}"
            )
        self.peer_hello = hello
        self.features = frozenset(hello.features) & frozenset(self.hello.features)
        self._peer_frame_bytes_max = hello.frame_bytes_max
        self._decoder.payload_bytes_max = self.limits.frame_bytes_max
        self._greeted()
        self._turn(Turn.GREETED)
        self._events.append(Greeted(self.peer))

    def _check_hello(self, hello: wire.Hello) -> None:
        version = min(hello.version_max, self.hello.version_max)
        if version < max(hello.version_min, self.hello.version_min):
            raise UnsupportedFormat(
                f"the peer speaks protocol versions {hello.version_min} to {hello.version_max}, "
                f"this side {self.hello.version_min} to {self.hello.version_max}"
            )
        for ours, theirs in ((self.hello, hello), (hello, self.hello)):
            missing = sorted(set(ours.required) - set(theirs.features))
            if missing:
                raise UnsupportedFormat(f"the other side lacks the features {', '.join(missing)}")

    def _send_preface(self) -> None:
        """Before the first frame, whichever it is."""
        if not self._preface_sent:
            self._preface_sent = True
            self._outbox.append(wire.PREFACE)
            self.outbox_bytes += len(wire.PREFACE)

    def _send_hello(self) -> None:
        self._send_preface()
        self._send(wire.HELLO, 0, wire.CONNECTION_ID, 0, _hello_encoder.encode(self.hello))

    # ---- frames that both sides take ---------------------------------------------------

    def _receive_error(self, frame: Frame) -> None:
        """The peer has given up. What it says is passed on, not answered."""
        if frame.request_id != wire.CONNECTION_ID:
            raise Corruption(f"an error for request {frame.request_id} from a side that asks")
        self.lost(decode_error(frame.body))

    def _receive_ping(self, frame: Frame) -> None:
        self._send(wire.PONG, 0, wire.CONNECTION_ID, frame.argument)
        self._check_outbox()

    def _receive_pong(self, frame: Frame) -> None:
        """That it was heard is all there is to it, if it answers a ping of ours."""
        if frame.argument != PING_TOKEN:
            raise Corruption(f"a pong to ping {frame.argument}, which was never sent")

    def _receive_goaway(self, frame: Frame) -> None:
        if frame.request_id != wire.CONNECTION_ID:
            raise Corruption(f"a goaway for request {frame.request_id}")
        self._turn(Turn.DRAIN)
        self._events.append(PeerDraining())
        self._close_if_empty()

    def _refuse_kind(self, frame: Frame) -> None:
        if self.state is not State.CLOSED:
            raise Corruption(
                f"a {wire.KIND_NAMES[frame.kind]} frame has no place on the {self.side.value} side "
                f"of a connection that is {self.state.value}"
            )

    # ---- mechanism ---------------------------------------------------------------------

    def _turn(self, turn: Turn) -> None:
        self.state = TRANSITIONS[self.state, turn]
        self._choose_receivers()

    def _choose_receivers(self) -> None:
        accepted = ACCEPTED[self.side, self.state]
        self._receivers = {kind: self._by_kind[kind] for kind in accepted}

    def _close_if_empty(self) -> None:
        if self.state is State.DRAINING and self._is_empty():
            self._turn(Turn.EMPTIED)
            self._end(None)

    def _end(self, error: SteleError | None) -> None:
        self._assembly.bytes_used -= self._assembling
        self._assembling = 0
        self._abandon_all(error or Unavailable("the connection was closed"))
        self._events.append(Closed(error))

    def _send(
        self, kind: int, method: int, request_id: int, argument: int, body: bytes = b""
    ) -> None:
        """Queue a frame without sections. Every message passes here, so it calls nothing else."""
        clock = 0 if self._clock is None else self._clock.stamp()
        frame = _pack(len(body), kind, 0, method, request_id, clock, argument) + body
        self._outbox.append(frame)
        self.outbox_bytes += len(frame)

    def _stamp(self) -> int:
        return 0 if self._clock is None else self._clock.stamp()

    def _send_parts(self, parts: list[Buffer]) -> None:
        self._outbox.extend(parts)
        self.outbox_bytes += sum(map(len, parts))

    def _assemble(self, partial: int) -> None:
        """Charge the bytes of the frame that has begun, which many peers may do at once."""
        growth = partial - self._assembling
        if growth > 0 and not self._assembly.has_room(growth):
            self.fail(Throttled(f"unfinished frames hold {self._assembly.bytes_used} bytes"))
            return
        self._assembly.bytes_used += growth
        self._assembling = partial

    def _check_outbox(self) -> None:
        """A peer that makes us write and does not read is cut, before it fills the memory."""
        if self.outbox_bytes > self.limits.outbox_bytes_max:
            self.fail(
                Throttled(
                    f"{self.outbox_bytes} bytes wait for a peer that does not read, "
                    f"the limit is {self.limits.outbox_bytes_max} bytes"
                )
            )
