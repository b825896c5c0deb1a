"""Greeting, states, liveness and the outbox: what both ends have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import (
    Corruption,
    LimitExceeded,
    SteleError,
    Throttled,
    Unauthenticated,
    Unavailable,
    UnsupportedFormat,
)
from stele.rpc import wire_format as wire
from stele.rpc.budget import ByteBudget
from stele.rpc.client_connection import ClientConnection
from stele.rpc.connection import NEVER_US, make_hello
from stele.rpc.connection_states import State
from stele.rpc.events import Answered, Call, Closed, Failed, Greeted, PeerDraining
from stele.rpc.framing import encode_frame
from stele.rpc.identity import PeerIdentity, Proof, Role
from stele.rpc.limits import SECOND_US, Limits
from stele.rpc.server_connection import ServerConnection
from tests.unit.rpc.support import (
    START_US,
    Pair,
    closing_error,
    frames_of,
    kinds_of,
    output_of,
)


def lone_server(**options: Any) -> ServerConnection:
    limits = options.pop("limits", Limits())
    return ServerConnection(make_hello(Role.TABLET, limits), limits, START_US, **options)


def hello_bytes(**changed: Any) -> bytes:
    fields = msgspec.to_builtins(make_hello(Role.CLIENT, Limits()))
    body = msgspec.msgpack.encode({**fields, **changed})
    return wire.PREFACE + encode_frame(wire.HELLO, 0, 0, 0, 0, body)


# ---- greeting --------------------------------------------------------------------------


def test_a_greeting_opens_both_ends() -> None:
    pair = Pair(greet=False)
    pair.pump()
    client_events, server_events = pair.events()
    assert client_events == [Greeted(PeerIdentity(frozenset({Role.METASTORE}), "m1", Proof.CLAIM))]
    assert server_events == [Greeted(PeerIdentity(frozenset({Role.CLIENT}), "ada", Proof.CLAIM))]
    assert pair.client.state is pair.server.state is State.OPEN


def test_the_server_says_nothing_to_a_stranger() -> None:
    server = lone_server()
    assert output_of(server) == b""
    server.receive_data(b"GET / HTTP/1.1\r\n\r\n", START_US)
    assert output_of(server) == b""
    assert isinstance(closing_error(server.take_events()), Corruption)


def test_the_highest_common_version_is_spoken_or_none() -> None:
    server = lone_server()
    server.receive_data(hello_bytes(version_min=0, version_max=99), START_US)
    assert server.state is State.OPEN
    for versions in ({"version_min": 2, "version_max": 9}, {"version_min": -5, "version_max": 0}):
        server = lone_server()
        server.receive_data(hello_bytes(**versions), START_US)
        assert isinstance(closing_error(server.take_events()), UnsupportedFormat)


def test_features_are_shared_and_required_ones_must_be_there() -> None:
    limits = Limits()
    hello = make_hello(Role.TABLET, limits, features=("zstd", "trace"), required=("zstd",))
    server = ServerConnection(hello, limits, START_US)
    server.receive_data(hello_bytes(features=["trace", "zstd", "x"]), START_US)
    assert server.features == {"zstd", "trace"}
    server = ServerConnection(hello, limits, START_US)
    server.receive_data(hello_bytes(features=["trace"]), START_US)
    assert "zstd" in str(closing_error(server.take_events()))
    server = ServerConnection(hello, limits, START_US)
    server.receive_data(hello_bytes(features=["zstd"], required=["magic"]), START_US)
    assert "magic" in str(closing_error(server.take_events()))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"role": "king"}, Unauthenticated),
        ({"cluster": "other"}, Unauthenticated),
        ({"window_bytes": 0}, Corruption),
        ({"features": ["x" * 300]}, Corruption),
        ({"version_min": "one"}, Corruption),
    ],
)
def test_a_bad_hello_is_answered_with_the_reason(
    changed: dict[str, Any], error: type[SteleError]
) -> None:
    limits = Limits()
    hello = make_hello(Role.TABLET, limits, cluster="mine")
    server = ServerConnection(hello, limits, START_US)
    server.receive_data(hello_bytes(**changed), START_US)
    assert type(closing_error(server.take_events())) is error
    client = ClientConnection(make_hello(Role.CLIENT, limits), limits, START_US)
    client.receive_data(output_of(server), START_US)
    assert type(closing_error(client.take_events())) is error


def test_a_hello_above_its_limit_is_refused_unread() -> None:
    server = lone_server()
    server.receive_data(
        wire.PREFACE + wire.HEADER.pack(wire.HELLO_BYTES_MAX + 1, wire.HELLO, 0, 0, 0, 0, 0),
        START_US,
    )
    assert isinstance(closing_error(server.take_events()), LimitExceeded)


def test_a_request_before_the_hello_is_a_breach() -> None:
    server = lone_server()
    server.receive_data(wire.PREFACE + encode_frame(wire.REQUEST, 1, 1, 0, 0), START_US)
    assert "greeting" in str(closing_error(server.take_events()))


def test_a_second_hello_is_a_breach() -> None:
    pair = Pair()
    pair.server.receive_data(hello_bytes()[len(wire.PREFACE) :], START_US)
    assert "a hello frame has no place" in str(closing_error(pair.server.take_events()))


def test_a_stranger_that_says_nothing_is_closed() -> None:
    server = lone_server(limits=Limits(hello_timeout_us=50))
    assert server.next_time_us == START_US + 50
    server.on_time(START_US + 49)
    assert server.state is State.GREETING
    server.on_time(START_US + 50)
    assert isinstance(closing_error(server.take_events()), Unavailable)
    assert output_of(server) == b""
    assert server.next_time_us == NEVER_US


def test_a_byte_at_a_time_does_not_extend_the_hello() -> None:
    server = lone_server(limits=Limits(hello_timeout_us=50))
    for at, byte in enumerate(hello_bytes()[:40]):
        server.receive_data(bytes([byte]), START_US + at)
    server.on_time(START_US + 50)
    assert server.state is State.CLOSED


# ---- liveness --------------------------------------------------------------------------


def test_a_silent_peer_is_asked_and_then_given_up() -> None:
    pair = Pair()
    limits = pair.client.limits
    assert pair.client.next_time_us == START_US + limits.keepalive_us
    pair.client.on_time(START_US + limits.keepalive_us)
    assert kinds_of(output_of(pair.client)) == ["ping"]
    assert pair.client.next_time_us == START_US + limits.silence_us
    pair.client.on_time(START_US + limits.silence_us)
    assert "silent" in str(closing_error(pair.client.take_events()))


def test_an_answer_to_the_ping_keeps_the_connection() -> None:
    pair = Pair()
    for _ in range(10):
        pair.now_us += pair.client.limits.keepalive_us
        pair.client.on_time(pair.now_us)
        pair.server.on_time(pair.now_us)
        pair.pump()
    assert pair.events() == ([], [])
    assert pair.client.state is pair.server.state is State.OPEN


def test_a_pong_to_no_ping_is_a_breach() -> None:
    pair = Pair()
    pair.server.receive_data(encode_frame(wire.PONG, 0, 0, 0, 99), START_US)
    assert isinstance(closing_error(pair.server.take_events()), Corruption)


def test_a_frame_that_never_ends_is_given_up() -> None:
    pair = Pair(server_limits=Limits(frame_timeout_us=40 * SECOND_US))
    begun = wire.HEADER.pack(1000, wire.REQUEST, 0, 1, 1, 0, 0)
    pair.server.receive_data(begun, START_US)
    for second in range(1, 40):
        pair.server.receive_data(b"x", START_US + second * SECOND_US)
        pair.server.on_time(START_US + second * SECOND_US)
    assert pair.server.state is State.OPEN
    pair.server.on_time(START_US + 40 * SECOND_US)
    assert isinstance(closing_error(pair.server.take_events()), Throttled)


def test_a_slow_frame_is_timed_from_its_own_beginning() -> None:
    pair = Pair()
    timeout_us = pair.server.limits.frame_timeout_us
    frame = encode_frame(wire.ONE_WAY, 1, 1, 0, 0, b"abc")
    second = encode_frame(wire.ONE_WAY, 1, 2, 0, 0, b"abc")
    pair.server.receive_data(frame[:5], START_US)
    late_us = START_US + timeout_us - 1
    pair.server.receive_data(frame[5:] + second[:5], late_us)
    pair.server.on_time(START_US + timeout_us)
    assert pair.server.state is State.OPEN


# ---- draining and ending ---------------------------------------------------------------


def test_an_idle_connection_drains_at_once() -> None:
    pair = Pair()
    pair.server.drain()
    assert pair.server.take_events() == [Closed(None)]
    assert pair.to_client() == [PeerDraining(), Closed(None)]


def test_draining_lets_the_last_request_finish() -> None:
    pair = Pair()
    pair.request()
    (call,) = pair.to_server()
    assert isinstance(call, Call)
    pair.client.drain()
    pair.to_server()
    assert pair.client.state is pair.server.state is State.DRAINING
    with pytest.raises(Unavailable):
        pair.request()
    pair.server.respond(call, b"a")
    assert pair.server.take_events() == [Closed(None)]
    assert pair.to_client() == [Answered("context", b"a", ()), Closed(None)]


def test_a_request_that_crossed_the_goaway_is_refused() -> None:
    pair = Pair()
    pair.request("first")
    (call,) = pair.to_server()
    assert isinstance(call, Call)
    pair.request("second")
    pair.server.drain()
    pair.to_server()
    pair.server.respond(call, b"a")
    outcomes = pair.to_client()
    assert Answered("first", b"a", ()) in outcomes
    (failed,) = [event for event in outcomes if isinstance(event, Failed)]
    assert failed.context == "second"
    assert isinstance(failed.error, Unavailable)


def test_draining_before_the_greeting_just_ends() -> None:
    server = lone_server()
    server.drain()
    server.drain()
    assert server.take_events() == [Closed(None)]


def test_a_closed_connection_stays_closed() -> None:
    pair = Pair()
    pair.client.fail(Unavailable("x"))
    pair.client.take_events()
    pair.client.fail(Unavailable("y"))
    pair.client.lost()
    pair.client.drain()
    pair.client.on_time(NEVER_US)
    pair.client.receive_data(b"\xff" * 100, START_US)
    assert pair.client.take_events() == []


def test_the_peer_is_told_why() -> None:
    pair = Pair()
    pair.client.receive_data(b"\x00" * wire.HEADER_BYTES, START_US)
    assert isinstance(closing_error(pair.client.take_events()), Corruption)
    found = closing_error(pair.to_server())
    assert isinstance(found, Corruption)
    assert "unknown frame kind 0" in str(found)


def test_a_farewell_is_not_answered() -> None:
    pair = Pair()
    pair.client.fail(Unavailable("bye"))
    pair.to_server()
    assert output_of(pair.server) == b""


def test_frames_after_the_farewell_do_not_count() -> None:
    pair = Pair()
    pair.request()
    pair.client.fail(Unavailable("bye"))
    requests_and_farewell = output_of(pair.client)
    ping = encode_frame(wire.PING, 0, 0, 0, 3)
    pair.server.receive_data(requests_and_farewell + ping, START_US)
    assert output_of(pair.server) == b""


@pytest.mark.parametrize("kind", [wire.GOAWAY, wire.ERROR])
def test_frames_about_the_connection_carry_no_request(kind: int) -> None:
    pair = Pair()
    pair.server.receive_data(encode_frame(kind, 0, 5, 0, 0), START_US)
    assert isinstance(closing_error(pair.server.take_events()), Corruption)


def test_a_peer_that_pings_and_never_reads_is_cut() -> None:
    limits = Limits(outbox_bytes_soft=1000, outbox_bytes_max=2000)
    pair = Pair(server_limits=limits)
    pings = encode_frame(wire.PING, 0, 0, 0, 1) * 100
    pair.server.receive_data(pings, START_US)
    assert isinstance(closing_error(pair.server.take_events()), Throttled)
    assert pair.server.outbox_bytes < 2 * limits.outbox_bytes_max


# ---- budgets ---------------------------------------------------------------------------


def test_unfinished_frames_of_all_connections_share_one_budget() -> None:
    budget = ByteBudget(5 << 19)
    pairs = [Pair(server_options={"assembly": budget}) for _ in range(3)]
    begun = wire.HEADER.pack(1 << 20, wire.REQUEST, 0, 1, 1, 0, 0) + bytes(40_000)
    for pair in pairs:
        pair.server.receive_data(begun, START_US)
    assert [pair.server.state for pair in pairs] == [State.OPEN, State.OPEN, State.CLOSED]
    assert isinstance(closing_error(pairs[2].server.take_events()), Throttled)
    for pair in pairs:
        pair.server.lost()
    assert budget.bytes_used == 0


def test_bytes_may_be_received_in_place() -> None:
    pair = Pair()
    assert pair.server.reserve() is None
    frame = encode_frame(wire.ONE_WAY, 1, 1, 0, 0, bytes(500_000))
    pair.server.receive_data(frame[:100_000], START_US)
    place = pair.server.reserve()
    assert place is not None
    place[: len(frame) - 100_000] = frame[100_000:]
    pair.server.receive_in_place(len(frame) - 100_000, START_US + 5)
    (call,) = pair.server.take_events()
    assert isinstance(call, Call)
    assert len(call.body) == 500_000
    assert call.deadline_us == START_US + 5 + pair.server.limits.deadline_us_max
    pair.server.lost()
    assert pair.server.reserve() is None


def test_a_finished_frame_gives_its_bytes_back() -> None:
    budget = ByteBudget(100_000)
    pair = Pair(server_options={"assembly": budget})
    frame = encode_frame(wire.ONE_WAY, 1, 1, 0, 0, bytes(50_000))
    pair.server.receive_data(frame[:30_000], START_US)
    assert budget.bytes_used == 30_000
    pair.server.receive_data(frame[30_000:], START_US)
    assert budget.bytes_used == 0


# ---- anything at all -------------------------------------------------------------------


@given(st.lists(st.binary(max_size=80), max_size=8), st.booleans(), st.booleans())
def test_garbage_ends_the_connection_with_a_typed_error_and_nothing_else(
    chunks: list[bytes], greeted: bool, to_client: bool
) -> None:
    pair = Pair(greet=greeted)
    end = pair.client if to_client else pair.server
    for chunk in chunks:
        end.receive_data(chunk, START_US)
    closed = [event for event in end.take_events() if isinstance(event, Closed)]
    assert len(closed) == (end.state is State.CLOSED)
    for event in closed:
        assert isinstance(event.error, SteleError)


frames = st.builds(
    encode_frame,
    st.sampled_from(sorted(wire.KIND_NAMES)),
    st.sampled_from([0, 0x0101]),
    st.integers(0, 6),
    st.just(0),
    st.sampled_from([0, 1, 5_000_000, (1 << 63) - 1]),
    st.sampled_from([b"", b"\x80", b"\xc1"]),
)


@given(st.lists(frames, max_size=12), st.booleans())
def test_well_formed_frames_in_any_order_never_break_the_machine(
    data: list[bytes], to_client: bool
) -> None:
    pair = Pair()
    for context in range(3):
        pair.request(context, is_stream=context == 2)
    pair.to_server()
    end = pair.client if to_client else pair.server
    for frame in data:
        end.receive_data(frame, START_US)
        end.on_time(START_US + 2 * SECOND_US)
    output = output_of(end)
    assert frames_of(output) is not None
    assert end.state in State


def test_the_limits_of_a_hello_are_those_of_its_side() -> None:
    limits = replace(Limits(), frame_bytes_max=77, window_bytes=88, inflight_max=99, streams_max=5)
    hello = make_hello(Role.CLIENT, limits)
    assert (hello.frame_bytes_max, hello.window_bytes) == (77, 88)
    assert (hello.inflight_max, hello.streams_max) == (99, 5)
