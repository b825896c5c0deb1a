"""The end that answers: calls, limits, cancel, deadlines and credit."""

from __future__ import annotations

import pytest

from stele.errors import (
    Conflict,
    Corruption,
    DeadlineExceeded,
    LimitExceeded,
    SteleError,
    Throttled,
    Unavailable,
)
from stele.rpc import wire_format as wire
from stele.rpc.budget import ByteBudget
from stele.rpc.connection_states import State
from stele.rpc.events import Abandoned, Answered, Call, Closed, Credited, Ended, Failed, Item
from stele.rpc.framing import encode_frame
from stele.rpc.limits import SECOND_US, Limits
from stele.rpc.server_connection import CREDIT_BYTES_MAX
from tests.unit.rpc.support import START_US, Pair, closing_error, kinds_of, output_of


def arrived(pair: Pair, **options: object) -> Call:
    """A call that has reached the server."""
    pair.request(**options)  # type: ignore[arg-type]
    (call,) = pair.to_server()
    assert isinstance(call, Call)
    return call


def failure(pair: Pair) -> SteleError:
    """The one error that reaches the client."""
    (event,) = pair.to_client()
    assert isinstance(event, Failed)
    return event.error


def test_a_call_carries_what_was_asked() -> None:
    pair = Pair()
    call = arrived(pair, body=b"question", deadline_us=START_US + 500)
    assert (call.method, bytes(call.body), call.deadline_us) == (
        0x0101,
        b"question",
        START_US + 500,
    )
    pair.server.respond(call, b"answer", [b"raw"])
    (event,) = pair.to_client()
    assert isinstance(event, Answered)
    assert (bytes(event.body), [bytes(a) for a in event.attachments]) == (b"answer", [b"raw"])
    assert pair.server.inflight == 0


def test_a_refusal_reaches_the_caller_and_the_connection_goes_on() -> None:
    pair = Pair()
    pair.server.refuse(arrived(pair), Conflict("row changed"))
    error = failure(pair)
    assert (type(error), str(error)) == (Conflict, "row changed")
    assert pair.server.state is State.OPEN


def test_the_deadline_starts_when_the_frame_arrives() -> None:
    pair = Pair()
    pair.request(deadline_us=START_US + 500)
    pair.now_us += 10_000
    (call,) = pair.to_server()
    assert isinstance(call, Call)
    assert call.deadline_us == START_US + 10_500


def test_a_deadline_beyond_the_limit_is_cut_and_a_missing_one_made() -> None:
    pair = Pair(server_limits=Limits(deadline_us_max=7 * SECOND_US))
    for kind, argument, expected in (
        (wire.REQUEST, 1 << 62, START_US + 7 * SECOND_US),
        (wire.REQUEST, 0, START_US + 7 * SECOND_US),
        (wire.ONE_WAY, 0, START_US + 7 * SECOND_US),
        (wire.OPEN, 0, 0),
    ):
        request_id = argument % 1000 + kind * 10
        pair = Pair(server_limits=Limits(deadline_us_max=7 * SECOND_US))
        pair.server.receive_data(encode_frame(kind, 1, request_id, 0, argument), START_US)
        (call,) = pair.server.take_events()
        assert isinstance(call, Call)
        assert call.deadline_us == expected


def test_a_passed_deadline_stops_the_handler_and_answers() -> None:
    pair = Pair()
    call = arrived(pair, deadline_us=START_US + 100)
    assert pair.server.next_time_us == START_US + 100
    pair.server.on_time(START_US + 100)
    (event,) = pair.server.take_events()
    assert isinstance(event, Abandoned)
    assert event.call is call
    assert isinstance(event.error, DeadlineExceeded)
    assert isinstance(failure(pair), DeadlineExceeded)
    pair.server.respond(call, b"too late")
    assert output_of(pair.server) == b""
    assert pair.server.inflight == 0


def test_deadlines_pass_one_by_one() -> None:
    pair = Pair()
    calls = [
        arrived(pair, deadline_us=START_US + 300),
        arrived(pair, deadline_us=START_US + 100),
        arrived(pair, deadline_us=0, is_stream=True),
        arrived(pair, deadline_us=START_US + 200, is_stream=True),
    ]
    expired = []
    for now_us in (100, 200, 300):
        assert pair.server.next_time_us == START_US + now_us
        pair.server.on_time(START_US + now_us)
        (event,) = pair.server.take_events()
        assert isinstance(event, Abandoned)
        expired.append(event.call)
    assert expired == [calls[1], calls[3], calls[0]]
    assert pair.server.next_time_us > START_US + 300


