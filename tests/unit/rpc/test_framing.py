"""Frames survive any cut of the stream, and nothing but a typed error comes out of garbage."""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import Corruption, LimitExceeded, SteleError
from stele.rpc import framing
from stele.rpc import wire_format as wire
from stele.rpc.framing import (
    BODY_VIEW_BYTES_MIN,
    GATHER_BEGIN_BYTES,
    GATHER_GROWTH,
    GATHER_STEP_BYTES,
    Frame,
    FrameDecoder,
    encode_frame,
    encode_parts,
)
from stele.rpc.wire_format import Origin

LIMIT = 1 << 20

numbers = st.integers(0, (1 << 63) - 1)
origins = st.builds(
    Origin, st.integers(0, 1 << 62), st.tuples(st.sampled_from(["client"])), st.text(max_size=20)
)
plain_frames = st.builds(
    encode_frame,
    st.sampled_from(sorted(wire.KIND_NAMES)),
    st.integers(0, 0xFFFF),
    numbers,
    numbers,
    numbers,
    st.binary(max_size=60),
)
full_frames = st.builds(
    lambda body, attachments, origin: b"".join(
        encode_parts(wire.REQUEST, 7, 9, 11, 13, body, attachments, origin)
    ),
    st.binary(max_size=30),
    st.lists(st.binary(max_size=40), max_size=4),
    st.none() | origins,
)
streams = st.lists(plain_frames | full_frames, max_size=6).map(b"".join)


def values(frames: list[Frame]) -> list[tuple[Any, ...]]:
    """Frames as values that do not depend on which kind of buffer holds the bytes."""
    return [
        (
            frame.kind,
            frame.method,
            frame.request_id,
            frame.clock,
            frame.argument,
            bytes(frame.body),
            tuple(map(bytes, frame.attachments)),
            frame.origin,
            frame.payload_bytes,
        )
        for frame in frames
    ]


def decode_in_pieces(data: bytes, cuts: list[int], *, preface: bool) -> tuple[list[Any], str]:
    """What a decoder makes of data that arrives cut at the given places."""
    decoder = FrameDecoder(LIMIT, preface=preface)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    found = []
    for begin, end in itertools.pairwise(places):
        found += values(decoder.feed(data[begin:end]))
    if decoder.error is None:
        assert decoder.buffered_bytes <= GATHER_GROWTH * (len(data) + 1)
    return found, repr(decoder.error)


@given(streams, st.lists(st.integers(0, 1 << 16), max_size=12), st.booleans())
def test_any_cut_gives_the_same_frames(data: bytes, cuts: list[int], preface: bool) -> None:
    data = wire.PREFACE + data if preface else data
    whole, error = decode_in_pieces(data, [], preface=preface)
    assert error == "None"
    assert decode_in_pieces(data, cuts, preface=preface) == (whole, error)


@given(streams, st.lists(st.integers(0, 1 << 16), max_size=12), st.data())
def test_any_cut_of_a_damaged_stream_gives_the_same_frames_and_error(
    data: bytes, cuts: list[int], draw: st.DataObject
) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        if damaged:
            place = draw.draw(st.integers(0, len(damaged) - 1))
            damaged[place] = draw.draw(st.integers(0, 255))
    whole = decode_in_pieces(bytes(damaged), [], preface=False)
    assert decode_in_pieces(bytes(damaged), cuts, preface=False) == whole


@given(st.binary(max_size=300), st.booleans())
def test_garbage_is_only_ever_a_typed_error(data: bytes, preface: bool) -> None:
    decoder = FrameDecoder(LIMIT, preface=preface)
    for byte in data:
        decoder.feed(bytes([byte]))
    assert decoder.error is None or isinstance(decoder.error, SteleError)
    assert decoder.buffered_bytes <= len(data)


@given(
    st.sampled_from(sorted(wire.KIND_NAMES)),
    st.integers(0, 0xFFFF),
    numbers,
    numbers,
    numbers,
    st.binary(max_size=100),
    st.lists(st.binary(max_size=100), max_size=5),
    st.none() | origins,
)
def test_round_trip(
    kind: int,
    method: int,
    request_id: int,
    clock: int,
    argument: int,
    body: bytes,
    attachments: list[bytes],
    origin: Origin | None,
) -> None:
    parts = encode_parts(kind, method, request_id, clock, argument, body, attachments, origin)
    data = b"".join(parts)
    (frame,) = FrameDecoder(LIMIT, preface=False).feed(data)
    assert values([frame]) == [
        (
            kind,
            method,
            request_id,
            clock,
            argument,
            body,
            tuple(attachments),
            origin,
            len(data) - wire.HEADER_BYTES,
        )
    ]


def test_attachments_are_not_copied_on_the_way_out() -> None:
    attachment = bytearray(b"x" * 100)
    parts = encode_parts(wire.RESPONSE, 0, 1, 0, 0, b"body", [attachment])
    (view,) = [part for part in parts if isinstance(part, memoryview)]
    assert view.obj is attachment


