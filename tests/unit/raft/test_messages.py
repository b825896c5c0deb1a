from __future__ import annotations

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import Corruption
from stele.raft import messages as msg
from stele.raft.entries import Entry, EntryKind, Snapshot
from stele.raft.membership import Membership

NUMBER = st.integers(0, 2**62)
ENTRY = st.builds(Entry, NUMBER, NUMBER, st.sampled_from(EntryKind), st.binary(max_size=20))
SNAPSHOT = st.builds(Snapshot, NUMBER, NUMBER, st.just(Membership((1, 2), (3,), {1: "host:1"})))
MESSAGES: st.SearchStrategy[msg.Message] = st.one_of(
    st.builds(
        msg.AppendRequest,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        st.lists(ENTRY, max_size=3).map(tuple),
        NUMBER,
    ),
    st.builds(msg.InstallSnapshot, NUMBER, NUMBER, NUMBER, SNAPSHOT),
    st.builds(msg.ReadRequest, NUMBER, NUMBER, NUMBER, NUMBER, st.lists(NUMBER).map(tuple)),
    st.builds(
        msg.ReadResponse, NUMBER, NUMBER, NUMBER, NUMBER, st.lists(NUMBER).map(tuple), NUMBER
    ),
    st.builds(msg.VoteRequest, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, st.booleans()),
    st.builds(msg.VoteResponse, NUMBER, NUMBER, NUMBER, st.booleans()),
    st.builds(msg.PreVoteRequest, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER),
    st.builds(msg.PreVoteResponse, NUMBER, NUMBER, NUMBER, NUMBER, st.booleans()),
    st.builds(msg.AppendAccepted, NUMBER, NUMBER, NUMBER, NUMBER),
    st.builds(msg.AppendRejected, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER),
    st.builds(msg.Heartbeat, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER),
    st.builds(msg.HeartbeatResponse, NUMBER, NUMBER, NUMBER, NUMBER),
    st.builds(msg.TimeoutNow, NUMBER, NUMBER, NUMBER),
)


@given(MESSAGES)
def test_what_is_encoded_comes_back(message: msg.Message) -> None:
    assert msg.decode_message(msg.encode_message(message)) == message


@given(MESSAGES, st.data())
def test_damaged_bytes_are_refused_or_are_another_message(
    message: msg.Message, data: st.DataObject
) -> None:
    encoded = bytearray(msg.encode_message(message))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    try:
        decoded = msg.decode_message(bytes(encoded))
    except Corruption:
        return
    assert isinstance(decoded, typing.get_args(msg.Message))


def test_every_damaged_byte_of_a_snapshot_message_is_survived() -> None:
    group = Membership((1, 2), (3,), {1: "host:1"})
    encoded = msg.encode_message(msg.InstallSnapshot(1, 2, 3, Snapshot(4, 3, group)))
    refused = 0
    for at in range(len(encoded)):
        for flip in range(1, 256):
            damaged = bytearray(encoded)
            damaged[at] ^= flip
            try:
                msg.decode_message(bytes(damaged))
            except Corruption:
                refused += 1
    assert refused > 0


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\xa3foo", b"\x92\xa4vote\x01"])
def test_other_bytes_are_corruption(data: bytes) -> None:
    with pytest.raises(Corruption, match="raft message"):
        msg.decode_message(data)


def test_tags_are_format_and_stay() -> None:
    kinds = typing.get_args(msg.Message)
    assert [kind.__struct_config__.tag for kind in kinds] == [
        "append",
        "append-ok",
        "append-no",
        "beat",
        "beat-ok",
        "prevote",
        "prevote-ok",
        "vote",
        "vote-ok",
        "timeout-now",
        "snapshot",
        "read",
        "read-ok",
    ]


def test_bytes_of_a_message() -> None:
    beat = msg.Heartbeat(1, 2, 3, commit=4, round=5)
    assert msg.encode_message(beat) == msgspec.msgpack.encode(["beat", 1, 2, 3, 4, 5])
    entry = Entry(7, 8, EntryKind.DATA, b"x")
    append = msg.AppendRequest(1, 2, 3, prev_index=7, prev_term=6, entries=(entry,), commit=5)
    assert msg.encode_message(append) == msgspec.msgpack.encode(
        ["append", 1, 2, 3, 7, 6, [[7, 8, 0, b"x"]], 5]
    )