def test_a_one_way_message_is_stopped_at_its_deadline_without_a_word() -> None:
    pair = Pair(server_limits=Limits(deadline_us_max=100))
    pair.client.one_way(1, b"m")
    (call,) = pair.to_server()
    assert isinstance(call, Call)
    for _ in range(2):
        pair.server.on_time(START_US + 100)
    (event,) = pair.server.take_events()
    assert isinstance(event, Abandoned)
    pair.server.refuse(call, Conflict("nobody listens"))
    assert output_of(pair.server) == b""


def test_a_cancel_stops_the_handler_once() -> None:
    pair = Pair()
    call = arrived(pair)
    pair.client.cancel(call.request_id)
    cancel = output_of(pair.client)
    pair.server.receive_data(cancel + cancel, START_US)
    (event,) = pair.server.take_events()
    assert isinstance(event, Abandoned)
    assert pair.server.inflight == 1
    pair.server.refuse(call, Unavailable("stopped"))
    assert (pair.server.inflight, output_of(pair.server)) == (0, b"")


def test_a_cancel_after_the_answer_is_ignored_and_one_for_nothing_is_a_breach() -> None:
    pair = Pair()
    call = arrived(pair)
    pair.server.respond(call, b"a")
    for kind in (wire.CANCEL, wire.CREDIT):
        pair.server.receive_data(encode_frame(kind, 0, call.request_id, 0, 1), START_US)
    assert pair.server.take_events() == []
    pair.server.receive_data(encode_frame(wire.CANCEL, 0, 99, 0, 0), START_US)
    assert isinstance(closing_error(pair.server.take_events()), Corruption)


@pytest.mark.parametrize("request_id", [0, 1, 5])
@pytest.mark.parametrize("kind", [wire.REQUEST, wire.OPEN, wire.ONE_WAY])
def test_a_replayed_request_has_no_second_effect(kind: int, request_id: int) -> None:
    pair = Pair()
    pair.server.receive_data(encode_frame(wire.REQUEST, 1, 5, 0, 0, b"x"), START_US)
    pair.server.take_events()
    pair.server.receive_data(encode_frame(kind, 1, request_id, 0, 0, b"x"), START_US)
    events = pair.server.take_events()
    assert not any(isinstance(event, Call) for event in events)
    assert isinstance(closing_error(events), Corruption)


# ---- limits ----------------------------------------------------------------------------


def test_too_many_calls_are_throttled_one_by_one() -> None:
    pair = Pair(server_limits=Limits(inflight_max=1))
    call = arrived(pair)
    pair.server.receive_data(encode_frame(wire.REQUEST, 1, 9, 0, 0), START_US)
    assert pair.server.take_events() == []
    assert kinds_of(output_of(pair.server)) == ["error"]
    pair.server.respond(call, b"a")
    pair.server.receive_data(encode_frame(wire.REQUEST, 1, 10, 0, 0), START_US)
    assert len(pair.server.take_events()) == 1


def test_asking_and_cancelling_in_a_loop_meets_the_same_wall() -> None:
    pair = Pair(server_limits=Limits(inflight_max=2))
    calls = 0
    for request_id in range(1, 20):
        pair.server.receive_data(
            encode_frame(wire.REQUEST, 1, request_id, 0, 0)
            + encode_frame(wire.CANCEL, 0, request_id, 0, 0),
            START_US,
        )
        calls += sum(isinstance(event, Call) for event in pair.server.take_events())
    assert calls == 2


def test_bytes_in_flight_are_bounded() -> None:
    pair = Pair(server_limits=Limits(inflight_bytes_max=1000))
    first = arrived(pair, body=bytes(900))
    pair.request(body=bytes(100))
    assert pair.to_server() == []
    assert isinstance(failure(pair), Throttled)
    pair.server.respond(first, b"")
    pair.to_client()
    arrived(pair, body=bytes(900))


def test_bytes_in_flight_of_all_connections_share_one_budget() -> None:
    budget = ByteBudget(1000)
    one, other = (Pair(server_options={"inflight": budget}) for _ in range(2))
    call = arrived(one, body=bytes(900))
    other.request(body=bytes(100))
    assert other.to_server() == []
    assert isinstance(failure(other), Throttled)
    one.server.respond(call, b"")
    assert budget.bytes_used == 0
    arrived(other, body=bytes(900))