def test_attachments_are_not_copied_on_the_way_in() -> None:
    size = 3 * BODY_VIEW_BYTES_MIN
    data = b"".join(encode_parts(wire.RESPONSE, 0, 1, 0, 0, b"b", [b"x" * size, b"y" * size]))
    decoder = FrameDecoder(LIMIT, preface=False)
    assert decoder.feed(data[:1000]) == []
    (frame,) = decoder.feed(data[1000:])
    first, second = frame.attachments
    assert first.obj is second.obj
    assert first.readonly


@pytest.mark.parametrize("lead", [b"", encode_frame(wire.PONG, 0, 0, 0, 0, b"abc")])
def test_attachments_start_aligned(lead: bytes) -> None:
    numpy = pytest.importorskip("numpy")
    parts = encode_parts(wire.RESPONSE, 0, 1, 0, 0, b"odd", [b"x" * 13, b"y" * 8000])
    for frame in FrameDecoder(LIMIT, preface=False).feed(lead + b"".join(parts)):
        for attachment in frame.attachments:
            address = numpy.frombuffer(attachment, numpy.uint8).ctypes.data
            assert address % wire.ATTACHMENT_ALIGNMENT_BYTES == 0


def test_a_later_frame_does_not_change_an_earlier_one() -> None:
    big = b"".join(encode_parts(wire.RESPONSE, 0, 1, 0, 0, b"", [b"a" * 100_000]))
    decoder = FrameDecoder(LIMIT, preface=False)
    decoder.feed(big[:50_000])
    (first,) = decoder.feed(big[50_000:] + big[:10])
    (second,) = decoder.feed(big[10:])
    assert bytes(first.attachments[0]) == bytes(second.attachments[0]) == b"a" * 100_000


def test_a_promised_length_is_not_allocated() -> None:
    decoder = FrameDecoder(LIMIT, preface=False)
    assert decoder.feed(wire.HEADER.pack(LIMIT, wire.REQUEST, 0, 0, 1, 0, 0)) == []
    assert decoder.error is None
    assert decoder.buffered_bytes == wire.HEADER_BYTES


@pytest.mark.parametrize("arrived", [GATHER_BEGIN_BYTES, 100_000, 500_000, 3_000_000])
def test_what_is_held_follows_what_has_arrived(arrived: int) -> None:
    decoder = FrameDecoder(64 << 20, preface=False)
    decoder.feed(wire.HEADER.pack(64 << 20, wire.REQUEST, 0, 0, 1, 0, 0))
    for _ in range(arrived // 10_000):
        decoder.feed(bytes(10_000))
    assert decoder.buffered_bytes <= max(GATHER_STEP_BYTES, GATHER_GROWTH * (arrived + 10_000))


@given(
    st.lists(st.binary(min_size=50, max_size=400), min_size=1, max_size=4),
    st.lists(st.integers(1, 100), min_size=1, max_size=30),
    st.integers(0, 100),
)
def test_bytes_written_in_place_give_the_same_frames(
    bodies: list[bytes], sizes: list[int], first: int
) -> None:
    """Large frames are gathered; with small thresholds every frame here is a large one."""
    data = b"".join(
        b"".join(encode_parts(wire.RESPONSE, 0, n, 0, 0, body, [body, b"x"]))
        for n, body in enumerate(bodies)
    )
    expected = values(FrameDecoder(LIMIT, preface=False).feed(data))
    with small_thresholds():
        decoder = FrameDecoder(LIMIT, preface=False)
        found = values(decoder.feed(data[:first]))
        at = first
        for size in itertools.cycle(sizes):
            if at >= len(data):
                break
            place = decoder.reserve()
            if place is None:
                found += values(decoder.feed(data[at : at + size]))
            else:
                written = data[at : at + min(size, len(place))]
                place[: len(written)] = written
                found += values(decoder.advance(len(written)))
            at += size if place is None else len(written)
    assert found == expected
    assert (decoder.error, decoder.buffered_bytes) == (None, 0)


@given(streams, st.lists(st.integers(0, 1 << 16), max_size=12), st.data())
def test_any_cut_gives_the_same_when_frames_are_gathered(
    data: bytes, cuts: list[int], draw: st.DataObject
) -> None:
    damaged = bytearray(data)
    if damaged and draw.draw(st.booleans()):
        place = draw.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = draw.draw(st.integers(0, 255))
    whole = decode_in_pieces(bytes(damaged), [], preface=False)
    with small_thresholds():
        assert decode_in_pieces(bytes(damaged), cuts, preface=False) == whole


@contextlib.contextmanager
def small_thresholds() -> Iterator[None]:
    """Gather every frame that is not whole."""
    with (
        mock.patch.object(framing, "GATHER_BYTES_MIN", 40),
        mock.patch.object(framing, "GATHER_BEGIN_BYTES", 33),
        mock.patch.object(framing, "GATHER_STEP_BYTES", 50),
    ):
        yield


def test_a_frame_above_the_limit_is_refused_by_its_header() -> None:
    decoder = FrameDecoder(LIMIT, preface=False)
    decoder.feed(wire.HEADER.pack(LIMIT + 1, wire.REQUEST, 0, 0, 1, 0, 0))
    assert isinstance(decoder.error, LimitExceeded)
    assert str(LIMIT) in str(decoder.error)
    assert decoder.buffered_bytes == 0


def test_frames_before_garbage_are_delivered_and_none_after() -> None:
    decoder = FrameDecoder(LIMIT, preface=False)
    good = encode_frame(wire.PING, 0, 0, 0, 5)
    frames = decoder.feed(good + b"\xff" * wire.HEADER_BYTES + good)
    assert [frame.argument for frame in frames] == [5]
    assert isinstance(decoder.error, Corruption)
    assert decoder.error.offset == len(good)
    assert decoder.feed(good) == []


@pytest.mark.parametrize(
    "begin", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"STELE\r\n\x00\x00"]
)
def test_another_protocol_is_recognised(begin: bytes) -> None:
    decoder = FrameDecoder()
    decoder.feed(begin)
    assert "does not speak this protocol" in str(decoder.error)
    assert not decoder.preface_seen


