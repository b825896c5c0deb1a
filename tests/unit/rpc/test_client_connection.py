"""The end that asks: ids, deadlines, cancel, windows and what is refused before it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import (
    Corruption,
    DeadlineExceeded,
    LimitExceeded,
    NotLeader,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from stele.rpc import wire_format as wire
from stele.rpc.connection_states import State
from stele.rpc.events import Answered, Call, Closed, Ended, Failed, Greeted, Item
from stele.rpc.framing import encode_frame, encode_parts
from stele.rpc.identity import Role
from stele.rpc.limits import SECOND_US, Limits
from stele.rpc.wire_errors import encode_error
from tests.unit.rpc.support import START_US, Pair, closing_error, frames_of, kinds_of, output_of


def answer(pair: Pair, kind: int, request_id: int, argument: int = 0, body: bytes = b"a") -> Any:
    """What the client makes of one frame of a server that may be lying."""
    pair.client.receive_data(encode_frame(kind, 0, request_id, 0, argument, body), pair.now_us)
    return pair.client.take_events()


def test_answers_find_their_questions_in_any_order() -> None:
    pair = Pair()
    ids = {name: pair.request(name) for name in ("a", "b", "c")}
    assert list(ids.values()) == [1, 2, 3]
    assert answer(pair, wire.RESPONSE, ids["c"], body=b"C") == [Answered("c", b"C", ())]
    assert answer(pair, wire.RESPONSE, ids["a"], body=b"A") == [Answered("a", b"A", ())]
    assert pair.client.inflight == 1


def test_an_error_comes_back_as_what_it_was() -> None:
    pair = Pair()
    request_id = pair.request()
    body = encode_error(NotLeader(leader="m2:7420"))
    (event,) = answer(pair, wire.ERROR, request_id, body=body)
    assert isinstance(event, Failed)
    assert isinstance(event.error, NotLeader)
    assert event.error.leader == "m2:7420"
    assert pair.client.state is State.OPEN


def test_the_remaining_time_is_sent() -> None:
    pair = Pair()
    pair.request(deadline_us=pair.now_us + 1234)
    (frame,) = frames_of(output_of(pair.client))
    assert frame.argument == 1234


def test_a_deadline_that_has_passed_sends_nothing() -> None:
    pair = Pair()
    with pytest.raises(DeadlineExceeded):
        pair.request(deadline_us=pair.now_us)
    assert output_of(pair.client) == b""
    assert pair.client.inflight == 0


@pytest.mark.parametrize("deadline_us", [0, START_US + (1 << 50)])
def test_a_single_request_always_has_a_deadline(deadline_us: int) -> None:
    pair = Pair()
    pair.request(deadline_us=deadline_us)
    (frame,) = frames_of(output_of(pair.client))
    assert frame.argument == pair.client.limits.deadline_us_max


def test_only_a_stream_may_last_for_ever() -> None:
    pair = Pair()
    pair.request(deadline_us=0, is_stream=True)
    (frame,) = frames_of(output_of(pair.client))
    assert (frame.kind, frame.argument) == (wire.OPEN, 0)


def test_a_passed_deadline_fails_the_call_and_cancels_it() -> None:
    pair = Pair()
    pair.request("late", deadline_us=START_US + 100)
    pair.request("later", deadline_us=START_US + 200)
    pair.request("endless", deadline_us=0, is_stream=True)
    output_of(pair.client)
    assert pair.client.next_time_us == START_US + 100
    pair.client.on_time(START_US + 150)
    (event,) = pair.client.take_events()
    assert isinstance(event, Failed)
    assert (event.context, type(event.error)) == ("late", DeadlineExceeded)
    (frame,) = frames_of(output_of(pair.client))
    assert (frame.kind, frame.request_id) == (wire.CANCEL, 1)
    assert pair.client.next_time_us == START_US + 200


def test_answered_requests_do_not_expire() -> None:
    pair = Pair()
    request_id = pair.request(deadline_us=START_US + 100)
    answer(pair, wire.RESPONSE, request_id)
    pair.client.on_time(START_US + 100)
    assert pair.client.take_events() == []
    assert pair.client.next_time_us > START_US + 100


def test_an_answer_that_crosses_the_cancel_is_dropped() -> None:
    pair = Pair()
    request_id = pair.request()
    pair.client.cancel(request_id)
    pair.client.cancel(request_id)
    assert kinds_of(output_of(pair.client)) == ["request", "cancel"]
    for kind in (wire.RESPONSE, wire.ITEM, wire.END):
        assert answer(pair, kind, request_id) == []
    assert answer(pair, wire.ERROR, request_id, body=encode_error(Unavailable("x"))) == []
    assert pair.client.state is State.OPEN


@pytest.mark.parametrize("kind", [wire.RESPONSE, wire.ITEM, wire.END])
def test_an_answer_to_nothing_is_a_breach(kind: int) -> None:
    pair = Pair()
    pair.request()
    assert isinstance(closing_error(answer(pair, kind, 77)), Corruption)


def test_an_error_that_cannot_be_read_is_a_breach() -> None:
    pair = Pair()
    events = answer(pair, wire.ERROR, pair.request(), body=b"\xc1")
    assert isinstance(closing_error(events), Corruption)


def test_a_lost_connection_fails_what_is_in_flight() -> None:
    pair = Pair()
    pair.request("a")
    pair.request("b", is_stream=True)
    cause = Unavailable("cable")
    pair.client.lost(cause)
    *failed, closed = pair.client.take_events()
    assert closed == Closed(cause)
    for event, context in zip(failed, ("a", "b"), strict=True):
        assert isinstance(event, Failed)
        assert event.context == context
        assert isinstance(event.error, Unavailable)
        assert event.error.__cause__ is cause


# ---- limits ----------------------------------------------------------------------------


def test_no_more_than_the_server_allows_are_in_flight() -> None:
    pair = Pair(server_limits=Limits(inflight_max=2))
    first = pair.request()
    pair.request()
    with pytest.raises(Throttled, match="2 requests"):
        pair.request()
    answer(pair, wire.RESPONSE, first)
    assert pair.request() == 3


def test_no_more_streams_than_the_server_allows_are_open() -> None:
    pair = Pair(server_limits=Limits(streams_max=1))
    first = pair.request(is_stream=True)
    with pytest.raises(Throttled, match="1 streams"):
        pair.request(is_stream=True)
    pair.request()
    answer(pair, wire.END, first)
    pair.request(is_stream=True)


def test_a_message_above_the_servers_limit_is_refused_here() -> None:
    pair = Pair(server_limits=Limits(frame_bytes_max=100))
    pair.request(body=bytes(100))
    with pytest.raises(LimitExceeded, match="101 bytes is larger than the 100"):
        pair.request(body=bytes(101))
    with pytest.raises(LimitExceeded):
        pair.request(body=b"", attachments=[bytes(100)])
    assert pair.client.inflight == 1


def test_a_full_queue_refuses() -> None:
    pair = Pair(client_limits=Limits(outbox_bytes_soft=500, outbox_bytes_max=1000))
    pair.request(body=bytes(900))
    with pytest.raises(Throttled, match="1000 bytes"):
        pair.request(body=bytes(100))
    with pytest.raises(Throttled):
        pair.client.one_way(1, bytes(100))
    output_of(pair.client)
    pair.client.one_way(1, bytes(100))


def test_nothing_is_sent_before_the_greeting() -> None:
    pair = Pair(greet=False)
    with pytest.raises(Unavailable, match="greeting"):
        pair.request()
    with pytest.raises(Unavailable, match="greeting"):
        pair.client.one_way(1, b"")


# ---- streams ---------------------------------------------------------------------------


def test_items_come_in_order_and_end() -> None:
    pair = Pair()
    request_id = pair.request("s", is_stream=True)
    for number in range(3):
        (event,) = answer(pair, wire.ITEM, request_id, number)
        assert isinstance(event, Item)
        assert event.weight == wire.HEADER_BYTES + 1
    assert answer(pair, wire.END, request_id, 3, b"") == [Ended("s")]


@pytest.mark.parametrize(("kind", "argument"), [(wire.ITEM, 1), (wire.END, 1), (wire.RESPONSE, 0)])
def test_a_stream_with_a_gap_is_a_breach(kind: int, argument: int) -> None:
    pair = Pair()
    request_id = pair.request(is_stream=True)
    assert isinstance(closing_error(answer(pair, kind, request_id, argument)), Corruption)


@pytest.mark.parametrize("kind", [wire.ITEM, wire.END])
def test_a_single_request_is_not_answered_like_a_stream(kind: int) -> None:
    pair = Pair()
    assert isinstance(closing_error(answer(pair, kind, pair.request())), Corruption)


def test_credit_is_granted_in_halves_of_a_window() -> None:
    pair = Pair(client_limits=Limits(window_bytes=1000))
    request_id = pair.request(is_stream=True)
    output_of(pair.client)
    (item,) = answer(pair, wire.ITEM, request_id, 0, bytes(368))
    pair.client.consumed(request_id, item.weight)
    assert output_of(pair.client) == b""
    (item,) = answer(pair, wire.ITEM, request_id, 1, bytes(68))
    pair.client.consumed(request_id, item.weight)
    (frame,) = frames_of(output_of(pair.client))
    assert (frame.kind, frame.request_id, frame.argument) == (wire.CREDIT, request_id, 500)


def test_a_server_that_overruns_the_window_is_cut() -> None:
    pair = Pair(client_limits=Limits(window_bytes=1000))
    request_id = pair.request(is_stream=True)
    assert len(answer(pair, wire.ITEM, request_id, 0, bytes(2000))) == 1
    assert "overran" in str(closing_error(answer(pair, wire.ITEM, request_id, 1)))


def test_reading_after_the_end_grants_nothing() -> None:
    pair = Pair(client_limits=Limits(window_bytes=10))
    request_id = pair.request(is_stream=True)
    (item,) = answer(pair, wire.ITEM, request_id)
    answer(pair, wire.END, request_id, 1)
    output_of(pair.client)
    pair.client.consumed(request_id, item.weight)
    assert output_of(pair.client) == b""


# ---- who and for whom ------------------------------------------------------------------


def test_a_server_of_another_role_is_refused() -> None:
    pair = Pair(client_options={"expect": frozenset({Role.MASTER})}, greet=False)
    pair.pump()
    client_events, server_events = pair.events()
    assert isinstance(closing_error(client_events), Unauthenticated)
    assert not any(isinstance(event, Greeted) for event in client_events)
    assert isinstance(closing_error(server_events), Unauthenticated)


def test_an_origin_and_attachments_travel_with_a_request() -> None:
    pair = Pair()
    origin = wire.Origin(4711, ("client",), "ada")
    pair.request(body=b"q", attachments=[b"one", b"two"], origin=origin)
    pair.client.one_way(5, b"m", origin=origin)
    request, message = pair.to_server()
    assert isinstance(request, Call)
    assert isinstance(message, Call)
    assert [bytes(part) for part in request.attachments] == [b"one", b"two"]
    assert request.origin == message.origin == origin
    assert request.deadline_us == START_US + SECOND_US


def test_attachments_of_an_answer_arrive() -> None:
    pair = Pair()
    request_id = pair.request()
    parts = encode_parts(wire.RESPONSE, 0, request_id, 0, 0, b"a", [b"arrow"])
    pair.client.receive_data(b"".join(parts), START_US)
    (event,) = pair.client.take_events()
    assert isinstance(event, Answered)
    assert [bytes(part) for part in event.attachments] == [b"arrow"]