def test_streams_are_bounded() -> None:
    pair = Pair(server_limits=Limits(streams_max=1))
    arrived(pair, is_stream=True)
    pair.server.receive_data(encode_frame(wire.OPEN, 1, 9, 0, 0), START_US)
    assert pair.server.take_events() == []
    assert kinds_of(output_of(pair.server)) == ["error"]


def test_an_answer_above_the_clients_limit_becomes_an_error() -> None:
    pair = Pair(client_limits=Limits(frame_bytes_max=1000))
    pair.server.respond(arrived(pair), bytes(1001))
    assert isinstance(failure(pair), LimitExceeded)
    call = arrived(pair, is_stream=True)
    with pytest.raises(LimitExceeded):
        pair.server.send_item(call, b"", [bytes(1000)])
    pair.server.refuse(call, LimitExceeded("x"))
    assert isinstance(failure(pair), LimitExceeded)


def test_a_client_that_does_not_read_is_cut() -> None:
    pair = Pair(server_limits=Limits(outbox_bytes_soft=1000, outbox_bytes_max=5000))
    calls = [arrived(pair) for _ in range(6)]
    for call in calls:
        pair.server.respond(call, bytes(1000))
    error = closing_error(pair.server.take_events())
    assert isinstance(error, Throttled)
    assert "does not read" in str(error)
    assert pair.server.inflight == 0


# ---- streams ---------------------------------------------------------------------------


def test_a_stream_stops_when_its_credit_is_used_up_and_goes_on_with_more() -> None:
    pair = Pair(client_limits=Limits(window_bytes=100))
    call = arrived(pair, is_stream=True)
    sent = 0
    while pair.server.may_send(call):
        pair.server.send_item(call, b"12345678")
        sent += 1
    assert sent == 3
    for item in pair.to_client():
        assert isinstance(item, Item)
        pair.client.consumed(call.request_id, item.weight)
    assert pair.to_server() == [Credited(call)]
    assert pair.server.may_send(call)
    pair.server.finish(call)
    assert pair.to_client() == [Ended("context")]


def test_an_item_larger_than_the_window_goes_through() -> None:
    pair = Pair(client_limits=Limits(window_bytes=10))
    call = arrived(pair, is_stream=True)
    pair.server.send_item(call, bytes(5000))
    assert not pair.server.may_send(call)
    (item,) = pair.to_client()
    assert isinstance(item, Item)
    pair.client.consumed(call.request_id, item.weight)
    pair.to_server()
    assert pair.server.may_send(call)


def test_a_stream_waits_for_the_outbox() -> None:
    pair = Pair(server_limits=Limits(outbox_bytes_soft=1000))
    call = arrived(pair, is_stream=True)
    pair.server.send_item(call, bytes(1000))
    assert not pair.server.may_send(call)
    output_of(pair.server)
    assert pair.server.may_send(call)


def test_a_stream_that_nobody_reads_may_be_sent_into_the_void() -> None:
    pair = Pair()
    call = arrived(pair, is_stream=True)
    pair.client.cancel(call.request_id)
    pair.to_server()
    assert pair.server.may_send(call)
    pair.server.send_item(call, b"x")
    pair.server.finish(call)
    assert output_of(pair.server) == b""


@pytest.mark.parametrize(("is_stream", "credit"), [(False, 1), (True, CREDIT_BYTES_MAX)])
def test_credit_that_makes_no_sense_is_a_breach(is_stream: bool, credit: int) -> None:
    pair = Pair()
    call = arrived(pair, is_stream=is_stream)
    pair.server.receive_data(encode_frame(wire.CREDIT, 0, call.request_id, 0, credit), START_US)
    assert isinstance(closing_error(pair.server.take_events()), Corruption)


def test_the_end_of_the_connection_stops_every_handler() -> None:
    pair = Pair()
    calls = [arrived(pair), arrived(pair, is_stream=True)]
    pair.client.one_way(1, b"m")
    (message,) = pair.to_server()
    pair.server.lost()
    *abandoned, closed = pair.server.take_events()
    assert isinstance(closed, Closed)
    assert [event.call for event in abandoned if isinstance(event, Abandoned)] == [*calls, message]
    for call in calls:
        pair.server.respond(call, b"")
    assert output_of(pair.server) == b""