def _header(**changed: int) -> bytes:
    fields = {
        "length": 0,
        "kind": wire.PING,
        "flags": 0,
        "method": 0,
        "request_id": 0,
        "clock": 0,
        "argument": 0,
    }
    return wire.HEADER.pack(*{**fields, **changed}.values())


@pytest.mark.parametrize(
    "data",
    [
        _header(kind=0),
        _header(kind=wire.KIND_MAX + 1),
        _header(flags=wire.FLAGS_KNOWN + 1),
        _header(request_id=-1),
        _header(clock=-1),
        _header(argument=-1),
        _header(flags=wire.FLAG_FORWARDED),
        _header(flags=wire.FLAG_FORWARDED, length=4) + struct.pack("<I", 1),
        _header(flags=wire.FLAG_FORWARDED, length=4) + struct.pack("<I", 1 << 31),
        _header(flags=wire.FLAG_FORWARDED, length=6) + struct.pack("<I", 2) + b"\xc1\xc1",
        _header(flags=wire.FLAG_ATTACHED),
        _header(flags=wire.FLAG_ATTACHED, length=4) + struct.pack("<I", 1),
        _header(flags=wire.FLAG_ATTACHED, length=8) + struct.pack("<II", 0, 1),
        _header(flags=wire.FLAG_ATTACHED, length=12) + struct.pack("<III", 1, 0, 1),
        _header(flags=wire.FLAG_ATTACHED, length=12) + struct.pack("<III", 1, 0xFFFFFFFF, 1),
        _header(flags=wire.FLAG_ATTACHED, length=13) + struct.pack("<III", 1, 0, 0) + b"x",
    ],
)
def test_impossible_frames_are_corruption(data: bytes) -> None:
    decoder = FrameDecoder(LIMIT, preface=False)
    assert decoder.feed(data) == []
    assert isinstance(decoder.error, Corruption)


def test_a_large_frame_whose_parts_do_not_add_up_is_corruption() -> None:
    size = framing.GATHER_BYTES_MIN
    table = struct.pack("<III", 1, 0, size)
    data = _header(flags=wire.FLAG_ATTACHED, length=size) + table + bytes(size - len(table))
    decoder = FrameDecoder(LIMIT, preface=False)
    assert decoder.feed(data[:50_000]) == []
    assert decoder.reserve() is not None
    assert decoder.feed(data[50_000:] + data) == []
    assert isinstance(decoder.error, Corruption)
    assert (decoder.reserve(), decoder.buffered_bytes) == (None, 0)


def test_too_many_attachments_are_refused_on_both_sides() -> None:
    too_many = [b""] * (wire.ATTACHMENTS_PER_FRAME_MAX + 1)
    with pytest.raises(LimitExceeded, match="attachments"):
        encode_parts(wire.REQUEST, 0, 1, 0, 0, b"", too_many)
    table = struct.pack(f"<{len(too_many) + 2}I", len(too_many), *[0] * (len(too_many) + 1))
    decoder = FrameDecoder(LIMIT, preface=False)
    decoder.feed(_header(flags=wire.FLAG_ATTACHED, length=len(table)) + table)
    assert isinstance(decoder.error, LimitExceeded)


def test_a_long_origin_is_refused_before_it_is_sent() -> None:
    with pytest.raises(LimitExceeded, match="origin"):
        encode_parts(wire.REQUEST, 0, 1, 0, 0, b"", (), Origin(1, ("client",), "x" * 2000))
