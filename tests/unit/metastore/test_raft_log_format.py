"""Frames: round trips, every cut, every flipped bit, and frames behind damage."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption, UnsupportedFormat
from stele.metastore import raft_log_format as f
from stele.raft import Entry, EntryKind, HardState, Membership, Snapshot

IDENTITY = f.LogIdentity("c", 1)
HEAD = f.SegmentHead(IDENTITY, 1, 0, Snapshot(), HardState())
FILE = "d/raft-00000001.log"


def frame(sequence: int, data: bytes, mark: int = 7, *, head: bool = False) -> bytes:
    write = f.LogWrite(None, (Entry(1, sequence, EntryKind.DATA, data),), HardState(1, 0, 0))
    payload = f.Payload((write,), HEAD if head else None)
    return b"".join(f.encode_frame(payload, mark, sequence))


def segment(*sizes: int) -> list[bytes]:
    return [frame(i, b"x" * size, head=i == 1) for i, size in enumerate(sizes, start=1)]


def test_names_are_spelled_in_one_way() -> None:
    assert f.segment_name(3) == "raft-00000003.log"
    assert f.segment_number("raft-00000003.log") == 3
    assert f.segment_number("raft-123456789.log") == 123456789
    for name in ("raft-3.log", "raft-000000003.log", "reserve", "raft-00000003.log.tmp"):
        assert f.segment_number(name) is None


def test_frames_come_back_in_order() -> None:
    data = b"".join(segment(3, 0, 500))
    frames, end = f.read_segment(data, FILE, None)
    assert end == len(data)
    assert [item.sequence for item in frames] == [1, 2, 3]
    assert frames[2].payload.writes[0].entries[0].data == b"x" * 500


def test_every_kind_of_record_survives() -> None:
    snapshot = Snapshot(9, 3, Membership((1, 2), (3,), {1: "a:1"}))
    write = f.LogWrite(snapshot, (), HardState(3, 2, 9), snapshot)
    data = b"".join(f.encode_frame(f.Payload((write,), HEAD), 1, 1))
    assert f.read_segment(data, FILE, None)[0][0].payload == f.Payload((write,), HEAD)


def test_a_tail_cut_anywhere_is_dropped() -> None:
    parts = segment(10, 20, 30)
    whole = b"".join(parts)
    sound = len(parts[0]) + len(parts[1])
    for cut in range(sound, len(whole)):
        frames, end = f.read_segment(whole[:cut], FILE, None)
        assert (len(frames), end) == (2, sound)
        padded = whole[:cut] + bytes(len(whole) - cut)
        if padded != whole:
            assert f.read_segment(padded, FILE, None)[1] == sound


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_before_a_sound_frame_is_corruption(place: int, bit: int) -> None:
    parts = segment(10, 20, 30)
    data = bytearray(b"".join(parts))
    at = place % (len(parts[0]) + len(parts[1]))
    data[at] ^= 1 << bit
    with pytest.raises(Corruption, match="join again under a new id") as caught:
        f.read_segment(bytes(data), FILE, None)
    assert caught.value.file == FILE
    assert caught.value.offset in (0, len(parts[0]))


def test_a_sealed_segment_must_reach_its_end_exactly() -> None:
    parts = segment(10, 20)
    data = b"".join(parts)
    assert len(f.read_segment(data + b"torn", FILE, len(data))[0]) == 2
    with pytest.raises(Corruption):
        f.read_segment(data[:-1], FILE, len(data))
    with pytest.raises(Corruption, match="crosses"):
        f.read_segment(data, FILE, len(data) - 1)


def test_bytes_in_a_value_that_look_like_a_frame_do_not_stop_a_restart() -> None:
    first = frame(1, b"", head=True)
    foreign = frame(9, b"somebody stored a raft log", mark=8)
    torn = frame(2, foreign + bytes(100))[:-40]
    frames, end = f.read_segment(first + torn, FILE, None)
    assert (len(frames), end) == (1, len(first))


def test_a_hole_in_the_sequence_is_corruption() -> None:
    with pytest.raises(Corruption, match="frame 3 follows 1"):
        f.read_segment(frame(1, b"", head=True) + frame(3, b""), FILE, None)


def test_a_segment_without_a_head_is_corruption() -> None:
    with pytest.raises(Corruption, match="no head"):
        f.read_segment(frame(1, b""), FILE, None)


def test_a_newer_version_is_named() -> None:
    header = f.FRAME_HEADER.pack(f.MAGIC, 2, 0, 0, 0, 0, 1)
    data = header + f.CHECKSUM.pack(crc32c(header))
    with pytest.raises(UnsupportedFormat, match="version 2"):
        f.read_segment(data, FILE, None)


def test_a_sound_frame_with_a_senseless_body_is_corruption() -> None:
    body = b"\xc1"
    header = f.FRAME_HEADER.pack(f.MAGIC, 1, 0, len(body), crc32c(body), 0, 1)
    data = header + f.CHECKSUM.pack(crc32c(header)) + body
    with pytest.raises(Corruption, match="cannot be read"):
        f.read_segment(data, FILE, None)
